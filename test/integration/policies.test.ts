import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { PolicyService } from '../../src/services/policy/policies.ts';
import { bundleOf, type Governed, startGoverned } from '../support/governed.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

interface Folder {
  readonly dir: string;
  write(file: string, text: string): void;
}

/** A policies folder of the test's own. */
function someFolder(t: HasTeardown): Folder {
  const dir = join(tempDir(t), 'policies');
  const write = (file: string, text: string) => {
    mkdirSync(dirname(join(dir, file)), { recursive: true });
    writeFileSync(join(dir, file), text);
  };
  return { dir, write };
}

async function traceOf({ gw, execute }: Governed, extra: object = {}): Promise<unknown> {
  const { body } = await execute(extra);
  const { content_hash: hash, ...trace } = (await gw.record(String(body['record_id'])))['policy_trace'] as { content_hash: string };
  const texts = (await gw.admin('GET', '/v1/admin/policies/texts?org_id=default')).body as { content_hash: string };
  return hash.length === 16 && texts.content_hash.startsWith(hash) ? trace : hash;
}

t.test('the trace of a record names layer and level of each matched rule, what was overridden, and where evaluation stopped', async (t) => {
  const folder = someFolder(t);
  folder.write(
    'bundle.yaml',
    bundleOf(`  targets:
    - {id: all, effect: {decision: allow, select_connector: openai}}
  transforms:
    - {id: all, effect: {select_connector: gemini, mutations: [{key: action.params.user, value: a}]}}
    - {id: later, effect: {mutations: [{key: action.params.user, value: b}]}}
  risk:
    - {id: batch, conditions: {context.purpose: {not_in: [chat]}, context.workload.id: default, context.labels.hold: "yes"}, effect: {decision: deny}}
`),
  );
  folder.write(
    'overlays/org.yaml',
    'schema: gw.policy_bundle.v1\ninline_rules: {targets: [{id: all, effect: {decision: allow, select_connector: openai}}]}\n',
  );
  const governed = await startGoverned(t, { env: { GW_POLICIES_DIR: folder.dir } });
  t.strictSame(await traceOf(governed), {
    attributes: { 'context.workload.id': 'default' },
    bundle_id: 'test',
    matched_layers: ['targets', 'transforms', 'transforms'],
    matched_levels: ['org', 'base', 'base'],
    matched_rule_ids: ['all', 'all', 'later'],
    overridden: ['targets/all@base', 'transforms/all@base#select_connector', 'transforms/later@base#mutations.action.params.user'],
    version: '7',
  });
  t.strictSame(await traceOf(governed, { context: { labels: { hold: 'yes' } } }), {
    attributes: { 'context.labels.hold': 'yes', 'context.workload.id': 'default' },
    bundle_id: 'test',
    matched_layers: ['targets', 'risk'],
    matched_levels: ['org', 'base'],
    matched_rule_ids: ['all', 'batch'],
    missing_field: ['risk/batch'],
    overridden: ['targets/all@base'],
    stopped_at: 'risk',
    version: '7',
  });
});

/**
 * Three rules that must come from one bundle: what they leave is in the record and in the request that is forwarded.
 */
const marked = (mark: string) =>
  bundleOf(`  targets:
    - {id: allow.${mark}, when: {field: context.action.target_host, in: [api.openai.com, api.mistral.ai]}, effect: {decision: allow}}
    - {id: other.than.${mark}, when: {field: context.action.params.user, exists: true, not_equals: ${mark}}, effect: {decision: deny}}
  transforms:
    - {id: mark.${mark}, effect: {mutations: [{key: action.params.user, value: ${mark}}]}}
`).replace('version: "7"', `version: ${mark}`);

t.test('files that a bundle names beside inline rules do not count, and that is said wherever it is loaded', async (t) => {
  const both = (version: string) =>
    `schema: gw.policy_bundle.v1\nbundle_id: both\nversion: "${version}"\nfiles: [rules/a.yaml, rules/b.yaml]\ninline_rules: {targets: [{id: all, effect: {decision: allow}}]}\n`;
  const rules = (id: string) => `schema: gw.rule_file.v1\nlayer: risk\nrules: [{id: ${id}, effect: {decision: deny}}]\n`;
  const folder = someFolder(t);
  folder.write('bundle.yaml', both('1'));
  folder.write('rules/a.yaml', rules('a'));
  folder.write('rules/b.yaml', rules('b'));
  const lines: string[] = [];
  const log = createLogger({ level: 'warn', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
  const { gw, execute } = await startGoverned(t, { log, env: { GW_POLICIES_DIR: folder.dir } });
  const message = 'the bundle has inline_rules, which count alone: the rules in rules/a.yaml, rules/b.yaml do not';
  const warned = () => lines.splice(0).filter((line) => (JSON.parse(line) as { msg: string }).msg === message).length;
  const warnings = [{ path: 'files', code: 'files_do_not_count', message, files: ['rules/a.yaml', 'rules/b.yaml'] }];
  t.equal(warned(), 1, 'at start');
  t.match(await gw.admin('GET', '/v1/admin/policies'), { status: 200, body: { version: '1', warnings } });
  folder.write('bundle.yaml', both('2'));
  t.match(await gw.admin('POST', '/v1/admin/policies/reload'), { status: 200, body: { version: '2', warnings } });
  t.equal(warned(), 1, 'on reload');
  t.match(await gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: both('3') }), {
    status: 200,
    body: { version: '3', source: 'api', warnings },
  });
  t.equal(warned(), 1, 'when it is put');
  t.equal((await execute()).status, 200);
  const { body } = await gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: both('4').replace(/^files.*\n/m, '') });
  t.notOk('warnings' in (body as object), 'nothing to warn of');
});

