import t from 'tap';
import type { RejectionSignal } from '../../../src/base/events/events.ts';
import { createLogger } from '../../../src/base/lib/log.ts';
import { PinnedHosts } from '../../../src/services/learning/pinned-hosts.ts';
import { fakeClock } from '../../support/fake-clock.ts';

function learner() {
  const clock = fakeClock();
  const lines: Record<string, unknown>[] = [];
  const write = (line: string): void => void lines.push(JSON.parse(line) as Record<string, unknown>);
  const pinned = new PinnedHosts({ clock, log: createLogger({ level: 'warn', format: 'json', destination: { write } }) });
  const reject = (host: string, signal: RejectionSignal): void => pinned.events.handshakeRejected?.({ host, signal });
  return { clock, lines, reject };
}

t.test('each host is counted by signal, which is said once per host and hour', (t) => {
  const { clock, lines, reject } = learner();
  reject('a.example', 'alert');
  reject('a.example', 'alert');
  reject('b.example', 'silent_close');
  clock.advance(3_599_999);
  reject('a.example', 'alert');
  t.match(lines, [
    { level: 'warn', host: 'a.example', signal: 'alert', alerts: 1, silent_closes: 0 },
    { level: 'warn', host: 'b.example', signal: 'silent_close' },
  ]);
  t.equal(lines.length, 2);
  clock.advance(1);
  reject('a.example', 'silent_close');
  reject('a.example', 'silent_close');
  t.equal(lines.length, 3);
  t.match(lines[2], { host: 'a.example', alerts: 3, silent_closes: 1 });
  t.end();
});

t.test('a thousand hosts are remembered, those of longest ago are forgotten', (t) => {
  const { clock, lines, reject } = learner();
  for (let i = 0; i < 1_500; i++) {
    clock.advance(1_000);
    reject(`r${i}.openai.azure.com`, 'alert');
    reject('api.openai.com', 'alert');
  }
  t.equal(lines.length, 1_501, 'a host that is rejected now and then is not forgotten');
  reject('r501.openai.azure.com', 'alert');
  t.equal(lines.length, 1_501);
  reject('r500.openai.azure.com', 'alert');
  t.match(lines.slice(1_501), [{ host: 'r500.openai.azure.com', alerts: 1 }], 'it is new again');
  t.end();
});

t.test('names that clients make up are few lines of the log, and the next one says how many were kept back', (t) => {
  const { clock, lines, reject } = learner();
  for (let i = 0; i < 100; i++) reject(`r${i}.openai.azure.com`, 'alert');
  t.equal(lines.length, 20);
  clock.advance(10_000);
  reject('r99.openai.azure.com', 'alert');
  t.match(lines.slice(20), [{ host: 'r99.openai.azure.com', alerts: 2, suppressed: 80 }], 'it was not said before');
  t.end();
});
