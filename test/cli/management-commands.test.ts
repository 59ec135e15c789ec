// `gw` as a face of the operations table: against a gateway that runs.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { z } from 'zod';
import { auditMoment } from '../../src/cli/audit.ts';
import { completions } from '../../src/cli/completion.ts';
import { GatewayAddress } from '../../src/cli/gateway-address.ts';
import { ManagementClient } from '../../src/cli/management/management-client.ts';
import { operationCommands } from '../../src/cli/management/operation-commands.ts';
import { textTable } from '../../src/cli/management/text-table.ts';
import { allCommands } from '../../src/cli/run.ts';
import { KEY_OPERATIONS } from '../../src/operations/management/key-operations.ts';
import { entryOf, operation, READS } from '../../src/operations/operation.ts';
import { OPERATIONS } from '../../src/operations/operation-table.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { ALLOW_ALL, bundleOf, CHAT, startGoverned } from '../support/governed.ts';
import { type Managed, managedOf, startManaged } from '../support/managed.ts';
import { gw } from '../support/run-gw.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

interface Shell extends Managed {
  /** One command, by the admin token unless it is given a key. */
  run(words: readonly string[], options?: { stdin?: string; env?: Record<string, string> }): ReturnType<typeof gw>;
}

async function startShell(t: HasTeardown): Promise<Shell> {
  const managed = await startManaged(t);
  const env = { GW_PORT: String(managed.gw.port), GW_ADMIN_TOKEN: ADMIN_TOKEN, GW_ORG_ID: 'acme' };
  return { ...managed, run: (words, options = {}) => gw(words, { ...options, env: { ...env, ...options.env } }) };
}

t.test('every operation of the management API is a command that no other hides, and no option of it is one of all commands', async (t) => {
  const ids = OPERATIONS.filter(({ id }) => id.startsWith('mgmt.'));
  const commands = operationCommands();
  t.equal(commands.length, ids.length);
  const all = await allCommands();
  t.equal(new Set(all.map(({ name }) => name)).size, all.length);
  for (const { usage, name } of commands) {
    const options = [...usage.matchAll(/--([\w.-]+)/g)].map(([, option]) => option);
    t.equal(new Set(options).size, options.length, `${name} ${usage}`);
  }
});

t.test('an org beside a management key is refused by every command, since what comes would be of another', async (t) => {
  const { run } = await startShell(t);
  const { key } = JSON.parse((await run(['keys', 'create', '--name', 'r', '--kind', 'management', '--scopes', 'read', '--json'])).out) as {
    key: string;
  };
  for (const words of [['keys', 'list'], ['quarantine', 'list'], ['audit'], ['approvals', 'list'], ['spend']])
    t.match(await run([...words, '--key', key, '--org', 'default']), {
      code: 2,
      out: '',
      err: /--org is for the admin token: a management key is of one org/,
    });
});

t.test('the audit trail takes days, shows a secret as one line, and says when a filter may be wrong', async (t) => {
  const { run } = await startShell(t);
  await run([
    'exports',
    'create',
    '--name',
    'siem',
    '--kind',
    'webhook',
    '--config.url',
    'https://siem.example.com/in',
    '--config.token',
    'x',
  ]);
  const all = await run(['audit']);
  t.match(all.out, /exports\.create .*\n {2}siem\n[^+]*\n {2}\+ enabled: true\n {2}\+ kind: webhook\n {2}\+ sealed: \(not shown\)\n/);
  const [day = ''] = /^\d{4}-\d{2}-\d{2}/m.exec(all.out) ?? [];
  t.equal((await run(['audit', '--from', day, '--to', day])).out, all.out, 'the day at the end is included');
  t.equal((await run(['audit', '--to', '2001-01-31'])).out, 'nothing was changed that fits\n');
  t.match(await run(['audit', '--operation', 'export.create']), {
    code: 0,
    out: /^nothing was changed that fits; --operation takes the id of/,
  });
  const now = Date.parse('2026-11-23T10:44:30Z');
  t.equal(auditMoment('from', 'yesterday', now), '2026-11-22T00:00:00.000Z');
  t.equal(auditMoment('to', 'yesterday', now), '2026-11-23T00:00:00.000Z', 'the whole day');
  t.equal(auditMoment('to', 'today', now), '2026-11-24T00:00:00.000Z');
  t.match(await run(['audit', '--from', 'monday']), {
    code: 2,
    err: /--from takes a time such as 2026-11-22T05:00:00Z, or a day such as 2026-11-22, today or yesterday, not "monday"/,
  });
  t.match(await run(['audit', '--from', '2026-11-28', '--to', '2026-11-26']), { code: 2, err: /--from is not before --to/ });
});

