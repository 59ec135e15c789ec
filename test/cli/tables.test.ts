// Tables of `gw` at a terminal of 80 cells, and ids that are typed as tables show them.
import t from 'tap';
import { cellWidth } from '../../src/base/lib/cell-width.ts';
import { systemClock } from '../../src/base/lib/clock.ts';
import { listText } from '../../src/cli/management/answer-text.ts';
import { changeText } from '../../src/cli/management/change-text.ts';
import { LISTS } from '../../src/cli/management/command-tables.ts';
import { wholeId } from '../../src/cli/management/short-ids.ts';
import { namedColumn, shortIds, shortTimes } from '../../src/cli/management/table-cells.ts';
import { textTable } from '../../src/cli/management/text-table.ts';
import { moneyTable } from '../../src/cli/money/money-table.ts';
import { OPERATIONS } from '../../src/operations/operation-table.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { bundleOf, CHAT, startGoverned } from '../support/governed.ts';
import { managedOf } from '../support/managed.ts';
import { gw } from '../support/run-gw.ts';
import type { HasTeardown } from '../support/temp-dir.ts';

type Json = Readonly<Record<string, unknown>>;

const LONG = 'checkout-service-production-eu-west-1';
const RULES = `  targets:
    - {id: all, effect: {decision: allow}}
  budgets:
    - {id: big, when: {field: context.action.params.max_tokens, gt: 5000}, effect: {decision: require_approval, reason: "計算コストが高いため、承認が必要です"}}
    - {id: turbo, when: {field: context.action.params.model, glob: "gpt-4-*"}, effect: {decision: deny, reason: "Ask platform@example.com for large models", reason_codes: [model_not_allowed]}}
`;

async function startFilled(t: HasTeardown) {
  const governed = await startGoverned(t, { bundle: bundleOf(RULES), clock: systemClock });
  const managed = await managedOf(governed.gw);
  const { manage } = managed;
  await manage('PUT', 'workloads', {
    workload_id: LONG,
    name: 'Checkout service (production, eu-west-1)',
    default_attribution: { project_id: 'checkout', customer_id: 'customer-0001', labels: { team: 'payments' } },
  });
  await manage('PUT', 'workloads', { workload_id: 'support-bot', name: 'サポートボット（日本語）' });
  await manage('POST', 'projects', { project_id: 'checkout', display_name: '顧客サポート' });
  for (const scope of [{ scope: 'org' }, { scope: 'workload', scope_id: LONG, period: 'daily' }])
    await manage('POST', 'budgets/limits', { ...scope, limit_usd: '2500', actions: ['alert', 'cap'] });
  for (const name of ['ops-alerts-production', '請求アラート'])
    await manage('POST', 'alerts/channels', { name, kind: 'slack', config: { webhook_url: 'https://hooks.slack.com/services/T/B/X' } });
  await manage('PUT', 'credentials', { id: 'openai-main-production', provider: 'openai', mode: 'alias', secret: 'sk-0123456789abcdef' });
  const call = (workload: string, model: string, max = 10) =>
    governed.execute({ org_id: 'acme', workload_id: workload, caller_id: '田中' }, { params: { ...CHAT, model, max_tokens: max } });
  await call('support-bot', 'gpt-4o-mini');
  await call(LONG, 'gpt-4-turbo-2024-04-09');
  await call(LONG, 'gpt-4o', 9000);
  await call('support-bot', 'gpt-4o', 9000);
  const env = { GW_PORT: String(governed.gw.port), GW_ADMIN_TOKEN: ADMIN_TOKEN, GW_ORG_ID: 'acme' };
  const run = (words: string, columns?: number) => gw(words.split(' '), { env, ...(columns === undefined ? {} : { columns }) });
  const listed = async (path: string) => ((await manage('GET', path)).body as { data: Json[] }).data;
  return { ...managed, run, listed };
}

t.test('why a call was decided as it was is read from the top at 80 cells', async (t) => {
  const { run, listed } = await startFilled(t);
  for (const { record_id: id, decision } of await listed('records?from=1970-01-01T00:00:00Z')) {
    const { out, code } = await run(`records explain ${String(id)}`, 80);
    t.equal(code, 0);
    t.match(out.split('\n')[0], new RegExp(`^${String(decision)}\\b`), 'the verdict comes first');
    t.equal(out.includes('What would let it through:'), decision !== 'allow', String(decision));
    for (const line of out.split('\n')) t.ok(cellWidth(line) <= 80, line);
    t.match(out, /\n {2}\+ targets\/all \(allow\), .*: matched\n/, 'each rule with its place');
  }
});

