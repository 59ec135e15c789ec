import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { EventBus } from '../../../src/base/events/bus.ts';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { createLogger, silentLogger } from '../../../src/base/lib/log.ts';
import { decide } from '../../../src/decide/policy/evaluate.ts';
import { plainCall } from '../../../src/decide/policy/given-facts.ts';
import { MAX_PUT_LENGTH } from '../../../src/operations/policy-operations.ts';
import { FolderWatch } from '../../../src/services/keeper/folder-watch.ts';
import { PolicyService } from '../../../src/services/policy/policies.ts';
import { policyWarnings } from '../../../src/services/policy/policy-warnings.ts';
import { ShadowPolicy } from '../../../src/services/policy/shadow-policy.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import type { Route, RouteRequest } from '../../../src/surfaces/http/route.ts';
import { runningClock } from '../../support/fake-clock.ts';
import { policyRoutes } from '../../support/operation-routes.ts';
import { boundTo } from '../../support/played-line.ts';
import { refusal, somePlace } from '../../support/policies-place.ts';
import type { HasTeardown } from '../../support/temp-dir.ts';

const bundle = (id: string, more = '') =>
  `schema: gw.policy_bundle.v1\nbundle_id: ${id}\nversion: "1.10"\ninline_rules: {risk: [{id: ok, effect: {decision: allow}}]}\n${more}`;

t.test('the folder is loaded with its overlays, and says what is active', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', bundle('folder'));
  place.write('overlays/org.yaml', 'schema: gw.policy_bundle.v1\nversion: "2"\n');
  const active = (await place.open()).current();
  t.match(active, { bundle_id: 'folder', version: '2', source: 'file', loaded_at: place.clock.now(), content_hash: /^[0-9a-f]{64}$/ });
  t.equal(active.policy.ruleCount, 1);
});

t.test('add-ons and named rule files are read from the folder', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', 'schema: gw.policy_bundle.v1\n');
  place.write('addons/a.yaml', '{schema: gw.rule_file.v1, layer: risk, rules: [{id: a, effect: {decision: allow}}]}');
  place.write('addons/.hidden.yaml', 'nonsense: [');
  place.write('addons/notes.txt', 'nonsense: [');
  t.equal((await place.open()).current().policy.ruleCount, 1);
  place.write('bundle.yaml', 'schema: gw.policy_bundle.v1\nfiles: [addons/a.yaml, own.yaml]\n');
  place.write('own.yaml', '{schema: gw.rule_file.v1, layer: risk, rules: [{id: b, effect: {decision: deny}}]}');
  t.equal((await place.open()).current().policy.ruleCount, 2);
});

t.test('a missing folder, a missing bundle and a file that is no text are start errors that say so', async (t) => {
  const place = await somePlace(t);
  t.match(await refusal(place.open()), { code: 'invalid_policy', message: /bundle\.yaml does not exist/ });
  writeFileSync(join(place.dir, 'bundle.yaml'), Buffer.from([0xff, 0xfe, 0x41]));
  t.match(await refusal(place.open()), { code: 'invalid_policy', message: /not UTF-8/ });
  rmSync(place.dir, { recursive: true });
  t.match(await refusal(place.open()), { code: 'invalid_policy', message: /GW_POLICIES_DIR/ });
});

t.test('a broken bundle is a start error with every mistake, each with its line', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', bundle('x', 'bundel: 1\n'));
  place.write('overlays/node.yaml', '{schema: gw.policy_bundle.v1, inline_rules: {risk: [{id: a, effect: {decision: alow}}]}}');
  const error = await refusal(place.open());
  t.equal(error.details?.length, 2);
  t.match(error.message, /\nbundle\.yaml:5:1: error\[unknown_key\]: unknown key of a bundle "bundel"/);
  t.match(
    error.message,
    /\noverlays\/node\.yaml:1:80: error\[unknown_decision\]: unknown decision "alow"\n[\s\S]*\^\^\^\^\n.*rule: a\n.*hint: did you mean "allow"\?/,
  );
});