t.test('a workload is made by options, listed as a table and as the answer itself, and removed', async (t) => {
  const { run, manage } = await startShell(t);
  const made = await run([
    ...['workloads', 'put', '--workload-id', 'agent-1', '--name=An agent', '--allowed-connection-types', 'direct_api,sdk_redirect'],
    ...['--default-attribution.project-id', 'search', '--default-attribution.labels', 'team=red', '--default-attribution.labels', 'a=b=c'],
  ]);
  t.same([made.code, made.err], [0, '']);
  const { data } = (await manage('GET', 'workloads')).body as { data: { workload_id: string }[] };
  t.match(
    data.find((one) => one.workload_id === 'agent-1'),
    {
      name: 'An agent',
      org_id: 'acme',
      allowed_connection_types: ['direct_api', 'sdk_redirect'],
      default_attribution: { project_id: 'search', labels: { team: 'red', a: 'b=c' } },
    },
  );
  t.match(await run(['workloads', 'list']), {
    code: 0,
    out: /^ID +NAME +PROJECT +DOORS\nagent-1 +An agent +search +direct_api, sdk_redirect\n/,
    err: '',
  });
  const json = await run(['workloads', 'list', '--json']);
  t.same(JSON.parse(json.out), (await manage('GET', 'workloads')).body, 'exactly the answer');
  t.equal(json.out.split('\n').length, 2, 'one document');
  t.match(await run(['workloads', 'list', '--limit', '1']), {
    code: 0,
    err: /^There are more: --all shows them, --cursor=\S+ the next\.\n$/,
  });
  const lines = (await run(['workloads', 'list', '--limit', '1', '--all', '--json'])).out.trim().split('\n');
  t.same(
    lines.map((line) => JSON.parse(line) as unknown),
    data,
    'every page, an item a line',
  );
  t.match(await run(['workloads', 'delete', 'agent-1']), { code: 0, out: /status: +deleted/ });
  t.match(await run(['workloads', 'remove', '--id', 'agent-1']), {
    code: 1,
    out: '',
    err: 'gw workloads remove: There is no workload agent-1.\n',
  });
});

t.test('a whole body comes from a file or standard input, and a secret need not stand on the command line', async (t) => {
  const { run } = await startShell(t);
  const file = join(tempDir(t), 'workload.json');
  writeFileSync(file, JSON.stringify({ workload_id: 'filed', name: 'From a file' }));
  t.match(await run(['workloads', 'put', '--file', file, '--name', 'Said here']), { code: 0, out: /name: +Said here/ });
  t.match(await run(['workloads', 'put', '--file', '-'], { stdin: '{"workload_id": "piped"}' }), { code: 0, out: /piped/ });
  t.match(await run(['workloads', 'put', '--file', '-'], { stdin: '[1]' }), { code: 2, err: /this is not a map/ });
  const secret = await run(['credentials', 'put', '--id', 'key-1', '--provider', 'openai', '--mode', 'alias', '--secret-from', '-'], {
    stdin: 'sk-planted-secret\n',
  });
  t.equal(secret.code, 0, secret.err);
  t.notOk(secret.out.includes('sk-planted'), 'nor is it shown');
});