t.test('every list and report fits a terminal of 80 cells, and is whole where there is none', async (t) => {
  const { run, listed } = await startFilled(t);
  const lists = OPERATIONS.filter(({ id, method, path }) => id.startsWith('mgmt.') && method === 'GET' && !path.includes('{')).map(
    ({ id }) => id.slice('mgmt.'.length).replaceAll('.', ' ').replaceAll('_', '-'),
  );
  t.ok(lists.length > 20);
  for (const words of [...lists, 'logs', 'approvals list', 'spend --by workload', 'domains']) {
    const { code, out } = await run(words, 80);
    t.equal(code, 0, words);
    for (const line of out.split('\n')) t.ok(cellWidth(line) <= 80, `${words}: ${line}`);
  }
  const logs = (await run('logs', 80)).out;
  t.match(logs, /^TIME +DECISION +WHO +MODEL +COST\/REASON +ID\n/, 'no room is kept for paths where reasons are cut');
  t.match(logs, /^\S+(?: \d\d:\d\d)? {2,}allow +support-\S+ +gpt-4o-mini +\$0\.0000\S* +[0-9a-f]{8}$/m);
  t.match(logs, /^\S+(?: \d\d:\d\d)? {2,}deny +checkout\S+ +gpt-4-\S+ +model_not_allowed.* [0-9a-f]{8}$/m);
  t.match(logs, /^\S+(?: \d\d:\d\d)? {2,}approval .*計算コスト/m, 'a code that says no more than the decision is left out');
  t.notMatch((await run('logs', 60)).out, /PATH/, 'where there is less room, the rest stays');
  t.match((await run('logs', 240)).out, /^TIME +DECISION +WHO +MODEL +PATH +COST\/REASON +ID\n[\s\S]* chat\/completions /);
  t.match((await run('logs', 60)).out, /REA\S* +ID\n/);
  t.match((await run('logs', 200)).out, /model_not_allowed: Ask platform@example\.com/);
  const [record = {}] = await listed('records');
  const { record_id: id, completed_at: at } = record as { record_id: string; completed_at: string };
  for (const words of ['logs', 'records list --wide']) t.match((await run(words)).out, id, `${words} has whole ids for programs`);
  t.match((await run('logs')).out, at);
  t.match((await run('records list --wide', 80)).out, id);
  t.match((await run('workloads list')).out, LONG);
});

/** A value of the kind that a member of this name has, as long as they come. */
function likely(member: string, isId: boolean): unknown {
  if (/(?:^|_)at$/.test(member)) return '2025-11-26T10:11:12.345Z';
  if (isId) return '01a2189c-4b31-7022-a37c-d456c11624f0';
  if (/usd$/.test(member)) return '12345.678901';
  if (/enabled$/.test(member)) return true;
  if (/score|summed/.test(member)) return 0.97;
  if (/rate_(?:in|out|cached_in)$/.test(member)) return '10.125';
  if (member === 'decision') return 'require_attribution';
  return /actions|scopes|codes|types$/.test(member) ? ['read', 'write', 'approve'] : 'サポート of a rather long name, eu-west-1';
}

t.test('of every list all columns fit 80 cells, however long their texts are', (t) => {
  for (const [id, { columns = [] }] of Object.entries(LISTS)) {
    const row: Record<string, unknown> = {};
    for (const { heading, parts } of columns.map(namedColumn)) {
      for (const member of parts.flat()) {
        const [name = '', ...inner] = member.split('.');
        const value = likely(member, heading === 'id');
        const before = row[name] as Json | undefined;
        row[name] = inner.length === 0 ? value : { ...before, [inner.join('.')]: value };
      }
    }
    const out = listText([row], { things: '', columns, view: { width: 80, now: 0 } });
    for (const line of out.split('\n')) t.ok(cellWidth(line) <= 80, `${id}: ${line}`);
    t.notMatch(out, /more column/, `${id}: ${out}`);
  }
  t.end();
});

