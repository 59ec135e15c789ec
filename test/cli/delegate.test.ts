import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { readVerifyKeys } from '../../src/base/lib/verify-keys.ts';
import { verifyChain } from '../../src/decide/delegation/verify-chain.ts';
import { ADMIN_TOKEN, startTestGateway } from '../support/gateway.ts';
import { gw } from '../support/run-gw.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

/** A key in a folder of its own, and what a gateway is told of it. */
async function keyed(t: HasTeardown) {
  const dir = tempDir(t);
  const key = join(dir, 'issuer.key');
  const { out } = await gw(['delegate', 'keygen', '--out', key, '--kid', 'ci']);
  const [, setting = ''] = /^GW_DELEGATION_VERIFY_KEY=(ci=\S+)\n$/.exec(out) ?? [];
  const issue = (...more: string[]) => gw(['delegate', 'issue', '--key', key, '--kid', 'ci', '--org', 'o', '--workload', 'w', ...more]);
  const attenuate = (parent: string, ...more: string[]) =>
    gw(['delegate', 'attenuate', '--key', key, '--kid', 'ci', '--parent', parent, ...more]);
  return { dir, key, setting, issue, attenuate };
}

t.test('keygen makes a key that its owner alone reads, and overwrites none', async (t) => {
  const { key } = await keyed(t);
  t.equal(statSync(key).mode & 0o777, 0o600);
  t.match(readFileSync(key, 'utf8'), /^-----BEGIN PRIVATE KEY-----/);
  t.match(await gw(['delegate', 'keygen', '--out', key]), {
    code: 2,
    err: /: it is there already, and is not overwritten: name another file\n/,
  });
  t.match(
    await gw(['delegate', 'keygen', '--out', `${key}2`]),
    { code: 0, out: /^GW_DELEGATION_VERIFY_KEY=[0-9a-f]{12}=/ },
    'a name is made',
  );
  const { out } = await gw(['delegate', 'keygen', '--out', `${key}4`, '--kid', 'x', '--json']);
  const { public_key: made, ...rest } = JSON.parse(out) as { readonly public_key: string };
  t.same(rest, { file: `${key}4`, kid: 'x', verify_key: `x=${made}` });
  t.match(await gw(['delegate', 'keygen', '--out', `${key}3`, '--kid', 'a b']), { code: 2, err: /--kid takes/ });
});

t.test('what is issued and narrowed holds for a gateway, and says what was given', async (t) => {
  const { setting, issue, attenuate, dir } = await keyed(t);
  const from = join(dir, 'fields.yaml');
  writeFileSync(from, 'principal_id: p\nbudget: {allowed_models: [gpt-4o, gpt-4o-mini]}\nattribution: {allow_overrides: [customer_id]}\n');
  const lists = [
    '--method',
    'POST',
    '--path',
    '/v1/chat/*',
    '--action',
    'ai.infer',
    '--target',
    'api.openai.com',
    '--override',
    'labels.team',
  ];
  const texts = ['--issued-by', 'olga', '--audience', 'gw', '--bundle', 'b', '--id', 'root', '--expires', '2h'];
  const root = (
    await issue('--from', from, '--usd-max', '5', '--default', 'project_id=p1', '--default', 'labels.team=red', ...lists, ...texts)
  ).out;
  const narrow = (
    await attenuate(root.trim(), '--usd-max', '1', '--model', 'gpt-4o-mini', '--workload', 'w2', '--path', '/v1/chat/completions')
  ).out;
  const chain = verifyChain(narrow.trim(), readVerifyKeys(setting));
  t.match(chain, {
    depth: 2,
    leaf: { orgId: 'o', workloadId: 'w2' },
    limits: {
      actions: ['ai.infer'],
      targets: ['api.openai.com'],
      methods: ['POST'],
      resources: [['v1', 'chat', 'completions']],
      models: ['gpt-4o-mini'],
      overrides: ['labels.team'],
      usdMax: 1_000_000_000_000n,
    },
  });
  const [first, second] = chain.links;
  t.match(first, {
    delegationId: 'root',
    principalId: 'p',
    issuedBy: 'olga',
    audience: 'gw',
    policyBundleId: 'b',
    defaults: { project_id: 'p1', labels: { team: 'red' } },
  });
  t.equal(first.expiresAt - first.issuedAt, 7_200_000);
  t.equal(second?.expiresAt, first.expiresAt, 'what is not given it has from its parent');
});

