// What stops hold, on a real store: by each member of their scopes, at another writer too, until they end; and calls
// under way, which end with them.
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { EventBus } from '../../../src/base/events/bus.ts';
import { timestamp } from '../../../src/base/lib/clock.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import type { Principal } from '../../../src/base/model/principal.ts';
import type { StopScope } from '../../../src/base/model/stop.ts';
import { RunningCalls } from '../../../src/services/review/running-calls.ts';
import { type StoppableCall, StopService } from '../../../src/services/review/stops.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';

const OPERATOR: Principal = { kind: 'admin', id: 'admin', scopes: ['admin'] };
const ACME: Principal = { kind: 'management_key', id: 'k1', name: 'olga', orgId: 'acme', scopes: ['write'] };
const catalogue = loadCatalogue();

function callOf(providerId: string | undefined, model?: string, path = '/v1/chat/completions'): StoppableCall {
  const provider = providerId === undefined ? undefined : catalogue.provider(providerId);
  const operation = provider && catalogue.operation(provider, 'POST', path);
  const place = { connectorId: providerId ?? 'generic_http', provider, operation, model, named: undefined };
  return { orgId: 'acme', workloadId: 'ci', place };
}

async function open(t: HasTeardown) {
  const clock = fakeClock();
  const store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  const events = new EventBus(silentLogger);
  const options = { store, clock, events };
  const stops = await StopService.open(options);
  t.teardown(() => stops.close());
  const make = (scope: StopScope, more: { until?: string; principal?: Principal } = {}) =>
    stops.make({ scope, reason: 'leak', principal: OPERATOR, ...more });
  return { ...options, options, stops, make };
}

// Holds: stops-hold-at-once
t.test('a stop holds calls that have every member of its scope, and no others', async (t) => {
  const { stops, make } = await open(t);
  const gpt = callOf('openai', 'gpt-4o');
  t.equal(stops.any, false);
  t.equal(stops.holding(gpt), undefined);
  const held = async (scope: StopScope, call: StoppableCall): Promise<boolean> => {
    const { stop_id: id } = await make(scope);
    const told = stops.holding(call);
    await stops.end({ id }, OPERATOR);
    if (told !== undefined) t.match(told, { stop_id: id, reason: 'leak' });
    return told !== undefined;
  };
  for (const scope of [
    {},
    { org: 'acme' },
    { workload: 'ci' },
    { provider: 'openai' },
    { model: 'gpt-4o' },
    { org: 'acme', workload: 'ci', provider: 'openai', model: 'GPT-4o' },
  ])
    t.ok(await held(scope, gpt), JSON.stringify(scope));
  for (const scope of [
    { org: 'b' },
    { workload: 'b' },
    { provider: 'mistral' },
    { model: 'gpt-4' },
    { org: 'acme', model: 'gpt-4' },
    { org: 'b', provider: 'openai' },
  ])
    t.notOk(await held(scope, gpt), JSON.stringify(scope));
  const early = { ...gpt, place: undefined };
  t.ok(await held({ org: 'acme' }, early));
  t.notOk(await held({ provider: 'openai' }, early), 'where it goes is not settled');
  t.ok(await held({ provider: 'openai' }, { ...early, place: { ...callOf('openai').place!, connectorId: 'generic_http' } }));
  t.notOk(await held({ model: 'gpt-4o' }, callOf(undefined, 'gpt-4o')), 'no AI call');
  t.equal(stops.any, false);
});

t.test('a model is stopped by any spelling of its name, with its snapshots; calls that hide their model are held too', async (t) => {
  const { stops, make } = await open(t);
  const holds = async (stopped: string, call: StoppableCall): Promise<boolean> => {
    const { stop_id: id } = await make({ model: stopped });
    const isHeld = stops.holding(call) !== undefined;
    await stops.end({ id }, OPERATOR);
    return isHeld;
  };
  for (const [stopped, provider, model] of [
    ['gpt-4o', 'openai', 'gpt-4o-2024-08-06'],
    ['gpt-4o', 'openai', 'ft:gpt-4o-2024-08-06:acme::a1b2c3'],
    ['gpt-4o', 'openrouter', 'openai/gpt-4o'],
    ['openai/gpt-4o', 'openai', 'gpt-4o'],
    ['models/gemini-2.5-pro', 'google', 'gemini-2.5-pro'],
    ['claude-sonnet-4', 'bedrock', 'us.anthropic.claude-sonnet-4-20250514-v1:0'],
    ['llama-3.3-70b-instruct', 'openrouter', 'meta-llama/llama-3.3-70b-instruct:nitro'],
  ] as const)
    t.ok(await holds(stopped, callOf(provider, model)), `${stopped} holds ${model}`);
  for (const [stopped, model] of [
    ['gpt-4o', 'gpt-4o-mini'],
    ['gpt-4', 'gpt-4o'],
    ['gpt-4o-2024-08-06', 'gpt-4o-2024-11-20'],
    ['gpt-4o-2024-08-06', 'gpt-4o'],
  ] as const)
    t.notOk(await holds(stopped, callOf('openai', model)), `${stopped} does not hold ${model}`);
  t.ok(await holds('gpt-4o', callOf('openai', undefined, '/v1/unheard/of')), 'of an operation that nobody understands');
  const tunnel = { ...callOf('openai'), place: { ...callOf('openai').place!, operation: undefined } };
  t.ok(await holds('gpt-4o', tunnel), 'what passes in a tunnel');
  const named = { alternatives: [{ model: 'gpt-4o', place: {} as never, said: undefined }], inner: [], hidden: false };
  t.ok(await holds('gpt-4o', { ...callOf('openai'), place: { ...callOf('openai', 'gpt-4').place!, named } }), 'an alternative');
});