t.test('names of any script leave the columns behind them where they are, also where they are cut', (t) => {
  const names = [
    'apollo',
    '顧客サポート（日本語）の長い名前',
    '🚀 rocket 👩‍👩‍👧‍👦 family',
    'e\u0301clair cre\u0302me bru\u0302le\u0301e',
    'हिन्दी परियोजना',
    '한국어',
  ];
  const amounts = names.map((_, at) => `$${at + 1}.00`);
  for (const width of [undefined, 80, 30]) {
    for (const [name, table] of [
      [
        'money',
        moneyTable(
          [
            { name: 'PROJECT', kind: 'name', cells: names },
            { name: 'COST', kind: 'amount', cells: amounts },
          ],
          width,
        ),
      ],
      [
        'text',
        textTable(
          [
            { name: 'project', cells: names },
            { name: 'cost', cells: amounts },
          ],
          width,
        ),
      ],
    ] as const) {
      const lines = table.trimEnd().split('\n');
      t.equal(lines.length, names.length + 1, name);
      for (const line of lines) {
        t.equal(cellWidth(line), cellWidth(lines[0] ?? ''), `${name} ${width}: ${line}`);
        t.ok(cellWidth(line) <= (width ?? 80), line);
      }
    }
  }
  const sentence = changeText({ added: [Array.from({ length: 12 }, () => '顧客サポート').join(' ')], dry_run: true }, 60);
  for (const line of sentence.split('\n')) t.ok(cellWidth(line) <= 60, line);
  t.end();
});

t.test('calls that come one by one stand below each other, too', async (t) => {
  const call = {
    time: '2025-11-24T10:00:00.000Z',
    record_id: '01a218c3-77f5-72b8-a973-834bbbc800a2',
    decision: 'deny',
    reason_codes: ['model_not_allowed'],
  };
  const calls = [
    { ...call, workload_id: LONG, host: 'api.openai.com', model: 'gpt-4-turbo-2024-04-09', reason: 'Ask the platform team' },
    { ...call, workload_id: 'ボット', host: '日本語.example.com', decision: 'require_approval', reason_codes: ['approval_required'] },
    { ...call, workload_id: 'ci', model: 'gpt-4o', decision: 'allow', reason_codes: [], cost_usd: '0.00000585' },
  ];
  const { code, out } = await gw(['logs', '-'], { stdin: calls.map((one) => JSON.stringify(one)).join('\n'), columns: 80 });
  const lines = out.trimEnd().split('\n');
  t.equal(code, 0);
  t.equal(lines.length, 4);
  for (const line of lines) t.ok(cellWidth(line) <= 80, line);
  t.equal(new Set(lines.slice(1).map((line) => cellWidth(line))).size, 1, out);
  t.match(lines[1], /deny +checkout\S+ +gpt-4-\S+ +model_not\S+ +bbc800a2$/);
  t.match(lines[2], /approval +ボット +日本語\S+ +approval_\S+ +bbc800a2$/);
});

t.test('columns are chosen by heading or member, and are whole', async (t) => {
  const { run } = await startFilled(t);
  t.match(await run('workloads list --columns ID,name', 40), {
    code: 0,
    out: new RegExp(`^ID +NAME\n(?:.*\n)*${LONG} +Checkout service \\(production, eu-west-1\\)\n`),
  });
  t.match((await run('records list --columns record_id,metering.cost_usd', 80)).out, /^RECORD_ID +METERING\.COST_USD\n[0-9a-f-]{36}/);
  t.match(await run('workloads list --columns nothing', 80), {
    code: 2,
    err: /--columns takes some of id, name, project.*, not "nothing"/,
  });
  t.match(await run('workloads list --columns ,', 80), { code: 2, err: /--columns takes names with commas/ });
  t.match(await run('billing summary --columns total_requests', 80), { code: 2, err: /--columns is for a list/ });
  t.match(
    (await run('logs --columns time,who,path,reason', 80)).out,
    new RegExp(`^TIME +WHO +PATH +REASON\n[\\s\\S]* ${LONG} +/v1/chat/completions +model_not_allowed: Ask`),
  );
  t.match(await run('logs --columns nothing', 80), { code: 2, err: /--columns takes some of time, decision, who/ });
  t.match(
    (await run('logs --wide', 80)).out,
    /^TIME +DECISION +WHO +DOOR +PROVIDER\/MODEL +PATH +STATUS +TOKENS +COST +TOOK +CALLER +ID +REASON\n/,
  );
});