t.test(
  'a bundle by which nothing can be allowed, and a rule that waits for what a door never has, load with a warning wherever they are loaded',
  async (t) => {
    const folder = someFolder(t);
    const bundle = (rules: string) => `schema: gw.policy_bundle.v1\nbundle_id: odd\nversion: "1"\n${rules}`;
    const named = bundle('files: [rules/a.yaml]\ninline_rules:\n  budgets: [{id: who, effect: {budget: {usd_max: "1"}}}]\n');
    folder.write('bundle.yaml', named);
    folder.write('rules/a.yaml', 'schema: gw.rule_file.v1\nlayer: targets\nrules: [{id: all, effect: {decision: allow}}]\n');
    const lines: string[] = [];
    const log = createLogger({ level: 'warn', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
    const { gw } = await startGoverned(t, { log, env: { GW_POLICIES_DIR: folder.dir } });
    const logged = () => lines.splice(0).flatMap((line) => (JSON.parse(line) as { code?: string }).code ?? []);
    const message =
      /^nothing can be allowed by this policy: no rule of it allows anything \(the rules in rules\/a\.yaml do not count beside inline_rules\)$/;
    t.same(logged(), ['denies_all'], 'at start');
    t.match(await gw.admin('GET', '/v1/admin/policies'), {
      body: { warnings: [{ code: 'files_do_not_count' }, { code: 'denies_all', message, files: ['rules/a.yaml'] }] },
    });
    t.match(await gw.admin('POST', '/v1/admin/policies/reload'), { status: 200, body: { warnings: [{}, { code: 'denies_all' }] } });
    t.same(logged(), ['denies_all'], 'on reload');
    const waits = bundle('inline_rules:\n  targets: [{id: w, when: {field: context.purpose, equals: x}, effect: {decision: allow}}]\n');
    t.match(await gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: waits }), {
      status: 200,
      body: {
        warnings: [
          { code: 'never_at_door', message: /^targets\/w: context\.purpose .* never matches a call by a base URL/, files: ['bundle_yaml'] },
        ],
      },
    });
    t.same(logged(), ['never_at_door'], 'when it is put');
  },
);

// Holds: one-policy-snapshot
t.test('while bundles are swapped under load, every request is decided by one of them from beginning to end', async (t) => {
  const folder = someFolder(t);
  folder.write('bundle.yaml', marked('folder'));
  const { gw, execute, upstream } = await startGoverned(t, { env: { GW_POLICIES_DIR: folder.dir } });
  let swapping = true;
  const swaps = (async () => {
    let count = 0;
    for (; swapping; count++) {
      if (count % 3 === 2) t.equal((await gw.admin('POST', '/v1/admin/policies/reload')).status, 200);
      else t.equal((await gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: marked(count % 3 === 0 ? 'a' : 'b') })).status, 200);
    }
    return count;
  })();
  const answers: Record<string, unknown>[] = [];
  const caller = async () => {
    while (answers.length < 300) answers.push((await execute()).body);
  };
  await Promise.all(Array.from({ length: 8 }, caller));
  swapping = false;
  t.ok((await swaps) > 5, 'bundles were swapped meanwhile');
  const marks = new Set<string>();
  const sent = new Map<string, number>();
  for (const { record_id, decision } of answers) {
    t.equal(decision, 'allow');
    const { policy_trace } = (await gw.record(String(record_id))) as { policy_trace: { version: string; matched_rule_ids: string[] } };
    const { version, matched_rule_ids } = policy_trace;
    t.same(matched_rule_ids, [`allow.${version}`, `mark.${version}`]);
    marks.add(version);
    sent.set(version, (sent.get(version) ?? 0) + 1);
  }
  t.ok(marks.size > 1, 'requests met different bundles');
  const forwarded = new Map<string, number>();
  for (const { body } of upstream.requests) {
    const { user } = JSON.parse(body.toString()) as { user: string };
    forwarded.set(user, (forwarded.get(user) ?? 0) + 1);
  }
  t.same(Object.fromEntries(forwarded), Object.fromEntries(sent), 'what was forwarded carries the marks that the records name');
});