t.test('a token as JSON stands beside what it is for', async (t) => {
  const { issue, attenuate } = await keyed(t);
  const root = JSON.parse((await issue('--id', 'root', '--json')).out) as { readonly token: string };
  t.match(root, { delegation_id: 'root', org_id: 'o', workload_id: 'w', depth: 1, expires_at: /^\d{4}-.*Z$/ });
  const narrow = JSON.parse((await attenuate(root.token, '--id', 'leaf', '--json')).out) as { readonly token: string };
  t.match(narrow, { delegation_id: 'leaf', depth: 2 });
  t.match(JSON.parse((await gw(['delegate', 'inspect', narrow.token, '--json'])).out), { depth: 2 });
});

t.test('inspect says what a token allows and what does not hold, from a file, standard input and the text itself', async (t) => {
  const { dir, setting, issue, attenuate } = await keyed(t);
  const file = join(dir, 'root.token');
  writeFileSync(file, (await issue('--usd-max', '5', '--id', 'root')).out);
  const leaf = (await attenuate(file, '--id', 'leaf')).out;
  const env = { GW_DELEGATION_VERIFY_KEY: setting };
  t.match(await gw(['delegate', 'inspect', file], { env }), { code: 0, out: /usd_max +5\n(?:.*\n)*It holds\./ });
  t.match(await gw(['delegate', 'inspect', '-', '--keys', setting], { stdin: leaf }), { code: 0, out: /link 2\n +delegation_id +leaf/ });
  const json = await gw(['delegate', 'inspect', leaf.trim(), '--json'], { env });
  t.match(JSON.parse(json.out), {
    holds: true,
    flaws: [],
    depth: 2,
    chain: [{ delegation_id: 'root' }, { delegation_id: 'leaf' }],
    allows: { usd_max: '5' },
  });
  t.match(await gw(['delegate', 'inspect', file]), { code: 1, out: /its signatures were not checked/ });
  const other = await keyed(t);
  t.match(await gw(['delegate', 'inspect', file, '--keys', other.setting]), {
    code: 1,
    out: /does not hold\. \(delegation_bad_signature\)/,
  });
  t.match(await gw(['delegate', 'inspect', file, '--keys', 'x']), { code: 2, err: /the keys cannot be read/ });
  t.match(await gw(['delegate', 'inspect', '-'], { stdin: 'e30=' }), { code: 2, err: /delegation_malformed/ });
  t.match(await gw(['delegate', 'inspect', join(dir, 'none')]), { code: 2, err: /there is no such file/ });
  t.match(await gw(['delegate', 'inspect']), { code: 2, err: /it takes one token/ });
});

