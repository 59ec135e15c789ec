// `gw replay` decides one recorded call again: by the policy in force at its gateway, or by a folder's.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { EXECUTION_RECORD_SCHEMA } from '../../src/base/model/execution-record.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { bundleOf, CHAT, type Governed, startGoverned } from '../support/governed.ts';
import { gw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';

const OPENAI = '  connectors:\n    - {id: openai, when: {field: context.connector.id, equals: openai}, effect: {decision: allow}}\n';
const NO_BIG =
  '  budgets:\n    - {id: big, when: {field: context.action.params.model, glob: "gpt-4*"}, effect: {decision: deny, reason_codes: [too_big]}}\n';

interface Place {
  readonly governed: Governed;
  /** Makes a call; the id of its record. */
  call(model?: string): Promise<string>;
  /** Runs the command; without a policy of its own in the environment. */
  replay(args: readonly string[], stdin?: string): ReturnType<typeof gw>;
  /** A policies folder with these rules. */
  folder(rules: string): string;
  /** A file with this record. */
  stored(id: string): Promise<string>;
}

async function place(t: Test, rules: string): Promise<Place> {
  const governed = await startGoverned(t, { bundle: bundleOf(rules) });
  const dir = tempDir(t);
  const env = { GW_ADMIN_TOKEN: ADMIN_TOKEN, GW_PORT: String(governed.gw.port), GW_POLICIES_DIR: join(dir, 'nowhere') };
  let made = 0;
  return {
    governed,
    call: async (model = 'gpt-4o-mini') => String((await governed.execute({}, { params: { ...CHAT, model } })).body['record_id']),
    replay: (args, stdin) => gw(['replay', ...args], { env, ...(stdin === undefined ? {} : { stdin }) }),
    folder: (text) => {
      made += 1;
      const path = join(dir, `policies-${made}`);
      mkdirSync(path);
      writeFileSync(join(path, 'bundle.yaml'), bundleOf(text));
      return path;
    },
    stored: async (id) => {
      const path = join(dir, `${id}.json`);
      writeFileSync(path, JSON.stringify(await governed.gw.record(id)));
      return path;
    },
  };
}

t.test('a record of the running gateway is held against the policy in force there', async (t) => {
  const { governed, call, replay } = await place(t, OPENAI);
  const id = await call();
  const named = /bundle test, version 7, content [0-9a-f]{16}/.source;
  const same = await replay([id]);
  t.same({ code: same.code, err: same.err }, { code: 0, err: '' });
  t.match(
    same.out,
    new RegExp(
      `^the same decision\nthen {2}allow {2}by connectors/openai {2}\\(${named}\\)\nnow {3}allow {2}by connectors/openai {2}.*\nthe same rules took part\n$`,
    ),
  );
  t.match(await replay([id.slice(-12)]), { code: 0, out: same.out }, 'the end of an id will do');
  await governed.gw.admin('PUT', '/v1/admin/policies', { bundle_yaml: bundleOf(OPENAI.replace('id: openai', 'id: renamed') + NO_BIG) });
  const other = await replay([id]);
  t.equal(other.code, 1);
  t.match(other.out, /^another decision: allow -> deny\nthen {2}allow {2}by connectors\/openai/);
  t.match(other.out, /\nnow {3}deny {2}\[too_big\] {2}by connectors\/renamed, budgets\/big/);
  t.match(other.out, '\ntook part then, and does not now\n  - connectors/openai: the policy has no such rule\n');
  t.match(other.out, '\ntakes part now, and did not then\n  + connectors/renamed (allow): matched  bundle_yaml:');
  t.match(other.out, '\n  + budgets/big (deny): matched  bundle_yaml:');
  t.match(other.out, '\n      yes  context.action.params.model glob "gpt-4*"  is gpt-4o-mini\n');
});

t.test('a file and standard input are held against the policies that are named, or those of GW_POLICIES_DIR', async (t) => {
  const { call, replay, folder, stored } = await place(t, OPENAI + NO_BIG);
  const file = await stored(await call());
  const [before, after] = [folder(OPENAI + NO_BIG), folder(OPENAI + NO_BIG.replace('gpt-4*', 'gpt-5*'))];
  t.match(await replay([file, '--policies', before]), { code: 0, out: /^the same decision\nthen {2}deny/ });
  const told = await replay([file, '--policies', after]);
  t.equal(told.code, 1);
  t.match(told.out, /^another decision: deny -> allow\n/);
  t.match(told.out, /\ntook part then, and does not now\n {2}- budgets\/big \(deny\): did not match {2}.*policies-2\/bundle\.yaml:\d+\n/);
  t.match(told.out, '\n      no   context.action.params.model glob "gpt-5*"  is gpt-4o-mini\n');
  t.notMatch(told.out, 'takes part now');
  const reason = folder(OPENAI + NO_BIG.replace('too_big', 'not_ours'));
  t.match(await replay([file, '--policies', reason]), {
    code: 1,
    out: /^another reason\n[\s\S]*\[too_big\][\s\S]*\[not_ours\][\s\S]*same rules/,
  });
  const json = await replay(['-', '--policies', after, '--json'], readFileSync(file, 'utf8'));
  t.equal(json.code, 1);
  t.match(JSON.parse(json.out), {
    same: false,
    before: { decision: 'deny', reason_codes: ['too_big'], matched: ['budgets/big', 'connectors/openai'], policy: { same: false } },
    now: { decision: 'allow', reason_codes: [], matched: ['connectors/openai'], policy: { bundle_id: 'test', version: '7' } },
    after_the_rules: false,
    rules: [{ rule: 'budgets/big', took_part: 'then', now: { outcome: 'not_matched' } }],
    cannot_say: [],
    not_known: [],
  });
  t.match(await gw(['replay', file], { env: { GW_POLICIES_DIR: before } }), { code: 0 });
});

t.test('what the record does not hold is named, and is no yes and no no', async (t) => {
  const { call, replay, folder } = await place(t, OPENAI);
  const team = folder(`${OPENAI}  risk:\n    - {id: team, when: {field: context.purpose, equals: x}, effect: {decision: deny}}\n`);
  const id = await call();
  const { code, out } = await replay([id, '--policies', team]);
  t.equal(code, 2);
  t.match(out, /^it cannot be said: rules read what this record does not hold: context\.purpose\n/);
  t.match(JSON.parse((await replay([id, '--policies', team, '--json'])).out), { same: null, cannot_say: ['context.purpose'] });
});

t.test('a cap that refused the call behind the rules is not decided again, and neither is a provider that failed', async (t) => {
  const capped = (usd: string) => OPENAI.replace('decision: allow', `decision: allow, budget: {usd_max: "${usd}"}`);
  const { call, replay, folder } = await place(t, capped('0.000001'));
  const { code, out } = await replay([await call()]);
  t.equal(code, 0);
  t.match(out, /^the same decision\nthen {2}deny {2}\[budget_usd_max_exceeded\]/);
  t.match(out, 'what was checked after the rules (caps, buckets, the way to the provider) is not decided again');
  t.match(out, /not known of this call, since no record holds it: the estimate that budget\.usd_max/);
  const broken = await startGoverned(t, { bundle: bundleOf(OPENAI), handler: (_request, response) => void response.destroy() });
  const failed = String((await broken.execute()).body['record_id']);
  t.match(await broken.gw.record(failed), { decision: 'error' });
  const renamed = folder(OPENAI.replace('id: openai', 'id: renamed'));
  t.match(await replay([failed, '--policies', renamed, '--url', broken.gw.url]), { code: 0, out: /^the same decision\nthen {2}error/ });
  const shut = folder(OPENAI.replace('decision: allow', 'decision: deny'));
  t.match(await replay([failed, '--policies', shut, '--url', broken.gw.url]), { code: 1, out: /^another decision: error -> deny\n/ });
});

t.test('what cannot be used is exit code 2 and a line that says why', async (t) => {
  const { call, replay, folder, stored, governed } = await place(t, OPENAI);
  const file = await stored(await call());
  const policies = ['--policies', folder(OPENAI)];
  const cases: readonly (readonly [args: readonly string[], err: RegExp, stdin?: string])[] = [
    [[], /give one record: its id, a file, or - for standard input/],
    [[file, file], /give one record/],
    [['0197a0c0-0000-7000-8000-000000000001'], /has no record 0197a0c0/],
    [['./none.json', ...policies], /\.\/none\.json: .*no such file/i],
    [[file, '--url', governed.gw.url], /--url is of a gateway/],
    [[file], /nowhere/],
    [['-', ...policies], /this is not an execution record/, '{"a": 1}'],
    [['-', ...policies], /standard input/, 'nothing'],
    [['-', ...policies], /policy was not asked about the call of this record/, JSON.stringify({ schema: EXECUTION_RECORD_SCHEMA })],
    [['id with blanks'], /a record is named by its id/],
  ];
  for (const [args, err, stdin] of cases) t.match(await replay(args, stdin), { code: 2, out: '', err }, args.join(' '));
});
