// Recorded answers through a whole gateway, by the proxied door and the structured API, under a project's cap and
// without one: record, limit and bill say what was reckoned by hand.
import t, { type Test } from 'tap';
import { loadCatalogue } from '../../src/base/catalogue/catalogue.ts';
import { picoFromUsd, usdFromPico } from '../../src/base/lib/money.ts';
import { byHand } from '../support/by-hand.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { form, TYPE } from '../support/forms.ts';
import { ALLOW_ALL, type Governed, startGoverned } from '../support/governed.ts';
import { managedOf } from '../support/managed.ts';
import { cameAt, type MoneyRow, methodAndPath, moneyRows, streamedAnswer, wholeAnswer } from '../support/money-rows.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

const catalogue = loadCatalogue();
const rows = moneyRows().filter(({ door }) => door !== undefined);
const PROJECT = 'money';

interface Sent {
  readonly row: MoneyRow;
  readonly host: string;
  readonly call: string;
  readonly answer: { readonly type: string; readonly bytes: Buffer };
  readonly streamed: boolean;
}

function hostOf({ provider, host }: MoneyRow): string {
  return host ?? catalogue.provider(provider)?.hosts[0] ?? '';
}

/** The calls that a row makes: one for each form of its answer. */
function* callsOf(row: MoneyRow): Generator<Sent> {
  const [whole, stream] = [wholeAnswer(row), streamedAnswer(row)];
  const common = { row, host: hostOf(row) };
  const { call = '', stream_call: streamCall = call } = row;
  if (whole !== undefined) yield { ...common, call, answer: whole, streamed: false };
  if (stream !== undefined) yield { ...common, call: streamCall, answer: stream, streamed: true };
}

/** The body of a call: a stream is asked for as the wire format does, with its usage. */
function bodyOf({ row, call, streamed }: Sent): Record<string, unknown> {
  const provider = catalogue.provider(row.provider);
  const dialect = provider && catalogue.operation(provider, ...methodAndPath(call)).dialect;
  const asksInBody = streamed && dialect?.stream?.in === 'body';
  return {
    ...row.asks,
    ...(asksInBody ? { stream: true } : {}),
    ...(asksInBody && dialect.usageOnRequest ? { stream_options: { include_usage: true } } : {}),
  };
}

let next: Sent | undefined;
const answer: UpstreamHandler = (_request, response, body) =>
  void body.then(() => {
    if (next === undefined) throw new Error('nobody asked');
    response.writeHead(200, { 'content-type': next.answer.type, ...(next.streamed ? {} : next.row.headers) });
    response.end(next.answer.bytes);
  });

/** @returns the id of the record */
async function byProxy(governed: Governed, sent: Sent): Promise<string> {
  const [method, path] = methodAndPath(sent.call);
  const isForm = /\/audio\/transcriptions/.test(path);
  const body = bodyOf(sent);
  const parts = Object.entries({ ...body, ...(sent.streamed ? { stream: 'true' } : {}) });
  const response = await governed.through(`${sent.host}:443`, {
    method,
    path,
    headers: ['Authorization', 'Bearer sk-client', 'Content-Type', isForm ? TYPE : 'application/json', 'X-GW-Project-ID', PROJECT],
    body: isForm
      ? form(...parts.map(([name, value]) => [`name="${name}"`, String(value)] as const), ['name="file"; filename="a.wav"', 'RIFF'])
      : JSON.stringify(body),
  });
  if (response.status !== 200) throw new Error(`${response.status} ${response.body.toString()}`);
  return String(response.headers['x-gw-record-id']);
}

/** @returns the id of the record */
async function byExecute(governed: Governed, sent: Sent): Promise<string> {
  const [method, path] = methodAndPath(sent.call);
  const provider = catalogue.provider(sent.row.provider);
  const operation = provider && catalogue.operation(provider, method, path);
  const action = { type: operation?.actionType, method, target_host: sent.host, target_path: path, params: bodyOf(sent) };
  const response = await governed.execute({ attribution: { project_id: PROJECT } }, action);
  if (response.status !== 200) throw new Error(`${response.status} ${response.text}`);
  return response.headers.get('x-gw-record-id') ?? '';
}

interface Metering extends Record<string, unknown> {
  readonly cost_usd: string;
  readonly passes?: readonly { readonly cost_usd: string }[];
  readonly units?: Readonly<Record<string, { readonly count: number; readonly cost_usd: string }>>;
}