t.test('without a key one is made with the admin token, and revoked, also when the command fails', async (t) => {
  const { run, keyOf, gw: gateway } = await startShell(t);
  const before = await gateway.admin('GET', '/v1/admin/mgmt-keys');
  t.match(await run(['keys', 'list']), { code: 0, out: /^(?![\s\S]*gw on )/ }, 'and is not shown to who asks by it');
  t.equal((await run(['workloads', 'remove', 'nobody'])).code, 1);
  t.equal((await run(['ratelimit', 'configure', '--refill-rate', '1', '--max-tokens', '1', '--window-duration', 'soon'])).code, 1);
  t.same((await gateway.admin('GET', '/v1/admin/mgmt-keys')).body, before.body, 'no key is left');
  const { key } = await keyOf('acme', ['read']);
  const own = { GW_MGMT_KEY: key, GW_ADMIN_TOKEN: '' };
  t.match(await run(['workloads', 'list'], { env: own }), { code: 0, err: '' });
  t.match(await run(['workloads', 'put', '--workload-id', 'x'], { env: own }), { code: 1, err: /scope/ });
  t.match(await run(['workloads', 'list', '--key', 'mgk_wrong']), { code: 2, err: /does not accept the management key\n$/ });
  t.match(await run(['workloads', 'list', '--key', 'mcpk_other']), {
    code: 2,
    err: /--key takes a management key, which begins with mgk_/,
  });
  const other = await keyOf('other');
  t.match(await run(['workloads', 'put', '--workload-id', 'theirs', '--key', other.key]), { code: 0, out: /org_id: +other/ });
  t.notMatch((await run(['workloads', 'list'])).out, /theirs/);
});

t.test('a removal can be tried first: what would be gone is shown, and it is there still', async (t) => {
  const { run: runWords } = await startShell(t);
  const run = (words: string) => runWords(words.split(' '));
  await run('projects create --project-id zeus --display-name Zeus');
  await run('workloads put --workload-id old-ci --name Old --default-attribution.project-id zeus');
  const tried = await run('workloads remove old-ci --dry-run');
  t.equal(tried.code, 0, tried.err);
  t.match(
    tried.out,
    /^It would remove:\n {2}workload old-ci \(Old\)\n {4}default_attribution.project_id=zeus\nNothing has been removed yet.\n$/,
  );
  t.match((await run('projects remove zeus --dry-run')).out, /It would leave what names it:\n {2}workload old-ci \(Old\)\n/);
  t.match(JSON.parse((await run('workloads remove old-ci --dry-run --json')).out), { dry_run: true, counts: { workload: 1 } });
  t.match((await run('workloads remove old-ci')).out, /status: +deleted/);
  t.match((await run('workloads remove old-ci --dry-run')).err, /There is no workload old-ci/);
});