t.test('a bundle that is put is active at once, under the overlays of the folder and without its add-ons', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', 'schema: gw.policy_bundle.v1\n');
  place.write('addons/a.yaml', '{schema: gw.rule_file.v1, layer: risk, rules: [{id: a, effect: {decision: allow}}]}');
  place.write('overlays/org.yaml', '{schema: gw.policy_bundle.v1, inline_rules: {identity: [{id: o, effect: {decision: deny}}]}}');
  const service = await place.open();
  const before = service.current();
  place.clock.advance(1000);
  const active = await service.put('schema: gw.policy_bundle.v1\nbundle_id: put\n');
  t.equal(service.current(), active);
  t.match(active, { bundle_id: 'put', source: 'api', loaded_at: before.loaded_at + 1000 });
  t.same(
    active.policy.layers.flatMap((layer) => layer.rules.map((rule) => rule.id)),
    ['o'],
  );
  t.equal(before.policy.ruleCount, 2, 'the snapshot that a request holds stays what it was');
});

t.test('a bundle that does not load leaves the running one in place and names each mistake', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', bundle('folder'));
  const service = await place.open();
  const before = service.current();
  const error = await refusal(service.put('schema: gw.policy_bundle.v1\nfiles: [a.yaml]\nother: 1\n'));
  t.match(error, { code: 'invalid_policy', status: 400 });
  t.match(error.details, [
    { path: 'files', message: /inline_rules/, file: 'bundle_yaml', line: 2, column: 8, code: 'files_not_allowed' },
    { path: 'other', line: 3, column: 1, code: 'unknown_key' },
  ]);
  t.equal(service.current(), before);
  t.equal(await place.store.get('policy', 'bundle'), undefined);
  place.write('bundle.yaml', 'schema: nothing\n');
  t.match(await refusal(service.reload()), { code: 'invalid_policy', details: [{ file: 'bundle.yaml', code: 'bad_schema' }] });
  t.equal(service.current(), before);
});

/** What a route of the admin surface answers to a body. */
async function call(routes: readonly Route[], method: string, path: string, body?: unknown): Promise<unknown> {
  const route = routes.find((candidate) => candidate.method === method && candidate.path === path);
  if (route === undefined || !('handle' in route)) throw new Error(`there is no route ${method} ${path}`);
  return route.handle({
    params: {},
    query: new URLSearchParams(),
    principal: { kind: 'admin', id: 'admin' },
    json: () => Promise.resolve(body),
  } as unknown as RouteRequest);
}

t.test('a bundle that is put has a largest size, and what is larger is told where it belongs', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', bundle('folder'));
  const service = await place.open();
  const put = (text: string) =>
    call(policyRoutes({ policies: service, shadow: undefined, audit: place.audit }), 'PUT', '/v1/admin/policies', { bundle_yaml: text });
  const large = bundle('large', '#'.repeat(MAX_PUT_LENGTH - bundle('large').length));
  t.match(await put(large), { status: 200, json: { bundle_id: 'large' } });
  t.match(await refusal(put(`${large}#`)), {
    status: 413,
    code: 'body_too_large',
    message: /has 524289 characters and one that is put at most 524288: .*policies folder, in several files under files:, and reload/,
  });
  t.equal(service.current().bundle_id, 'large');
});

t.test('in control-plane mode a reload is refused, and nothing is read', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', bundle('folder'));
  const service = await PolicyService.open({ ...place.options, managedRemotely: true });
  place.options.events.subscribe(['policyLoad'], () => t.fail('the shadow bundle is read'));
  const shadow = new ShadowPolicy({ ...place.options, path: place.dir });
  const before = service.current();
  place.write('bundle.yaml', bundle('changed'));
  t.match(await refusal(service.reload()), { status: 400, code: 'invalid_request', message: /control plane/ });
  t.equal(service.current(), before);
  t.match(await refusal(call(policyRoutes({ policies: service, shadow, audit: place.audit }), 'POST', '/v1/admin/policies/reload')), {
    status: 400,
  });
  t.equal(service.current(), before);
});

t.test('a bundle that was put survives a restart, until reload', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', bundle('folder'));
  const first = await place.open();
  await first.put(bundle('put'));
  place.clock.advance(5000);
  const second = await place.open();
  t.match(second.current(), { bundle_id: 'put', source: 'api', loaded_at: place.clock.now() - 5000 });
  t.equal(second.current().content_hash, first.current().content_hash);
  t.match(await second.reload(), { bundle_id: 'folder', source: 'file' });
  t.match((await place.open()).current(), { bundle_id: 'folder', source: 'file' });
});

