import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
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
  return (await gw.record(String(body['record_id'])))['policy_trace'];
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
