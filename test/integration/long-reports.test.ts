// Reports over very many rows: they are read and answered in slices, so that no other call waits for them. Judged by
// turns of the event loop, not by time.
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { silentLogger } from '../../src/base/lib/log.ts';
import type { ExecutionRecord } from '../../src/base/model/execution-record.ts';
import { rollUp } from '../../src/record/roll-up.ts';
import { USAGE_MONTH } from '../../src/storage/contract/counter-spaces.ts';
import type { Effect, Store } from '../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock, runningClock } from '../support/fake-clock.ts';
import { ADMIN_TOKEN, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { tempDir } from '../support/temp-dir.ts';

const ROWS = 100_000;
/** Rows of one org, for the reports that ask for one. */
const BIG_ORG_ROWS = 20_000;
const SLICE = 500;
const NOW = Date.UTC(2026, 10, 22, 10, 30);
const PERIOD = '2026-11';

interface Row {
  readonly org: string;
  readonly workload: string;
  readonly connector: string;
  readonly requests: number;
  readonly tokens: number;
  readonly pico: bigint;
}

/** One line of the bill. Every seventh has rows of two decisions, which are one line; ids repeat in several orgs. */
function rowAt(n: number): Row {
  const big = n < BIG_ORG_ROWS;
  return {
    org: big ? 'big' : `org-${n % 30_011}`,
    workload: big ? `w-${n >> 1}` : `w-${n}`,
    connector: n % 2 === 0 ? 'openai' : 'mistral',
    requests: n % 7 === 0 ? 2 : 1,
    tokens: n % 997,
    pico: BigInt(n) * 12_345_678_901n + 7n,
  };
}

function usd(amount: bigint): string {
  const digits = `${amount}`.padStart(13, '0');
  return `${digits.slice(0, -12)}.${digits.slice(-12)}`.replace(/\.?0+$/, '');
}

/** What a call of a row adds to its month, by the product's own roll-up. */
function effectsOf(row: Row, decision: string, part: { readonly tokens: number; readonly pico: bigint }): readonly Effect[] {
  const record = {
    record_tier: 'action',
    completed_at: '2026-11-22T10:00:00.000Z',
    org_id: row.org,
    workload_id: row.workload,
    connector_id: row.connector,
    decision,
    upstream_status: 200,
    metering: {
      tokens_in: part.tokens,
      tokens_out: 3,
      cost_usd: usd(part.pico),
      model: 'm',
      usage_reported: true,
      rate_source: 'catalogue',
    },
  };
  return rollUp(record as unknown as ExecutionRecord).filter(({ space }) => space === USAGE_MONTH);
}

async function fill(dir: string): Promise<void> {
  const store = await openEmbeddedStore({ dir, fsync: 'off', clock: runningClock, log: silentLogger });
  await store.commit(undefined, [{ op: 'put', space: 'roll_up', key: 'hours_and_months', value: { records: 0 } }]);
  let effects: Effect[] = [];
  for (let n = 0; n < ROWS; n += 1) {
    const row = rowAt(n);
    effects.push(...effectsOf(row, 'allow', row));
    if (row.requests === 2) effects.push(...effectsOf(row, 'downgrade', { tokens: 0, pico: 0n }));
    if (effects.length < 1_000 && n < ROWS - 1) continue;
    await store.commit(undefined, effects);
    effects = [];
  }
  await store.close();
}

/** Turns of the event loop since the start. */
class Turns {
  count = 0;
  #next: NodeJS.Immediate | undefined;

  constructor() {
    const turn = () => {
      this.count += 1;
      this.#next = setImmediate(turn);
    };
    turn();
  }

  stop(): void {
    clearImmediate(this.#next);
  }
}

/** What was asked of a store, and whether the event loop turned between a page and the next one. */
class Watched {
  readonly #turns: Turns;
  #lastAnswer = -1;
  pages = 0;
  problems: string[] = [];
  /** Called before each page. */
  before: (after: string | undefined) => Promise<void> = async () => undefined;

  constructor(turns: Turns) {
    this.#turns = turns;
  }

  over(store: Store): Store {
    const counters: Store['counters'] = async (space, page) => {
      if (this.#turns.count === this.#lastAnswer) this.problems.push(`page ${this.pages} of ${space} in the turn of the one before`);
      if (!(page.limit <= SLICE)) this.problems.push(`a page of ${page.limit} rows`);
      this.pages += 1;
      await this.before(page.after);
      const rows = await store.counters(space, page);
      // A page without rows takes no time worth a turn.
      this.#lastAnswer = rows.length === 0 ? -1 : this.#turns.count;
      return rows;
    };
    return new Proxy(store, {
      get: (target, name) => {
        if (name === 'counters') return counters;
        const member: unknown = Reflect.get(target, name, target);
        return typeof member === 'function' ? member.bind(target) : member;
      },
    });
  }

  /** What is wrong with the pages read since the last time. */
  async during<T>(t: Test, pages: number, name: string, work: () => Promise<T>): Promise<T> {
    this.pages = 0;
    const result = await work();
    t.strictSame(this.problems, [], `${name}: the event loop turned behind every page`);
    t.ok(this.pages >= pages, `${name}: ${this.pages} pages, at least ${pages}`);
    return result;
  }
}

interface Place {
  readonly gw: TestGateway;
  readonly store: Store;
  readonly watched: Watched;
}

const template = tempDir(t);
await fill(join(template, 'store'));

/** A gateway on the rows, in the index and, where they were added to since, in the tail. */
async function start(t: Test): Promise<Place> {
  const turns = new Turns();
  t.teardown(() => turns.stop());
  const watched = new Watched(turns);
  let store: Store | undefined;
  const keep = (opened: Store) => {
    store = opened;
    return watched.over(opened);
  };
  const gw = await startTestGateway(t, { clock: fakeClock(NOW), store: keep, env: { GW_DATA_DIR: template } });
  if (store === undefined) throw new Error('the gateway opened no store');
  return { gw, store, watched };
}

t.test('a hundred thousand rows are read in pages, and the numbers are those of all rows to the last digit', async (t) => {
  const { gw, store, watched } = await start(t);
  const rows = Array.from({ length: ROWS }, (_, n) => rowAt(n));
  await store.commit(
    undefined,
    [0, 7, 99_995].flatMap((n) => effectsOf(rowAt(n), 'allow', { tokens: 0, pico: 0n })),
  );
  for (const n of [0, 7, 99_995]) rows[n] = { ...rowAt(n), requests: 3 };
  const get = async (path: string) => (await gw.admin('GET', path)) as { status: number; body: Record<string, unknown>; text: string };
  const { length: stored } = rows.flatMap(({ requests }) => (requests > 1 ? [1, 1] : [1]));
  const pages = stored / SLICE;
  const pico = (some: readonly Row[]) => usd(some.reduce((sum, row) => sum + row.pico, 0n));
  const count = (some: readonly Row[]) => some.reduce((sum, row) => sum + row.requests, 0);
  const calls = { requests: 0, tokens_in: 0, tokens_out: 0 };
  const add = (sum: typeof calls, { requests, tokens }: Row) => ({
    requests: sum.requests + requests,
    tokens_in: sum.tokens_in + tokens,
    tokens_out: sum.tokens_out + 3 * requests,
  });

  const csv = await watched.during(t, pages, 'CSV', () => get(`/v1/admin/billing/export.csv?period=${PERIOD}`));
  const lines = csv.text.split('\r\n');
  const line = (row: Row) => {
    const { requests, tokens_in, tokens_out } = add(calls, row);
    return [PERIOD, row.org, row.workload, row.connector, requests, tokens_in, tokens_out, usd(row.pico)].join(',');
  };
  t.equal(lines.length, ROWS + 2);
  t.ok(lines.slice(1, -1).sort().join('\n') === rows.map(line).sort().join('\n'), 'every line, once');

  const summary = await watched.during(t, pages, 'summary', () => get(`/v1/admin/billing/summary?period=${PERIOD}`));
  t.match(summary.body, { period: PERIOD, total_requests: count(rows), total_cost_usd: pico(rows) });
  const breakdown = summary.body['breakdown'] as Record<string, Record<string, unknown>>;
  const expected = new Map<string, Map<string, Row[]>>();
  for (const row of rows) {
    const connectors = expected.get(row.workload) ?? new Map<string, Row[]>();
    expected.set(row.workload, connectors.set(row.connector, [...(connectors.get(row.connector) ?? []), row]));
  }
  t.equal(Object.keys(breakdown).length, expected.size);
  const wrong = [...expected].filter(([workload, connectors]) => {
    const own = Object.fromEntries([...connectors].map(([name, some]) => [name, { ...some.reduce(add, calls), cost_usd: pico(some) }]));
    const sorted = (by: Record<string, unknown> = {}) => JSON.stringify(Object.entries(by).sort(([a], [b]) => (a < b ? -1 : 1)));
    return sorted(breakdown[workload]) !== sorted(own);
  });
  t.strictSame(wrong, [], 'every workload of the breakdown');

  const big = rows.slice(0, BIG_ORG_ROWS);
  const usage = await watched.during(t, BIG_ORG_ROWS / SLICE, 'usage', () => get(`/v1/reports/usage?org_id=big&period=${PERIOD}`));
  const workloads = new Map<string, typeof calls>();
  for (const row of big) workloads.set(row.workload, add(workloads.get(row.workload) ?? calls, row));
  const byId = (some: Iterable<unknown>) => [...some].map((one) => JSON.stringify(one)).sort();
  const sums = [...workloads].map(([workload_id, sum]) => ({ workload_id, ...sum }));
  t.match(usage.body, { org_id: 'big', period: PERIOD });
  t.ok(byId(usage.body['workloads'] as unknown[]).join() === byId(sums).join(), 'every workload of the org, once');
  const spend = await watched.during(t, BIG_ORG_ROWS / SLICE, 'spend', () => get(`/v1/reports/spend?org_id=big&period=${PERIOD}`));
  const providers = ['mistral', 'openai'].map((provider) => {
    const own = big.filter(({ connector }) => connector === provider);
    return { provider, requests: count(own), cost_usd: pico(own) };
  });
  t.same(spend.body, { org_id: 'big', period: PERIOD, providers, total_cost_usd: pico(big) });
  const range = '/v1/dashboard/summary?org_id=big&from=2026-11-01&to=2026-11-30';
  const dashboard = await watched.during(t, BIG_ORG_ROWS / SLICE, 'dashboard', () => get(range));
  const { requests, ...tokens } = big.reduce(add, calls);
  t.match(dashboard.body, {
    total_requests: requests,
    total_allowed: requests,
    total_tokens_in: tokens.tokens_in,
    total_tokens_out: tokens.tokens_out,
    total_cost_usd: pico(big),
  });
});

t.test('while records are written, every line comes once, and each record is counted whole or not yet', async (t) => {
  const { gw, store, watched } = await start(t);
  const path = `/v1/admin/billing/export.csv?period=${PERIOD}`;
  const linesOf = (text: string) =>
    new Map(
      text
        .split('\r\n')
        .slice(1, -1)
        .map((line) => [line.split(',').slice(1, 4).join(','), line.split(',').slice(4)]),
    );
  const first = linesOf((await gw.admin('GET', path)).text);
  const keys = [...first.keys()];
  /** A call that adds 1,000,000 input tokens, so that it shows in its line beside its request. */
  const call = (key: string) => {
    const [org = '', workload = '', connector = ''] = key.split(',');
    return effectsOf({ org, workload, connector, requests: 1, tokens: 0, pico: 0n }, 'allow', { tokens: 1_000_000, pico: 0n });
  };
  await store.commit(undefined, call(keys[50_000] ?? ''));
  let round = 0;
  watched.before = async () => {
    round += 1;
    const key = (at: number) => keys[Math.floor(((round * at) % 997) * (keys.length / 997))] ?? '';
    for (const one of [key(1), key(31), key(577), `aaa-${round},w,openai`, `zzz-${round},w,openai`])
      await store.commit(undefined, call(one));
  };
  const { text } = await watched.during(t, ROWS / SLICE, 'CSV', () => gw.admin('GET', path));
  watched.before = async () => undefined;
  const [during, last] = [linesOf(text), linesOf((await gw.admin('GET', path)).text)];
  t.equal(text.split('\r\n').length - 2, during.size, 'no line comes twice');
  const torn: string[] = [];
  let seen = 0;
  for (const [key, [requests, tokens]] of last) {
    const at = (lines: typeof last) => Number(lines.get(key)?.[0] ?? 0);
    const more = at(during) - at(first);
    seen += more;
    const millions = (lines: typeof last) => Math.floor(Number(lines.get(key)?.[1] ?? 0) / 1_000_000);
    if (more < 0 || at(during) > Number(requests) || millions(during) !== more) torn.push(`${key}: ${requests}, ${tokens}`);
  }
  t.strictSame(torn, [], 'requests and tokens of a call come together');
  t.equal(during.get(keys[50_000] ?? '')?.[0], `${Number(first.get(keys[50_000] ?? '')?.[0]) + 1}`, 'what was stored before is counted');
  t.ok(seen > 1 && seen < round * 5, `${seen} of ${round * 5} calls were counted that came meanwhile`);
  t.ok(
    [...first.keys()].every((key) => during.has(key)),
    'no line is missing',
  );
});

t.test('a store that fails is an error at the beginning, and later an answer that nobody takes for complete', async (t) => {
  const { gw, watched } = await start(t);
  for (const path of ['/v1/admin/billing/export.csv', '/v1/reports/usage']) {
    const url = `${path}?period=${PERIOD}${path.endsWith('usage') ? '&org_id=big' : ''}`;
    for (const failing of [1, 3]) {
      watched.pages = 0;
      watched.before = async () => {
        if (watched.pages === failing) throw new Error('the disk is gone');
      };
      const answer = gw.admin('GET', url);
      if (failing === 1) t.match(await answer, { status: 500, body: { error: { code: 'internal' } } }, url);
      else await t.rejects(answer, `${url}: the answer is broken off`);
    }
  }
  watched.before = async () => undefined;
  t.equal((await gw.admin('GET', `/v1/admin/billing/export.csv?period=${PERIOD}`)).status, 200);
  const head = await fetch(`${gw.url}/v1/admin/billing/export.csv`, { method: 'HEAD', headers: { 'GW-Admin-Token': ADMIN_TOKEN } });
  t.equal(head.status, 200);
  t.equal(await head.text(), '');
});