t.test('an id is taken as a table shows it, while it means one thing', async (t) => {
  const { run, listed, keyOf } = await startFilled(t);
  const [record, denied] = (await listed('records')) as [Json, Json];
  const end = (one: Json | undefined, member: string) => String(one?.[member]).slice(-8);
  t.match((await run('records list', 80)).out, end(record, 'record_id'));
  for (const short of [
    end(record, 'record_id'),
    String(record['record_hash']).slice(0, 10),
    `${String(record['record_hash']).slice(0, 10)}…`,
  ])
    t.match(await run(`records show ${short}`), { code: 0, out: `record_id: ${' '.repeat(18)}` }, short);
  const several = await run(`records show ${String(record['record_id']).slice(0, 6)}`, 80);
  t.match(several, { code: 2, out: '', err: /is short for several:\nTIME +DECISION/ });
  for (const one of [record, denied]) t.match(several.err, end(one, 'record_id'), 'which ones, and what tells them apart');
  t.match((await run(`records list --record-id ${end(denied, 'record_id')}`)).out, String(denied['record_id']));
  const [approval, second] = (await listed('approvals')) as [Json, Json];
  t.match(await run(`approvals show ${end(approval, 'approval_id')}`), { code: 0, out: String(approval['approval_id']) });
  t.match(await run(`approvals approve ${end(approval, 'approval_id')}`), { code: 0, out: /approved/ });
  t.match(await run(`approvals deny ${String(second['approval_id']).slice(0, 6)}`), { code: 2, err: /is short for several/ });
  const [, limit] = await listed('budgets/limits');
  t.match(await run(`budgets delete ${end(limit, 'limit_id')}`), { code: 0, out: /deleted/ });
  t.equal((await listed('budgets/limits')).length, 1);
  const { id: key } = await keyOf('acme', ['read']);
  t.match(await run(`keys revoke ${key.slice(-8)}`), { code: 0, out: key });
  const [channel] = await listed('alerts/channels');
  const made = await run(`alerts subscriptions create --channel-id ${end(channel, 'channel_id')} --event approval`);
  t.match(made, { code: 0, out: String(channel?.['channel_id']) });
});

t.test('nothing is changed or removed by a guess', async (t) => {
  const { run, listed } = await startFilled(t);
  t.match(await run('workloads delete checkout'), {
    code: 2,
    err: new RegExp(`nothing is called checkout; what is removed is named whole, such as ${LONG}`),
  });
  t.match(await run('workloads delete nobody'), { code: 1, err: /There is no workload nobody/ });
  t.match(await run('workloads put --workload-id supp --name New'), { code: 0 }, 'what may be made is not taken for another');
  t.equal((await listed('workloads')).filter(({ workload_id: id }) => String(id).startsWith('supp')).length, 2);
  const ids = Array.from({ length: 5_001 }, (_, at) => ({ limit_id: `01a2189c-0000-7000-8000-${String(at).padStart(12, '0')}` }));
  async function* pages() {
    await Promise.resolve();
    for (let at = 0; at < ids.length; at += 500) yield ids.slice(at, at + 500);
  }
  const io = { stdout: () => undefined, stderr: () => undefined, stdin: () => Promise.resolve(new Uint8Array()) };
  const search = { short: '00000042', list: 'mgmt.budgets.list', removes: true };
  await t.rejects(
    wholeId({ ...search, changes: true }, pages(), io),
    /short for one of the 5000 newest, and there are more: give its whole id/,
  );
  t.equal(await wholeId({ ...search, changes: false }, pages(), io), ids[42]?.limit_id, 'to look at it is another thing');
  t.equal(await wholeId({ ...search, short: '042', changes: false }, pages(), io), undefined, 'three digits are no id');
});

t.test('times are those of the machine, in one form for all; ids are as long as tells them apart', async (t) => {
  const now = new Date(2026, 10, 26, 12).getTime();
  const at = (...parts: [number, number, number, number, number, number]) => new Date(...parts).toISOString();
  const [today, earlier, before] = [at(2026, 10, 26, 8, 5, 9), at(2026, 10, 25, 8, 5, 9), at(2025, 10, 26, 8, 5, 9)];
  t.same(shortTimes([today], now), ['08:05:09']);
  t.same(shortTimes([today, earlier, ''], now), ['11-26 08:05', '11-25 08:05', '-']);
  t.same(shortTimes([today, before], now), ['2026-11-26 08:05', '2025-11-26 08:05']);
  const [one, other, third] = ['01a2-0000-1111aaaabbbb', '01a2-0000-2222aaaabbbb', '01a3-0000-3333ccccdddd'];
  t.same(shortIds([one, third]), ['aaaabbbb', 'ccccdddd']);
  t.same(shortIds([one, other, one]), ['1111aaaabbbb', '2222aaaabbbb', '1111aaaabbbb']);
  t.same(shortIds(['1', '1']), ['1', '1']);
  for (const [id, { columns = [] }] of Object.entries(LISTS)) {
    t.ok(OPERATIONS.some((operation) => operation.id === id) || id === '', `${id} is an operation`);
    t.equal(new Set(columns).size, columns.length);
  }
});