t.test('several stand at once; each is ended by its id, or with all of its scope, and only by who may', async (t) => {
  const { stops, make, clock } = await open(t);
  const first = await make({ org: 'acme' });
  clock.advance(1);
  const theirs = await make({ org: 'acme', model: 'gpt-4o' }, { principal: ACME });
  clock.advance(1);
  await make({ org: 'b' });
  t.match(first, { org_id: 'acme', created_by: 'admin', created_by_principal: { kind: 'admin' }, reason: 'leak' });
  t.match(theirs, { created_by: 'olga', by_org: true });
  t.same(
    stops.list('acme').map(({ stop_id: id }) => id),
    [theirs.stop_id, first.stop_id],
  );
  t.equal(stops.active, 3);
  await t.rejects(stops.end({ id: first.stop_id }, ACME), { code: 'forbidden', message: /operator/ });
  t.same(await stops.end({ id: 'nobody' }, ACME), []);
  t.same(await stops.end({ scope: { org: 'b' } }, ACME), [], 'it is of another org');
  t.match(await stops.end({ scope: { model: 'gpt-4o', org: 'acme' } }, ACME), [theirs]);
  t.match(await stops.end({ id: first.stop_id }, { ...ACME, session: { program: 'gw' } }), [first], 'who has the admin token');
  t.equal(stops.holding(callOf('openai', 'gpt-4o')), undefined);
  for (let at = 0; at < 1_000; at += 1) await make({ workload: 'x' });
  await t.rejects(make({}), { code: 'limit_reached' });
});

t.test('it ends by itself, also after a start, and is removed when it has ended', async (t) => {
  const { stops, make, clock, options } = await open(t);
  const call = callOf('openai', 'gpt-4o');
  await make({}, { until: timestamp(clock.now() + 60_000) });
  const again = await StopService.open({ ...options, events: new EventBus(silentLogger) });
  t.teardown(() => again.close());
  for (const one of [stops, again]) t.match(one.holding(call), { reason: 'leak' });
  t.match(stops.warnings(), [{ code: 'calls_stopped' }]);
  clock.advance(60_000);
  for (const one of [stops, again]) {
    t.equal(one.any, false);
    t.same([one.holding(call), one.list(), one.active, one.warnings()], [undefined, [], 0, []]);
  }
  t.equal(await stops.removeBefore(clock.now()), 0);
  t.equal(await stops.removeBefore(clock.now() + 1), 1);
});

// Holds: stops-hold-at-once
t.test('what is under way ends once when a stop holds it, by whichever writer, and nothing else does', async (t) => {
  const { stops, make, events, options } = await open(t);
  const quarantines = { active: 0, holding: () => undefined };
  const running = new RunningCalls({ quarantines, stops, events, endsHeld: false });
  const ended: string[] = [];
  const under = (call: StoppableCall) => ({ ...call, callerId: undefined, callerIp: '192.0.2.1' });
  const watch = (name: string, call: StoppableCall) =>
    running.watch(under(call), ({ code, message }) => ended.push(`${name} ${code}: ${message}`));
  watch('gpt', callOf('openai', 'gpt-4o'));
  watch('over', callOf('openai', 'gpt-4o'))();
  watch('mini', callOf('openai', 'gpt-4o-mini'));
  const other = await StopService.open({ ...options, events: new EventBus(silentLogger) });
  t.teardown(() => other.close());
  await other.make({ scope: { model: 'gpt-4o' }, reason: 'leak', principal: OPERATOR });
  while (ended.length === 0) await new Promise(setImmediate);
  t.match(ended, [/^gpt stopped: .*: leak$/]);
  watch('late', callOf('openai', 'gpt-4o'));
  t.match(ended[1], /^late/, 'what began meanwhile ends at once');
  await make({});
  t.match(ended.slice(2), [/^mini/]);
});