t.test('no token is made that no gateway would take', async (t) => {
  const { dir, key, issue, attenuate } = await keyed(t);
  const parent = (await issue('--usd-max', '5', '--model', 'm', '--expires', '1h')).out.trim();
  const file = join(dir, 'fields.yaml');
  writeFileSync(file, 'schema: gw.delegation.v2\n');
  for (const [outcome, err] of [
    [await attenuate(parent, '--usd-max', '6'), /wider than its parent: usd_max/],
    [await attenuate(parent, '--expires', '2h'), /wider than its parent: expires_at/],
    [await attenuate(parent, '--model', 'n'), /wider than its parent: allowed_models/],
    [await attenuate('e30='), /there is no such file|malformed/],
    [await issue('--expires', 'soon'), /--expires takes a duration/],
    [await issue('--expires', '2020-01-01T00:00:00Z'), /--expires takes/],
    [await issue('--usd-max', 'five'), /usd_max is not a decimal text/],
    [await issue('--path', '/v1/**'), /resource_patterns_allow holds no pattern/],
    [await issue('--target', 'https://x/'), /targets_allow names no host/],
    [await issue('--default', 'project'), /--default takes NAME=VALUE/],
    [await issue('--from', file), /schema is not given: it is made/],
    [await issue('--parent', parent), /attenuate/],
    [await gw(['delegate', 'issue', '--key', key]), /org_id is not/],
    [await gw(['delegate', 'issue']), /--key names the file/],
    [await gw(['delegate', 'issue', '--key', file]), /holds no private Ed25519 key/],
    [await gw(['delegate', 'issue', '--what']), /there is no option --what/],
  ] as const) {
    t.match([outcome.code, outcome.out, outcome.err], [2, '', err]);
  }
});

t.test('a delegation is revoked by its id or its token, listed, and taken back', async (t) => {
  const { dir, issue } = await keyed(t);
  const { port } = await startTestGateway(t);
  const env = { GW_PORT: String(port), GW_ADMIN_TOKEN: ADMIN_TOKEN };
  const delegate = (...words: string[]) => gw(['delegate', ...words], { env });
  t.match(await delegate('revoked'), { code: 0, out: 'There are no revoked delegations.\n' });
  const made = JSON.parse((await issue('--json')).out) as { token: string; delegation_id: string; expires_at: string };
  const file = join(dir, 'agent.token');
  writeFileSync(file, made.token);
  const { delegation_id: id } = made;
  t.match(await delegate('revoke', '--token', file, '--reason', 'laptop lost'), {
    code: 0,
    out: `The delegation ${id} is revoked, with every token`,
  });
  t.match(JSON.parse((await delegate('revoke', 'other', '--json')).out), { delegation_id: 'other', revoked_at: String });
  const listed = JSON.parse((await delegate('revoked', '--json')).out) as { delegation_id: string }[];
  t.match(
    listed.find((one) => one.delegation_id === id),
    { reason: 'laptop lost', expires_at: made.expires_at },
  );
  t.match((await delegate('revoked')).out, /^DELEGATION +REVOKED +TOKEN ENDS +REASON\n/);
  t.match(await delegate('revoke', id.slice(-8)), { code: 2, err: /is a part of an ID: give it whole/ }, 'it would revoke nothing');
  t.match(
    await delegate('restore', id.slice(-8)),
    { code: 0, out: `The delegation ${id} is not revoked any more.` },
    'as a table shows it',
  );
  t.match(await delegate('restore', 'oth'), { code: 1, err: /The delegation oth is not revoked/ }, 'too short');
  t.match(await delegate('restore', 'othe'), { code: 2, err: /what is removed is named whole, such as other/ });
  t.match(await delegate('revoke', id), { code: 0 });
  t.match(await delegate('restore', 'other'), { code: 0, out: 'The delegation other is not revoked any more.\n' });
  t.match(await delegate('restore', 'other'), { code: 1, err: /The delegation other is not revoked/ });
  t.equal((JSON.parse((await delegate('revoked', '--json')).out) as unknown[]).length, 1);
  for (const [words, code, err] of [
    [['revoke', 'x', '--expires-at', '2020-01-01T00:00:00Z'], 1, /expires_at must be a time to come/],
    [['revoke', 'a b'], 1, /delegation_id must be 1 to 128 visible ASCII characters/],
    [['revoke', made.token], 2, /--token takes a token/],
    [['revoke', 'x', '--token', file], 2, /not both/],
    [['revoke'], 2, /it takes the ID of a delegation, or --token/],
    [['restore'], 2, /gw delegate revoked lists them/],
  ] as const) {
    t.match(await delegate(...words), { code, err });
  }
});