t.test('a bundle that was put gives way when any file of the folder has changed', async (t) => {
  for (const file of ['bundle.yaml', 'overlays/node.yaml', 'addons/new.yaml']) {
    const place = await somePlace(t);
    place.write('bundle.yaml', bundle('folder'));
    await (await place.open()).put(bundle('put'));
    place.write('README.md', 'not part of it');
    t.equal((await place.open()).current().bundle_id, 'put');
    place.write(file, file === 'addons/new.yaml' ? '{schema: gw.rule_file.v1, layer: risk, rules: []}' : bundle('changed'));
    t.equal((await place.open()).current().source, 'file', file);
    t.equal(await place.store.get('policy', 'bundle'), undefined);
  }
});

t.test('a bundle that was put and no longer loads stops the start instead of falling back to a wider one', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', bundle('folder'));
  await (await place.open()).put('{schema: gw.policy_bundle.v1, inline_rules: {custom.x: []}}');
  t.match(await refusal(place.open('pro')), { code: 'invalid_policy', message: /put by API no longer loads/ });
});

t.test('changes run one after the other, and the last one stands', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', bundle('folder'));
  const service = await place.open();
  const results = await Promise.allSettled([
    service.put(bundle('one')),
    service.put('nonsense'),
    service.reload(),
    service.put(bundle('two')),
  ]);
  t.same(
    results.map((result) => result.status),
    ['fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
  );
  t.equal(service.current().bundle_id, 'two');
  t.equal((await place.open()).current().bundle_id, 'two');
});

t.test('when the store cannot write, nothing changes', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', bundle('folder'));
  const failing: Store = {
    ...boundTo(place.store),
    commit: () => Promise.reject(new GatewayError('record_store_unavailable', 'disk full')),
  };
  const service = await PolicyService.open({ ...place.options, store: failing });
  t.match(await refusal(service.put(bundle('put'))), { code: 'record_store_unavailable' });
  t.equal(service.current().bundle_id, 'folder');
});

t.test('connector ids are folded to the canonical ones by the given function', async (t) => {
  const place = await somePlace(t);
  place.write(
    'bundle.yaml',
    '{schema: gw.policy_bundle.v1, inline_rules: {connectors: [{id: a, effect: {select_connector: provider_a, decision: allow}}]}}',
  );
  const known = (text: string) => (text === 'provider_a' ? 'openai' : undefined);
  t.equal((await place.open('enterprise', known)).current().policy.layers[0]?.rules[0]?.effects.selectConnector, 'openai');
  t.match(await refusal(place.open('enterprise', () => undefined)), { details: [{ code: 'bad_value' }] });
});

