import t from 'tap';
import type { RejectionSignal } from '../../src/base/events/execution-event.ts';
import { createLogger } from '../../src/base/lib/log.ts';
import { PinnedHosts } from '../../src/services/pinned-hosts.ts';
import { fakeClock } from '../support/fake-clock.ts';

function learner() {
  const clock = fakeClock();
  const lines: Record<string, unknown>[] = [];
  const write = (line: string): void => void lines.push(JSON.parse(line) as Record<string, unknown>);
  const pinned = new PinnedHosts({ clock, log: createLogger({ level: 'warn', format: 'json', destination: { write } }) });
  const reject = (host: string, signal: RejectionSignal): void => pinned.events.handshakeRejected?.({ host, signal });
  return { clock, lines, pinned, reject };
}

t.test('each host is counted by signal, with first and last time, the most recent first', (t) => {
  const { clock, pinned, reject } = learner();
  t.same(pinned.list(), []);
  const start = clock.now();
  reject('api.openai.com', 'alert');
  clock.advance(1_000);
  reject('api.anthropic.com', 'silent_close');
  clock.advance(1_000);
  reject('api.openai.com', 'silent_close');
  reject('api.openai.com', 'silent_close');
  t.same(pinned.list(), [
    { host: 'api.openai.com', alerts: 1, silentCloses: 2, firstAt: start, lastAt: start + 2_000 },
    { host: 'api.anthropic.com', alerts: 0, silentCloses: 1, firstAt: start + 1_000, lastAt: start + 1_000 },
  ]);
  t.end();
});

t.test('it is said once per host and hour, with what was counted', (t) => {
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
  const { pinned, reject } = learner();
  for (let i = 0; i < 1_500; i++) {
    reject(`r${i}.openai.azure.com`, 'alert');
    reject('api.openai.com', 'alert');
  }
  const hosts = pinned.list().map(({ host }) => host);
  t.equal(hosts.length, 1_000);
  t.same(hosts.slice(0, 2), ['api.openai.com', 'r1499.openai.azure.com']);
  t.notOk(hosts.includes('r0.openai.azure.com'));
  t.end();
});