t.test('each mistake is told in one wording, whatever the command', async (t) => {
  const { run } = await startShell(t);
  const mistakes: readonly (readonly [words: string, error: RegExp])[] = [
    ['workloads list --limti 5', /: there is no option --limti; did you mean --limit\?\nusage: gw workloads list /],
    ['audit --limti 5', /: there is no option --limti; did you mean --limit\?\nusage: gw audit /],
    ['env --shel fish', /: there is no option --shel; did you mean --shell\?\nusage: gw env /],
    ['workloads list --limit', /: --limit takes a value\n/],
    ['audit --limit', /: --limit takes a value\n/],
    ['workloads list --limit 501', /: --limit takes a whole number from 1 to 500, not "501"\n/],
    ['workloads list --limit 1.5', /: --limit takes a whole number from 1 to 500, not "1.5"\n/],
    ['env --shell csh', /: --shell takes sh, fish, powershell, .*json, not "csh"\n/],
    ['quarantine list --active yes', /: --active takes true or false, not "yes"\n/],
    ['quarantine list --active=perhaps', /: --active takes true or false, not "perhaps"\n/],
    ['keys create --name x --kind both --scopes read', /: --kind takes one of management, mcp, not "both"; keys with which /],
    [
      'keys create --name x --kind mcp --scopes read,admin',
      /: --scopes takes one of read, write, approve; it may be repeated, not "admin"\n/,
    ],
    ['keys create --name x --kind mcp --scopes read --expires-at sometime', /: --expires-at takes a time to come, such as/],
    ['keys create --kind mcp', /: --name and --scopes are missing: --name takes text; --scopes takes one of read, write, approve/],
    ['workloads put --workload-id x --default-attribution.labels red', /: --default-attribution.labels takes NAME=VALUE.*, not "red"\n/],
    ['workloads remove', /: ID is missing: ID takes text\n/],
    ['workloads remove a b', /: "b" is one argument too many\n/],
    ['audit list a', /: "a" is one argument too many\n/],
    ['audit lst', /there is no command "audit lst"; did you mean "audit list"\?/],
    ['wrkloads list', /^gw: there is no command "wrkloads"; did you mean "workloads"\?/],
    ['workloads lst', /^gw: there is no command "workloads lst"; did you mean "workloads list"\?/],
  ];
  for (const [words, error] of mistakes) t.match(await run(words.split(' ')), { code: 2, out: '', err: error }, words);
  const told = await run(['ratelimit', 'configure', '--refill-rate', '1', '--max-tokens', '1', '--window-duration', 'soon']);
  t.match(told.err, /has 1 bad member\(s\)\.\n {2}window_duration must be /, 'what the gateway alone knows is told in its words');
});

t.test('words are read in any letter case, as by HTTP', async (t) => {
  const { run } = await startShell(t);
  for (const words of [
    'records list --decision DENY --connection-type Direct_API',
    'records list --provider PROVIDER_A --traffic-class DEVELOPER',
    'quarantine list --active=TRUE',
    'spend read --window 6H',
    'budgets create --scope PROVIDER --scope-id Provider_A --limit-usd 5 --actions ALERT,Cap',
    'alerts channels create --name x --kind CHAT_1 --config.webhook-url https://hooks.slack.com/x',
  ])
    t.match(await run(words.split(' ')), { code: 0, err: '' }, words);
  t.match(await run(['budgets', 'list']), { out: /openai/ });
});

t.test('a group alone lists its commands, and each says what its options take', async (t) => {
  t.match(await gw(['workloads']), { code: 0, out: /^gw workloads list [\s\S]*?\n {4}Workloads that/ });
  const help = await gw(['workloads', 'put', '--help']);
  t.match(help.out, /^usage: gw workloads put --workload-id ID [\s\S]*?\nCreates or updates one workload/);
  t.match(help.out, /--default-attribution.labels\n {6}NAME=VALUE, such as team=red; it may be repeated\n/);
  const commands = await allCommands();
  t.same(completions(['workl'], commands), ['workload-limits', 'workloads']);
  t.same(completions(['workloads', ''], commands), ['list', 'put', 'remove', 'token']);
  t.same(completions(['keys', 'create', '--kind', ''], commands), ['management', 'mcp']);
  t.ok(completions(['keys', 'create', '--n'], commands).includes('--name'));
  t.match(await gw(['completion', 'bash']), { code: 0, out: /complete -o default -F _gw gw\n$/ });
  t.match(await gw(['complete', 'workloads', 'l']), { code: 0, out: 'list\n' });
});

