import t from 'tap';
import { EventBus } from '../../../src/base/events/bus.ts';
import { createLogger, silentLogger } from '../../../src/base/lib/log.ts';

t.test('whoever has subscribed to a name is told of it, in the order of coming, until the subscription ends', (t) => {
  const bus = new EventBus(silentLogger);
  const heard: string[] = [];
  const first = bus.subscribe(['replayed', 'callerHeld'], (host, name) => heard.push(`first ${name} ${host}`));
  bus.attach({ callerHeld: (host) => heard.push(`second callerHeld ${host}`) });
  bus.emit('replayed', 'a');
  bus.emit('callerHeld', 'b');
  first();
  first();
  bus.emit('replayed', 'c');
  bus.emit('callerHeld', 'd');
  t.same(heard, ['first replayed a', 'first callerHeld b', 'second callerHeld b', 'second callerHeld d']);
  t.end();
});

t.test('the same listener may be subscribed twice, and each subscription ends alone', (t) => {
  const bus = new EventBus(silentLogger);
  let heard = 0;
  const listener = (): void => void heard++;
  const end = bus.subscribe(['callerHeld'], listener);
  bus.subscribe(['callerHeld'], listener);
  bus.emit('callerHeld', 'a');
  end();
  bus.emit('callerHeld', 'b');
  t.equal(heard, 3);
  t.end();
});

// Holds: one-bus
t.test('a listener that throws is logged and keeps the event from nobody', (t) => {
  const lines: string[] = [];
  const log = createLogger({ level: 'error', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
  const bus = new EventBus(log);
  const heard: string[] = [];
  bus.subscribe(['callerHeld'], () => {
    throw new Error('of a listener');
  });
  bus.subscribe(['callerHeld'], (host) => heard.push(host));
  bus.emit('callerHeld', 'a');
  t.same(heard, ['a']);
  t.equal(lines.length, 1);
  t.match(JSON.parse(lines[0] ?? ''), { event: 'callerHeld', msg: 'a listener failed', err: { message: 'of a listener' } });
  t.end();
});

t.test('who comes or goes while an event is told changes nothing of it', (t) => {
  const bus = new EventBus(silentLogger);
  const heard: string[] = [];
  bus.subscribe(['callerHeld'], (host) => {
    heard.push(`first ${host}`);
    end();
    bus.subscribe(['callerHeld'], (later) => heard.push(`later ${later}`));
  });
  const end = bus.subscribe(['callerHeld'], (host) => heard.push(`second ${host}`));
  bus.emit('callerHeld', 'a');
  t.same(heard, ['first a', 'second a']);
  t.end();
});

t.test('the bus says of a name whether anybody listens, so that nothing is put together for nobody', (t) => {
  const bus = new EventBus(silentLogger);
  t.notOk(bus.hears('callerHeld'));
  const ends = [bus.subscribe(['callerHeld'], () => undefined), bus.subscribe(['callerHeld'], () => undefined)];
  t.ok(bus.hears('callerHeld'));
  t.notOk(bus.hears('replayed'));
  for (const end of ends) {
    t.ok(bus.hears('callerHeld'));
    end();
  }
  t.notOk(bus.hears('callerHeld'));
  t.end();
});
