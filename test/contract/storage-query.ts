import { picoFromUsd } from '../../src/base/lib/money.ts';
import { doubtNames } from '../../src/base/model/cost-doubt.ts';
import { QUERY_TEXTS, type RecordFilters, type RecordMembers, type RecordQuery } from '../../src/storage/contract/record-query.ts';
import type { RecordCommit, Store } from '../../src/storage/contract/store.ts';
import { add, EPOCH, makeRecord, rejection, type StoreUnderTest, states, type Tap } from './store-under-test.ts';

const COUNT = 240;
const MODELS = ['gpt-4o', 'gpt-4o-mini', 'claude-sonnet-4', 'GPT', '', 'modèle'];

/** Codes, and what is none and so is not found by it. */
const REASONS = ['over_budget', 'budget_exceeded', 'a sentence', undefined];
const CODES = [['budget_exceeded'], ['exceeded', 'budget'], [], ['a', 'budget_exceeded', 'missing:labels.é'], ['budget'], ['a,budget']];

const SURE = [
  { usage_reported: true, rate_source: 'catalogue' },
  { usage_reported: true, rate_source: 'default' },
  { usage_reported: false, rate_source: 'catalogue' },
  { usage_reported: false, rate_source: 'default' },
  { usage_reported: false, rate_source: 'catalogue', billing: 'plan' },
] as const;

interface Given extends RecordCommit {
  readonly members: RecordMembers;
}

/** The n-th record; every text member is there in some records and has a few values. */
function given(n: number): Given {
  const texts = QUERY_TEXTS.map((name, at) => [name, (n + at) % 7 === 0 ? undefined : `${name}-${(n * (at + 3)) % (2 + at)}`]);
  const members = {
    ...(Object.fromEntries(texts) as RecordMembers),
    model: n % 11 === 0 ? undefined : MODELS[n % MODELS.length],
    reason: REASONS[n % REASONS.length],
    reason_codes: n % 5 === 0 ? undefined : CODES[n % CODES.length],
    labels: n % 3 === 0 ? { env: n % 2 === 0 ? 'prod' : 'test', [`x"env`]: 'odd', 'a,': 'b', n: `${n % 5}` } : undefined,
    metering: n % 4 === 0 ? undefined : { cost_usd: n % 8 === 1 ? '0' : `0.${String(n).padStart(9, '0')}`, ...SURE[n % SURE.length] },
  };
  const plain = makeRecord(n, { pad: (n * 37) % 300 });
  const text = JSON.stringify({ ...(JSON.parse(plain.text) as object), ...members });
  return { ...plain, text, members };
}

const GIVEN = Array.from({ length: COUNT }, (_, n) => given(n + 1));

/** Half of them come without members: then the text says what they are. */
async function fill(store: Store): Promise<void> {
  for (const [n, { members, ...record }] of GIVEN.entries()) {
    await store.commit(n % 2 === 0 ? record : { ...record, members }, []);
    if (n % 9 === 0) await store.commit(undefined, [add('between', { n: 1n })]);
  }
}

function isWanted({ record_id: id, committed_at: at, members }: Given, filters: RecordFilters): boolean {
  const { label, reason_code: code, min_cost_usd: cost, cost_doubt: doubt, model, since, until, record_id } = filters;
  const isSame = QUERY_TEXTS.every((name) => isOneOf(filters[name], members[name]));
  const labels = members.labels ?? {};
  const doubts = doubtNames(members);
  return (
    isSame &&
    (record_id === undefined || record_id === id) &&
    (model === undefined || [model, model.toLowerCase()].some((part) => members.model?.includes(part) === true)) &&
    (code === undefined || members.reason_codes?.includes(code) === true || (members.reason === code && code !== 'a sentence')) &&
    (label === undefined || (Object.hasOwn(labels, label.key) && (label.value === undefined || labels[label.key] === label.value))) &&
    (cost === undefined || (members.metering !== undefined && picoFromUsd(members.metering.cost_usd) >= picoFromUsd(cost))) &&
    (doubt === undefined || (doubt === 'any' ? doubts !== undefined : doubts?.includes(doubt) === true)) &&
    (since === undefined || at >= since) &&
    (until === undefined || at < until)
  );
}