t.test('a table fits the terminal: the first column is whole, texts are cut, figures stand to the right', (t) => {
  const columns = [
    { name: 'id', cells: ['0123456789abcdef', 'b'] },
    { name: 'cost_usd', cells: ['12.5', '0.000012'] },
    { name: 'reason', cells: ['a rather long reason that goes on', ''] },
    { name: 'more', cells: ['and another column', 'x'] },
  ];
  t.equal(textTable(columns.slice(0, 2)), 'ID                COST_USD\n0123456789abcdef      12.5\nb                 0.000012\n');
  for (const width of [30, 40, 50, 80]) {
    const lines = textTable(columns, width)
      .split('\n')
      .filter((line) => !line.startsWith('('));
    t.ok(
      lines.every((line) => line.length <= width),
      `${width}`,
    );
    t.match(lines[1], /^0123456789abcdef/);
  }
  t.match(textTable(columns, 30), /\(2 more columns: --wide, --json, or a wider terminal\)/);
  t.notMatch(textTable([{ name: 'name', cells: ['\u001b[2Jgone\u202e'] }]), /[\u001b\u202e]/, 'a terminal obeys nothing of it');
  t.equal(textTable([{ name: 'name', cells: ['x  y   z'] }]), 'NAME\nx \\u{20}y \\u{20}\\u{20}z\n', 'no text makes a further column');
  t.end();
});

t.test('the client holds arguments and answers to the schemas of an entry', async (t) => {
  const { gw: gateway, keyOf } = await startManaged(t);
  const { key } = await keyOf('acme');
  const client = new ManagementClient(new GatewayAddress(gateway.url, { tlsCertFile: undefined }), key);
  const list = operation({
    id: 'mgmt.keys.list',
    method: 'GET',
    path: '/mgmt/v1/keys',
    scope: 'read',
    summary: '',
    annotations: READS,
    input: { query: { schema: () => z.strictObject({ limit: z.int().optional() }) } },
    output: { status: 200, schema: z.object({ data: z.array(z.object({ id: z.string(), name: z.string() })), has_more: z.boolean() }) },
    handle: () => ({}),
  });
  const { data, has_more: more } = await client.ask(list, { limit: 10 });
  const names: readonly string[] = data.map(({ name }) => name);
  t.ok(names.includes('key of acme'));
  t.equal(more, false);
  // @ts-expect-error a limit is a number
  await t.rejects(client.ask(list, { limit: 'ten' }), { status: 400, code: 'invalid_request' });
  const strange = { ...list, output: { status: 200 as const, schema: z.object({ other: z.string() }) } };
  await t.rejects(client.ask(strange, {}), /answers something else than mgmt.keys.list promises/);
  await t.rejects(client.text(entryOf(KEY_OPERATIONS, 'mgmt.keys.revoke'), {}), { code: 'invalid_request' });
});

t.test('reports are shown by one thing, the dearest first, and reads answer to the name of their group', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL });
  const { keyOf } = await managedOf(governed.gw);
  const env = { GW_PORT: String(governed.gw.port), GW_MGMT_KEY: (await keyOf('acme')).key };
  const run = (words: string) => gw(words.split(' '), { env });
  for (const [model, project] of [
    ['gpt-4o-mini', 'small'],
    ['gpt-4o', 'large'],
  ])
    await governed.execute({ org_id: 'acme', attribution: { project_id: project } }, { params: { ...CHAT, model } });
  t.match(await run('billing summary --by model'), {
    code: 0,
    out: /^MODEL +COST +REQUESTS +TOKENS IN +OUT\ngpt-4o .*\ngpt-4o-mini .*\n$/,
    err: '',
  });
  t.match((await run('attribution summary --by project')).out, /^PROJECT .*\nlarge .*\nsmall .*\n$/);
  t.match(
    (await run('attribution summary')).out,
    /\nby project\nPROJECT .*\nlarge .*\nsmall .*\n/,
    'the dearest first where all are shown, too',
  );
  t.match((await run('billing summary --by day')).out, /^DAY +COST\n(?:\d{4}-\d\d-\d\d +\$0\n)*\d{4}-\d\d-\d\d +\$0\.\d+\n/);
  t.match(
    (await run('billing report --by model')).out,
    /^Spend of org acme by model, .*\n\nMODEL +COST +SHARE % +REQUESTS /,
    'as gw spend',
  );
  t.match(await run('billing report --by model --columns cost_usd'), { code: 2, err: /--columns is for a list/ });
  t.match(JSON.parse((await run('billing summary --by workload --json')).out), { by_workload: { default: { requests: 2 } } });
  t.match(await run('billing summary --from 2026-11-01 --to 2026-11-02 --by project'), {
    code: 2,
    err: /--to cannot be given beside --by project/,
  });
  t.match(await run('billing summary --by colour'), {
    code: 2,
    err: /--by takes one of model, workload, connector, day, project, customer, account, caller/,
  });
  t.match((await run('spend read')).out, /^org_id: +acme\n[\s\S]*buckets\nTIME +ALLOW_COUNT +DENY_COUNT\n/);
  t.match(
    (await run('records list --limit 1')).out,
    /^TIME +DECISION .*COST\/REASON +ID\n\d{4}-\S+ \S+Z +allow .*\$0\.\S+ +[0-9a-f-]{36}\n/,
  );
  t.match((await run('projects list')).out, /^There are no projects\.\n$/);
  for (const { name, usage } of operationCommands())
    if (/ (?:list|read|summary|config|keys|labels|decisions)$/.test(name) && !/^[A-Z]/.test(usage))
      t.equal((await gw(name.split(' '), { env })).code, 0, name);
});