/** Loads as they are reported, and a way to wait for the next one that is not there yet. */
function loads(events: EventBus): { readonly list: string[]; until(count: number): Promise<void> } {
  const list: string[] = [];
  let wake = () => {};
  events.subscribe(['policyLoad'], ({ bundle, trigger, result }) => {
    list.push(`${bundle} ${trigger} ${result}`);
    wake();
  });
  return {
    list,
    until: async (count) => {
      while (list.length < count) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}

/** Follows the folder on the machine's own clock, since the file system's events come in its time. */
function follow(t: HasTeardown, service: PolicyService): void {
  const watch = new FolderWatch({
    folders: () => service.folders(),
    onChange: () => service.follow(),
    clock: runningClock,
    log: silentLogger,
  });
  // Neither watchers nor the clock's timers keep a process alive.
  const alive = setInterval(() => undefined, 60_000);
  t.teardown(() => {
    clearInterval(alive);
    return watch.close();
  });
}

t.test('a folder that is watched is taken after a change, and a broken save leaves what runs', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', bundle('one'));
  const lines: string[] = [];
  const log = createLogger({ level: 'warn', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
  const service = await place.open('enterprise', undefined, log);
  const seen = loads(place.options.events);
  follow(t, service);
  place.write('bundle.yaml', bundle('two'));
  await seen.until(1);
  t.equal(service.current().bundle_id, 'two', 'written in place');
  place.write('bundle.yaml.tmp', bundle('three'));
  renameSync(join(place.dir, 'bundle.yaml.tmp'), join(place.dir, 'bundle.yaml'));
  await seen.until(2);
  t.equal(service.current().bundle_id, 'three', 'as editors save, by renaming');
  place.write('bundle.yaml', bundle('four', 'bundel: x\n'));
  await seen.until(3);
  t.equal(service.current().bundle_id, 'three', 'a broken save');
  t.match(lines.join(''), /bundle\.yaml:5:1: error\[unknown_key\]: unknown key of a bundle/, 'file, line and column are in the log');
  place.write('overlays/node.yaml', 'schema: gw.policy_bundle.v1\nversion: from-overlay\n');
  place.write('bundle.yaml', bundle('five'));
  await seen.until(4);
  t.match(service.current(), { bundle_id: 'five', version: 'from-overlay' }, 'two files that changed together are one change');
  t.same(seen.list, ['active watch loaded', 'active watch loaded', 'active watch refused', 'active watch loaded']);
});

t.test('folders that come later and rule files in folders of their own are watched', async (t) => {
  const place = await somePlace(t);
  rmSync(join(place.dir, 'overlays'), { recursive: true });
  mkdirSync(join(place.dir, 'rules'));
  const rules = (decision: string) => `{schema: gw.rule_file.v1, layer: risk, rules: [{id: a, effect: {decision: ${decision}}}]}`;
  place.write('bundle.yaml', 'schema: gw.policy_bundle.v1\nfiles: [rules/a.yaml]\n');
  place.write('rules/a.yaml', rules('allow'));
  const service = await place.open();
  const seen = loads(place.options.events);
  follow(t, service);
  place.write('rules/a.yaml', rules('deny'));
  await seen.until(1);
  t.equal(service.current().policy.layers[0]?.rules[0]?.decision, 'deny');
  mkdirSync(join(place.dir, 'overlays'));
  place.write('overlays/org.yaml', 'schema: gw.policy_bundle.v1\nversion: "2"\n');
  await seen.until(2);
  t.equal(service.current().version, '2');
  place.write('overlays/org.yaml', 'schema: gw.policy_bundle.v1\nversion: "3"\n');
  await seen.until(3);
  t.equal(service.current().version, '3');
});

t.test('a config map, whose link ..data is swapped, is followed', async (t) => {
  const place = await somePlace(t);
  const version = (name: string) => {
    mkdirSync(join(place.dir, name));
    place.write(`${name}/bundle.yaml`, bundle(name.slice(2)));
    symlinkSync(name, join(place.dir, '..data_tmp'));
    renameSync(join(place.dir, '..data_tmp'), join(place.dir, '..data'));
  };
  version('..one');
  symlinkSync('..data/bundle.yaml', join(place.dir, 'bundle.yaml'));
  const service = await place.open();
  t.equal(service.current().bundle_id, 'one');
  const seen = loads(place.options.events);
  follow(t, service);
  version('..two');
  await seen.until(1);
  t.equal(service.current().bundle_id, 'two');
});

t.test('a bundle that was put stays while the folder stays, and what cannot be read is told once', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', bundle('folder'));
  const lines: string[] = [];
  const log = createLogger({ level: 'error', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
  const service = await place.open('enterprise', undefined, log);
  await service.put(bundle('put'));
  await service.follow();
  t.equal(service.current().bundle_id, 'put', 'nothing changed');
  rmSync(join(place.dir, 'bundle.yaml'));
  await service.follow();
  await service.follow();
  t.equal(lines.length, 1);
  t.match(policyWarnings(service), [{ code: 'policy_change_not_loaded' }], 'health says it for as long as it is so');
  t.equal(service.current().bundle_id, 'put');
  place.write('bundle.yaml', bundle('folder'));
  await service.follow();
  t.equal(service.current().bundle_id, 'put', 'the same content is back');
  t.same(policyWarnings(service), []);
  place.write('bundle.yaml', bundle('folder', 'nonsense: 1\n'));
  await service.follow();
  await service.follow();
  t.equal(lines.length, 2, 'a mistake is told once');
  t.match(policyWarnings(service), [{ code: 'policy_change_not_loaded', message: /stays in force: bundle\.yaml:\d+:\d+: / }]);
  place.write('bundle.yaml', bundle('changed'));
  await service.follow();
  t.match(service.current(), { bundle_id: 'changed', source: 'file' });
  t.same(policyWarnings(service), []);
  place.write('bundle.yaml', bundle('other', 'nonsense: 1\n'));
  await t.rejects(service.reload());
  t.match(policyWarnings(service), [{ code: 'policy_change_not_loaded' }], 'also when it was asked for');
  t.equal(await place.store.get('policy', 'bundle'), undefined);
});

t.test('add-ons that do not count are warned of', async (t) => {
  const place = await somePlace(t);
  const lines: string[] = [];
  const log = createLogger({ level: 'warn', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
  place.write('addons/a.yaml', '{schema: gw.rule_file.v1, layer: risk, rules: [{id: a, effect: {decision: allow}}]}');
  place.write('bundle.yaml', 'schema: gw.policy_bundle.v1\n');
  await place.open('enterprise', undefined, log);
  t.equal(lines.length, 0);
  place.write('bundle.yaml', bundle('inline'));
  await place.open('enterprise', undefined, log);
  t.match(lines, [/addons\/ does not count/]);
});

t.test('a shadow bundle is read from a folder or as a file beside bundle.yaml, and nothing that is wrong with it is thrown', async (t) => {
  const place = await somePlace(t);
  place.write('bundle.yaml', bundle('folder'));
  place.write('next.yaml', bundle('next'));
  place.write(
    'overlays/org.yaml',
    '{schema: gw.policy_bundle.v1, inline_rules: {risk: [{id: ok, effect: {decision: deny, reason: org}}]}}',
  );
  const { events } = place.options;
  const seen = loads(events);
  const decisions: string[] = [];
  events.subscribe(['shadowDecision'], ({ active, shadow }) => decisions.push(`${active} ${shadow}`));
  const shadow = new ShadowPolicy({
    path: join(place.dir, 'next.yaml'),
    tier: 'enterprise',
    clock: place.clock,
    log: silentLogger,
    events,
  });
  const { policy } = (await place.open()).current();
  const judge = () => shadow.judge(plainCall(), decide(policy, plainCall()));
  t.equal(judge(), undefined, 'nothing before it is loaded');
  await shadow.load('start');
  t.match(shadow.state(), { bundle_id: 'next', loaded_at: place.clock.now() });
  t.strictSame(judge(), {
    bundle_id: 'next',
    decision: 'deny',
    matched_rule_ids: ['ok'],
    reason_codes: ['policy_denied'],
    stopped_at: 'risk',
    version: '1.10',
  });
  await shadow.load('watch');
  place.write('next.yaml', bundle('next', 'nonsense: 1\n'));
  await shadow.load('watch');
  await shadow.load('watch');
  t.match(shadow.state(), { bundle_id: 'next', error: /next\.yaml:5:1: error\[unknown_key\]: unknown key/ }, 'the one before goes on');
  t.ok(judge());
  rmSync(join(place.dir, 'next.yaml'));
  await shadow.load('reload');
  t.match(shadow.state(), { error: /does not exist \(GW_POLICIES_SHADOW/ });
  const broken = { ...plainCall() };
  Object.defineProperty(broken, 'params', {
    get: () => {
      throw new Error('a fact that fails');
    },
  });
  place.write(
    'next.yaml',
    '{schema: gw.policy_bundle.v1, inline_rules: {identity: [{id: a, conditions: {action.params.model: x}, effect: {decision: allow}}]}}',
  );
  await shadow.load('reload');
  t.equal(shadow.judge(broken, decide(policy, plainCall())), undefined);
  t.same(decisions, ['deny deny', 'deny deny', 'deny failed']);
  t.same(seen.list, ['shadow start loaded', 'shadow watch refused', 'shadow reload refused', 'shadow reload loaded']);
  const folder = new ShadowPolicy({ path: place.dir, tier: 'enterprise', clock: place.clock, log: silentLogger, events });
  await folder.load('start');
  t.match(folder.state(), { bundle_id: 'folder' });
});