function isOneOf(wanted: string | readonly string[] | undefined, text: string | undefined): boolean {
  return wanted === undefined || (text !== undefined && [wanted].flat().includes(text));
}

/** Each filter by itself, then some together. */
const FILTERS: readonly RecordFilters[] = [
  ...QUERY_TEXTS.flatMap((name) => [{ [name]: `${name}-1` }, { [name]: 'nobody' }, { [name]: '' }]),
  ...['gpt-4o', 'GPT', 'mini', '', 'è', 'none', 'gpt-4oclaude'].map((model) => ({ model })),
  ...[
    'budget_exceeded',
    'budget',
    'exceeded',
    'a',
    'missing:labels.é',
    'labels.é',
    'a,budget',
    '',
    'nothing',
    'over_budget',
    'a sentence',
  ].map((code) => ({
    reason_code: code,
  })),
  ...(['any', 'no_usage', 'default_rate'] as const).map((doubt) => ({ cost_doubt: doubt })),
  { label: { key: 'env' } },
  { label: { key: 'env', value: 'prod' } },
  { label: { key: 'env', value: 'odd' } },
  { label: { key: 'x"env', value: 'odd' } },
  { label: { key: 'a,' } },
  { label: { key: 'a' } },
  { label: { key: 'env', value: 'pro' } },
  ...['0', '0.0', '0.000000001', '0.000000101', '0.0000001010', '0.000000101001', '1'].map((cost) => ({ min_cost_usd: cost })),
  ...[0, EPOCH + 1, EPOCH + 100, EPOCH + COUNT, EPOCH + COUNT + 1].flatMap((at) => [{ since: at }, { until: at }]),
  { since: EPOCH + 50, until: EPOCH + 60 },
  ...[1, 77].map((n) => ({ record_id: makeRecord(n).record_id })),
  { record_id: 'unknown' },
  { record_id: makeRecord(77).record_id, until: EPOCH + 77 },
  { record_id: makeRecord(77).record_id, since: EPOCH + 77, until: EPOCH + 78 },
  { org_id: 'org_id-1', model: 'gpt', min_cost_usd: '0.00000005' },
  { decision: 'decision-1', since: EPOCH + 20, until: EPOCH + 220, label: { key: 'n', value: '3' } },
  { org_id: 'org_id-1', workload_id: 'workload_id-2', customer_id: 'nobody' },
  { decision: ['decision-0', 'decision-2', 'nobody'] },
  { decision: ['nobody', 'nothing'] },
  { decision: [] },
  { org_id: ['org_id-1', 'org_id-0'], decision: ['decision-1'] },
];

async function walk(store: Store, query: Omit<RecordQuery, 'after'>, limit: number): Promise<string[]> {
  const walked: string[] = [];
  for (let after: string | undefined; ; ) {
    const page = await store.records({ ...query, limit, ...(after === undefined ? {} : { after }) });
    walked.push(...page.map(({ text }) => text));
    after = page.at(-1)?.position;
    if (page.length < limit || after === undefined) return walked;
  }
}