t.test('approvals are listed, shown and decided with nothing but a management key', async (t) => {
  const bundle = bundleOf('  risk:\n    - {id: ask, effect: {decision: require_approval, reason: agreed on first}}\n');
  const { gw: gateway, execute } = await startGoverned(t, { bundle });
  const { keyOf } = await managedOf(gateway);
  const { body } = await execute({ org_id: 'acme' });
  const id = String(body['approval_id']);
  const run = async (words: string, org = 'acme') =>
    gw([...words.split(' '), '--url', gateway.url], { env: { GW_MGMT_KEY: (await keyOf(org)).key } });
  t.match(await run('approvals list --status pending'), { code: 0, out: new RegExp(`^${id} .* agreed on first\n$`) });
  t.match(await run(`approvals show ${id}`), { code: 0, out: /reason: +agreed on first/ });
  t.match(await run(`approvals approve ${id}`, 'globex'), { code: 1, err: /There is no approval/ });
  t.match(await run(`approvals show ${id}`, 'globex'), { code: 1, err: /There is no approval/ });
  t.match(await run('approvals list --org acme'), { code: 2, err: /a management key is of one org/ });
  const second = await execute({ org_id: 'acme' }, { params: { ...CHAT, max_tokens: 9 } });
  const pasted = await fetch(`${gateway.url}/mgmt/v1/approvals/${String(second.body['approval_id'])}/approve`, {
    method: 'POST',
    headers: { authorization: `Bearer ${(await keyOf('acme')).key}` },
  });
  t.match(await pasted.json(), { status: 'approved', decided_by: 'key of acme' }, 'as a chat message has it for curl');
  t.match(await run(`approvals approve ${id} --by olga --reason fine`), {
    code: 0,
    out: /status: +approved[\s\S]*by key of acme \(management key [-0-9a-f]{36}, for olga\)/,
  });
  t.match(await run(`approvals deny ${id}`), { code: 1, err: /^gw approvals deny: / });
});

t.test('a management API on a port of its own is found by the settings, also when the admin token makes the key', async (t) => {
  const { gw: gateway, keyOf } = await startManaged(t, { env: { GW_MGMT_PORT: '0' } });
  const own = { GW_MGMT_PORT: String(gateway.gateway.managementPort) };
  const admin = { ...own, GW_PORT: String(gateway.port), GW_ADMIN_TOKEN: ADMIN_TOKEN };
  t.match(await gw(['workloads', 'list'], { env: admin }), { code: 0, out: /^ID +NAME/, err: '' });
  t.match(await gw(['workloads', 'list', '--url', gateway.url], { env: admin }), { code: 0, out: /^ID +NAME/, err: '' });
  const { key } = await keyOf('acme');
  t.match(await gw(['workloads', 'list'], { env: { ...own, GW_MGMT_KEY: key } }), { code: 0, out: /^ID +NAME/, err: '' });
});
