// What a call of a tool costs beside what the tool does, and that nothing of it is left behind.
import t from 'tap';
import { settledBytesInUse } from '../../support/bytes-in-use.ts';
import { cpuClock } from '../../support/cpu-clock.ts';
import { aloneOf, mcpPlace, requestOf } from './mcp-place.ts';

/** Calls of one burst, and bursts of which the median counts. */
const CALLS = 200;
const BURSTS = 15;

t.test('one call costs well under a millisecond of CPU at the median, with a session and without', async (t) => {
  const place = mcpPlace();
  const session = { 'mcp-session-id': await place.begin('2025-11-25') };
  const { body, headers } = aloneOf('tools/call', { name: 'list_things', arguments: { limit: 3 } });
  const ways = {
    'with a session': () => place.post(requestOf('tools/call', { name: 'list_things', arguments: { limit: 3 } }), session),
    'without one': () => place.post(body, headers),
  };
  for (const [way, call] of Object.entries(ways)) {
    const costs: number[] = [];
    for (let burst = 0; burst < BURSTS; burst += 1) {
      const cpu = cpuClock();
      for (let at = 0; at < CALLS; at += 1) await call();
      costs.push(cpu.spent() / CALLS);
      place.tools.calls.length = 0;
    }
    const median = costs.sort((a, b) => a - b)[Math.floor(BURSTS / 2)] ?? Number.POSITIVE_INFINITY;
    t.comment(`${way}: ${(median * 1_000).toFixed(1)} µs`);
    t.ok(median < 1, `${way}: ${median} ms`);
  }
  t.equal(place.endpoint.sessions.size, 1, 'a call leaves no session behind');
});

t.test('nothing of a call is held when it is answered', async (t) => {
  const place = mcpPlace();
  const session = { 'mcp-session-id': await place.begin('2025-11-25') };
  const calls = async (count: number) => {
    for (let at = 0; at < count; at += 1) await place.post(requestOf('tools/call', { name: 'list_things' }), session);
    place.tools.calls.length = 0;
  };
  await calls(500);
  const before = await settledBytesInUse();
  await calls(5_000);
  const held = (await settledBytesInUse()) - before;
  // A hundred bytes of each call would be half a megabyte.
  t.ok(held < 250_000, `${held} bytes of 5,000 calls`);
});