/** What a query of records must keep to. */
export async function queries(t: Tap, open: (t: Tap) => Promise<StoreUnderTest>): Promise<void> {
  await t.test('a query brings the records of which all filters are true, in order, whichever comes first, page by page', async (t) => {
    const under = await open(t);
    await fill(under.store);
    for await (const store of states(under, 'reopen', 'reopenAfterDeath')) {
      for (const filters of FILTERS) {
        const wanted = GIVEN.filter((one) => isWanted(one, filters)).map(({ text }) => text);
        const name = JSON.stringify(filters);
        t.strictSame(await walk(store, { ...filters, limit: 1 }, 1_000), wanted, name);
        t.strictSame(await walk(store, { ...filters, limit: 1 }, 7), wanted, `${name}, by sevens`);
        t.strictSame(await walk(store, { ...filters, limit: 1, newestFirst: true }, 9), [...wanted].reverse(), `${name}, newest first`);
      }
    }
    for (const filters of FILTERS.slice(0, 60))
      t.ok(
        GIVEN.some((one) => !isWanted(one, filters)),
        'no filter is true of everything',
      );
  });

  await t.test('a query sees a commit as soon as it has resolved, and none before', async (t) => {
    const { store } = await open(t);
    for (const [n, record] of GIVEN.slice(0, 40).entries()) {
      const commit = store.commit(record, []);
      t.equal((await store.records({ limit: 99, since: EPOCH })).length, n);
      await commit;
      t.equal((await store.records({ limit: 99, since: EPOCH })).length, n + 1);
    }
  });

  await t.test('a page of a query goes on behind a position of any other', async (t) => {
    const under = await open(t);
    await fill(under.store);
    const filters = { org_id: 'org_id-1' };
    for await (const store of states(under, 'reopen')) {
      for (const n of [1, 2, 100, COUNT]) {
        const after = (await store.recordById(makeRecord(n).record_id))?.position ?? '';
        const behind = (way: (one: Given) => boolean) => GIVEN.filter((one) => way(one) && isWanted(one, filters)).map(({ text }) => text);
        const forwards = await store.records({ ...filters, after, limit: 999 });
        const backwards = await store.records({ ...filters, after, limit: 999, newestFirst: true });
        t.strictSame(
          forwards.map(({ text }) => text),
          behind(({ committed_at: at }) => at > EPOCH + n),
        );
        t.strictSame(
          backwards.map(({ text }) => text).reverse(),
          behind(({ committed_at: at }) => at < EPOCH + n),
        );
        const own = { record_id: makeRecord(100).record_id, after, limit: 1 };
        t.equal((await store.records(own)).length, n < 100 ? 1 : 0);
        t.equal((await store.records({ ...own, newestFirst: true })).length, n > 100 ? 1 : 0);
      }
    }
  });

  await t.test('what retention has removed no query brings, and positions stay valid', async (t) => {
    const under = await open(t);
    await fill(under.store);
    const all = await under.store.records({ limit: 999, since: EPOCH });
    const removed = await under.store.removeRecordsBefore(EPOCH + 150);
    for await (const store of states(under, 'reopen')) {
      const left = GIVEN.slice(removed);
      for (const filters of [{ since: 0 }, { org_id: 'org_id-1' }, { model: 'gpt' }]) {
        const wanted = left.filter((one) => isWanted(one, filters)).map(({ text }) => text);
        t.strictSame(await walk(store, { ...filters, limit: 1 }, 50), wanted);
        if (removed < 2) continue;
        const after = all[0]?.position ?? '';
        t.strictSame(
          (await store.records({ ...filters, after, limit: 999 })).map(({ text }) => text),
          wanted,
        );
        t.strictSame(await store.records({ ...filters, after, limit: 9, newestFirst: true }), []);
      }
    }
  });

  await t.test('a query with a number that is none, or behind a position that was never given out, is refused', async (t) => {
    const { store } = await open(t);
    await fill(store);
    for (const odd of [{ since: Number.NaN }, { until: Number.NaN }, { min_cost_usd: 'much' }])
      t.type(await rejection(store.records({ ...odd, limit: 1 })), TypeError);
    for (const limit of [0, -1, 1.5, Number.NaN]) t.type(await rejection(store.records({ org_id: 'x', limit })), TypeError);
    const position = (await store.records({ limit: 1 }))[0]?.position ?? '';
    const last = position.slice(0, -1) + (position.endsWith('f') ? 'e' : 'f');
    for (const after of ['', 'x', 'ffffffffffffffff', last, `${position}0`]) {
      await t.rejects(store.records({ org_id: 'org_id-1', after, limit: 1 }), { code: 'invalid_request' });
      await t.rejects(store.records({ record_id: makeRecord(1).record_id, after, limit: 1, newestFirst: true }), {
        code: 'invalid_request',
      });
    }
  });
}
