import t from 'tap';
import { EventBus } from '../../../src/base/events/bus.ts';
import { createLogger, silentLogger } from '../../../src/base/lib/log.ts';

t.test('whoever has subscribed to a name is told of it, in the order of coming, until the subscription ends', (t) => {
  const bus = new EventBus(silentLogger);
  const heard: string[] = [];
  const first = bus.subscribe(['connected', 'passed'], (host, name) => heard.push(`first ${name} ${host}`));
  bus.attach({ passed: (host) => heard.push(`second passed ${host}`) });
  bus.emit('connected', 'a');
  bus.emit('passed', 'b');
  first();
  first();
  bus.emit('connected', 'c');
  bus.emit('passed', 'd');
  t.same(heard, ['first connected a', 'first passed b', 'second passed b', 'second passed d']);
  t.end();
});

t.test('the same listener may be subscribed twice, and each subscription ends alone', (t) => {
  const bus = new EventBus(silentLogger);
  let heard = 0;
  const listener = (): void => void heard++;
  const end = bus.subscribe(['passed'], listener);
  bus.subscribe(['passed'], listener);
  bus.emit('passed', 'a');
  end();
  bus.emit('passed', 'b');
  t.equal(heard, 3);
  t.end();
});

t.test('a listener that throws is logged and keeps the event from nobody', (t) => {
  const lines: string[] = [];
  const log = createLogger({ level: 'error', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
  const bus = new EventBus(log);
  const heard: string[] = [];
  bus.subscribe(['passed'], () => {
    throw new Error('of a listener');
  });
  bus.subscribe(['passed'], (host) => heard.push(host));
  bus.emit('passed', 'a');
  t.same(heard, ['a']);
  t.equal(lines.length, 1);
  t.match(JSON.parse(lines[0] ?? ''), { event: 'passed', msg: 'a listener failed', err: { message: 'of a listener' } });
  t.end();
});

t.test('who comes or goes while an event is told changes nothing of it', (t) => {
  const bus = new EventBus(silentLogger);
  const heard: string[] = [];
  bus.subscribe(['passed'], (host) => {
    heard.push(`first ${host}`);
    end();
    bus.subscribe(['passed'], (later) => heard.push(`later ${later}`));
  });
  const end = bus.subscribe(['passed'], (host) => heard.push(`second ${host}`));
  bus.emit('passed', 'a');
  t.same(heard, ['first a', 'second a']);
  t.end();
});

t.test('the bus says of a name whether anybody listens, so that nothing is put together for nobody', (t) => {
  const bus = new EventBus(silentLogger);
  t.notOk(bus.hears('passed'));
  const ends = [bus.subscribe(['passed'], () => undefined), bus.subscribe(['passed'], () => undefined)];
  t.ok(bus.hears('passed'));
  t.notOk(bus.hears('connected'));
  for (const end of ends) {
    t.ok(bus.hears('passed'));
    end();
  }
  t.notOk(bus.hears('passed'));
  t.end();
});