function check(t: Test, sent: Sent, door: string, record: Record<string, unknown>): void {
  const { row, streamed } = sent;
  const metering = record['metering'] as Metering;
  const { counts, answered, source = 'catalogue', shows = {} } = row;
  const { passes, units, terms, ...tokens } = counts ?? { tokens_in: 0, tokens_out: 0 };
  const found = {
    cost: metering.cost_usd,
    tokens: Object.fromEntries(Object.keys(tokens).map((name) => [name, metering[name]])),
    terms: metering['terms'] ?? [],
    passes: metering.passes?.length ?? 0,
    source: metering['rate_source'],
    shows: Object.fromEntries(Object.keys(shows).map((name) => [name, metering[name]])),
    reported: metering['usage_reported'],
    outcome: record['stream_outcome'],
    model: metering['model'],
  };
  const want = {
    cost: byHand(row.by_hand).stated,
    tokens,
    terms: terms ?? [],
    passes: passes?.length ?? 0,
    source,
    shows,
    reported: counts !== null,
    outcome: streamed ? 'complete' : undefined,
    model: answered ?? metering['model'],
  };
  t.strictSame(found, want, `${row.file}: ${row.name}, ${door}${streamed ? ', streamed' : ''}: ${row.by_hand}`);
  for (const [unit, count] of Object.entries(units ?? {}))
    if (metering.units?.[unit] !== undefined) t.equal(metering.units[unit].count, count, `${row.name}: ${unit}`);
  const parts = [...(metering.passes ?? []), ...Object.values(metering.units ?? {})];
  const sum = parts.reduce((all, { cost_usd: cost }) => all + picoFromUsd(cost), 0n);
  if (metering.passes !== undefined) t.equal(usdFromPico(sum), metering.cost_usd, `${row.name}: its passes and units come to its cost`);
}

for (const capped of [false, true]) {
  t.test(`record, limit and bill say what was reckoned by hand, ${capped ? 'under the cap of a project' : 'without a cap'}`, async (t) => {
    const hosts = [...new Set(rows.map(hostOf))];
    const clock = fakeClock(cameAt({}));
    const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler: answer, hosts, clock });
    const { gw } = governed;
    const limit = { scope: 'project', scope_id: PROJECT, limit_usd: '1000', actions: capped ? ['cap'] : [] };
    t.equal((await gw.admin('POST', '/v1/admin/budgets/limits', limit)).status, 201);
    let spent = 0n;
    let calls = 0;
    for (const row of rows) {
      for (const sent of callsOf(row)) {
        next = sent;
        for (const [door, send] of [
          ['by the proxy', byProxy],
          ['by the structured API', byExecute],
        ] as const) {
          if (send === byExecute && row.door !== 'both') continue;
          check(t, sent, door, await gw.record(await send(governed, sent)));
          spent += picoFromUsd(byHand(row.by_hand).stated);
          calls++;
        }
      }
    }
    const { limits } = (await gw.admin('GET', '/v1/admin/budgets/limits')).body as { limits: readonly Record<string, unknown>[] };
    t.strictSame(
      limits.map((one) => [one['spent_usd'], one['reserved_usd']]),
      [[usdFromPico(spent), '0']],
    );
    const bill = (await gw.admin('GET', '/v1/admin/billing/summary?period=2026-11')).body as Record<string, unknown>;
    t.strictSame([bill['total_requests'], bill['total_cost_usd']], [calls, usdFromPico(spent)]);
    t.comment(`${calls} calls, ${usdFromPico(spent)} USD`);
    t.ok(calls > 60);
  });
}

t.test("a connector that an org made: the deployment's name costs nobody anything, the model behind it does", async (t) => {
  const row = moneyRows().find(({ provider }) => provider.startsWith('custom:'));
  const whole = row && wholeAnswer(row);
  if (row === undefined || whole === undefined) throw new Error('no row of a custom connector');
  const host = hostOf(row);
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, handler: answer, hosts: [host], clock: fakeClock(cameAt(row)) });
  const { manage } = await managedOf(governed.gw);
  const made = await manage('POST', 'connectors', { name: 'Ours', base_url: `https://${host}/api/v1`, auth_mode: 'bearer' });
  t.equal(made.status, 201);
  for (const model of ['gpt-4o', 'prod-mini']) {
    const sent = { row, host, call: 'POST /api/v1/chat/completions', answer: whole, streamed: false };
    next = sent;
    const request = {
      method: 'POST',
      path: '/api/v1/chat/completions',
      headers: ['Authorization', 'Bearer sk-client', 'Content-Type', 'application/json', 'X-GW-Org-ID', 'acme'],
      body: JSON.stringify({ model, messages: [] }),
    };
    const response = await governed.through(`${host}:443`, request, { 'X-GW-Org-ID': 'acme' });
    t.equal(response.status, 200);
    check(t, sent, `${model} by the proxy`, await governed.recordOf(response));
  }
});