t.test('a request asks for the active policy once, and what it asks anew it asks of that one', async (t) => {
  const { gw, execute } = await startGoverned(t, { bundle: marked('a') });
  const asked = t.capture(PolicyService.prototype, 'ready', PolicyService.prototype.ready);
  const { body } = await execute();
  t.match(body, { decision: 'allow' });
  t.equal(asked().length, 1);
  t.match(await gw.record(String(body['record_id'])), { policy_trace: { matched_rule_ids: ['allow.a', 'mark.a'] } });
});

// Holds: one-policy-snapshot
t.test('a shadow bundle leaves its decision in the record and in a metric, and is never obeyed', async (t) => {
  const folder = someFolder(t);
  folder.write('bundle.yaml', bundleOf('  targets:\n    - {id: all, effect: {decision: allow}}\n'));
  folder.write(
    'next.yaml',
    bundleOf(
      '  targets:\n    - {id: all, effect: {decision: allow}}\n  risk:\n    - {id: no.mini, conditions: {action.params.model: gpt-4o-mini}, effect: {decision: deny, reason_codes: [too_small]}}\n',
    ).replace('bundle_id: test', 'bundle_id: next'),
  );
  const governed = await startGoverned(t, {
    env: { GW_POLICIES_DIR: folder.dir, GW_POLICIES_SHADOW: join(folder.dir, 'next.yaml') },
  });
  const { gw, execute } = governed;
  t.match(await traceOf(governed), {
    bundle_id: 'test',
    shadow: {
      bundle_id: 'next',
      decision: 'deny',
      matched_rule_ids: ['all', 'no.mini'],
      reason_codes: ['too_small'],
      stopped_at: 'risk',
      version: '7',
    },
  });
  t.match((await execute()).body, { decision: 'allow' });
  t.match((await execute({}, { params: { model: 'gpt-4o', messages: [] } })).body, { decision: 'allow' });
  const metrics = async () => (await fetch(`${gw.url}/metrics`)).text();
  t.match(await metrics(), /gw_policy_shadow_decisions_total\{active="allow",shadow="deny"\} 2/);
  t.match(await metrics(), /gw_policy_shadow_decisions_total\{active="allow",shadow="allow"\} 1/);
  t.match((await gw.admin('GET', '/v1/admin/policies')).body, {
    bundle_id: 'test',
    shadow: { bundle_id: 'next', version: '7', loaded_at: /Z$/ },
  });
  folder.write('next.yaml', 'nonsense');
  t.match((await gw.admin('POST', '/v1/admin/policies/reload')).body, {
    bundle_id: 'test',
    shadow: { bundle_id: 'next', error: /next\.yaml:1:1/ },
  });
  t.match(await metrics(), /gw_policy_loads_total\{bundle="shadow",trigger="reload",result="refused"\} 1/);
  t.match((await execute()).body, { decision: 'allow' });
});

t.test('a shadow bundle that does not load never keeps the gateway from starting, and without one records say nothing of it', async (t) => {
  const folder = someFolder(t);
  folder.write('bundle.yaml', bundleOf('  targets:\n    - {id: all, effect: {decision: allow}}\n'));
  const broken = await startGoverned(t, { env: { GW_POLICIES_DIR: folder.dir, GW_POLICIES_SHADOW: join(folder.dir, 'gone') } });
  t.match((await broken.gw.admin('GET', '/v1/admin/policies')).body, { bundle_id: 'test', shadow: { error: /gone/ } });
  t.notOk('shadow' in ((await traceOf(broken)) as object));
  const without = await startGoverned(t, { env: { GW_POLICIES_DIR: folder.dir } });
  t.notOk('shadow' in ((await without.gw.admin('GET', '/v1/admin/policies')).body as object));
});

t.test('GW_POLICIES_WATCH takes a saved bundle while traffic flows', async (t) => {
  const folder = someFolder(t);
  folder.write('bundle.yaml', marked('before'));
  const { gw, execute } = await startGoverned(t, { env: { GW_POLICIES_DIR: folder.dir, GW_POLICIES_WATCH: 'true' } });
  t.match((await execute()).body, { decision: 'allow' });
  folder.write('bundle.yaml', bundleOf(''));
  let answer = await execute();
  while (answer.status === 200) answer = await execute();
  t.match(answer, { status: 403, body: { reason_codes: ['default_deny'] } });
  t.match(await (await fetch(`${gw.url}/metrics`)).text(), /gw_policy_loads_total\{bundle="active",trigger="watch",result="loaded"\} 1/);
  const { items } = (await gw.admin('GET', '/v1/admin/audit?operation=policies.reload')).body as { items: readonly object[] };
  t.match(
    items,
    [{ principal: { kind: 'node' }, changes: [{ member: 'bundle_id' }, { member: 'version' }] }],
    'the gateway itself has an entry',
  );
});
