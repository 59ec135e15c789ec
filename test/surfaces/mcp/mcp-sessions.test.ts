// Sessions: whose they are, how long they last, and what happens when there are too many.
import t from 'tap';
import { initializeOf, mcpPlace, principalOf, requestOf } from './mcp-place.ts';

const PING = requestOf('ping');
const HOUR = 3_600_000;

t.test('what belongs to a session says which, and one that is missing or unknown is told apart', async (t) => {
  const { post, begin } = mcpPlace();
  const session = await begin('2025-11-25');
  t.equal((await post(PING, { 'mcp-session-id': session })).status, 200);
  const missing = await post(PING);
  t.match(missing, { status: 400, json: { id: 1, error: { code: -32_001, data: { code: 'invalid_session' } } } });
  const unknown = await post(PING, { 'mcp-session-id': 'nobody-knows-this' });
  t.match(unknown, { status: 404, json: { id: 1, error: { code: -32_001, data: { code: 'invalid_session' } } } });
  t.match(await post([PING], { 'mcp-session-id': 'nobody-knows-this' }), { status: 404 });
  t.match(await post(initializeOf('2025-11-25'), { 'mcp-session-id': 'nobody-knows-this' }), { status: 404 });
  t.match(await post(initializeOf('2025-11-25'), { 'mcp-session-id': session }), { status: 400, json: { error: { code: -32_600 } } });
});

// Holds: mcp-sessions-have-one-key
t.test('a session is found by the key that began it, and by no other', async (t) => {
  const { post, begin, endpoint } = mcpPlace();
  const session = { 'mcp-session-id': await begin('2025-11-25', principalOf('mine')) };
  t.equal((await post(PING, session, principalOf('other'))).status, 404);
  const asOther = { headers: session, asker: { principal: principalOf('other'), from: '127.0.0.1' } };
  t.equal(endpoint.end(asOther).status, 404);
  t.equal((await post(PING, session, principalOf('mine'))).status, 200);
});

t.test('DELETE ends a session, once', async (t) => {
  const { post, begin, endpoint } = mcpPlace();
  const session = { 'mcp-session-id': await begin('2025-11-25') };
  const asker = { principal: principalOf('k1'), from: '127.0.0.1' };
  t.strictSame(endpoint.end({ headers: session, asker }), { status: 204 });
  t.equal((await post(PING, session)).status, 404);
  t.equal(endpoint.end({ headers: session, asker }).status, 404);
  t.equal(endpoint.end({ headers: {}, asker }).status, 400);
});

// Holds: mcp-sessions-have-one-key
t.test('a session ends an hour after its last use', async (t) => {
  const { post, begin, clock, endpoint } = mcpPlace();
  const used = { 'mcp-session-id': await begin('2025-11-25') };
  const left = { 'mcp-session-id': await begin('2025-11-25') };
  clock.advance(HOUR - 1);
  t.equal((await post(PING, used)).status, 200);
  clock.advance(1);
  t.equal((await post(PING, left)).status, 404);
  t.equal(endpoint.sessions.size, 1, 'nothing of it is kept');
  clock.advance(HOUR - 2);
  t.equal((await post({ jsonrpc: '2.0', method: 'notifications/initialized' }, used)).status, 202, 'a notification is a use');
  clock.advance(HOUR);
  t.equal((await post(PING, used)).status, 404);
  t.equal(clock.pending, 0, 'no timer follows them');
});

t.test('of too many sessions of a key the one that was idle longest goes, and those of others stay', async (t) => {
  const { post, begin } = mcpPlace({ max: 100, maxOfOwner: 3 });
  const other = { 'mcp-session-id': await begin('2025-11-25', principalOf('other')) };
  const own: string[] = [];
  for (let at = 0; at < 3; at += 1) own.push(await begin('2025-11-25'));
  t.equal((await post(PING, { 'mcp-session-id': own[0] ?? '' })).status, 200);
  own.push(await begin('2025-11-25'));
  const states = await Promise.all(own.map(async (id) => (await post(PING, { 'mcp-session-id': id })).status));
  t.strictSame(states, [200, 404, 200, 200]);
  t.equal((await post(PING, other, principalOf('other'))).status, 200);
});

t.test('forty keys of an org, and then twenty orgs, that begin ever new sessions take none from an org within its share', async (t) => {
  const { post, begin, endpoint } = mcpPlace({ max: 64, maxOfOwner: 16 });
  const of = (org: string, key: string) => principalOf(key, ['read'], org);
  const victim = of('victim', 'v');
  const held = [await begin('2025-11-25', victim), await begin('2025-11-25', victim)];
  const alive = async () => {
    const states: number[] = [];
    for (const id of held) states.push((await post(PING, { 'mcp-session-id': id }, victim)).status);
    return states;
  };
  for (let at = 0; at < 400; at += 1) await begin('2025-11-25', of('greedy', `k${at % 40}`));
  t.strictSame(await alive(), [200, 200], 'the forty keys take from their own org alone');
  t.ok(endpoint.sessions.size <= 34, 'and have half of the places');
  for (let at = 0; at < 2_000; at += 1) await begin('2025-11-25', of(`org-${at % 20}`, `k${at % 7}`));
  t.strictSame(await alive(), [200, 200], 'nor do twenty orgs, when all places are taken');
  t.ok(endpoint.sessions.size <= 64);
  const late = await begin('2025-11-25', of('late', 'l'));
  t.equal((await post(PING, { 'mcp-session-id': late }, of('late', 'l'))).status, 200, 'and an org that comes late finds a place');
  t.strictSame(await alive(), [200, 200]);
});

t.test('within an org a key that has few sessions loses none to one that has many', async (t) => {
  const { post, begin } = mcpPlace({ max: 32, maxOfOwner: 32 });
  const few = await begin('2025-11-25', principalOf('few'));
  for (let at = 0; at < 100; at += 1) await begin('2025-11-25', principalOf('many'));
  t.equal((await post(PING, { 'mcp-session-id': few }, principalOf('few'))).status, 200);
});
