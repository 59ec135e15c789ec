import t from 'tap';
import type { Effect, Store } from '../../../src/storage/contract/store.ts';
import { makeRecord, turns } from '../../contract/store-under-test.ts';
import { fc } from '../../support/properties.ts';
import { StoreRig } from './store-rig.ts';

/** `npm run proof` asks for more. */
const RUNS = Number(process.env['PROOF_MODEL_RUNS'] ?? 15);
const TIMEOUT_MS = 900_000 + RUNS * 2_000;
const KEYS = ['a', 'a/1', 'a/2', 'b', '~'];

/** The contract in its simplest form. */
class Model {
  readonly records: string[] = [];
  readonly entities = new Map<string, unknown>();
  readonly counters = new Map<string, Map<string, bigint>>();

  apply(text: string | undefined, effects: readonly Effect[]): void {
    if (text !== undefined) this.records.push(text);
    for (const effect of effects) {
      if (effect.op === 'put') this.entities.set(effect.key, effect.value);
      else if (effect.op === 'delete') this.entities.delete(effect.key);
      else {
        const totals = this.counters.get(effect.key) ?? new Map<string, bigint>();
        this.counters.set(effect.key, totals);
        for (const [name, amount] of Object.entries(effect.amounts)) totals.set(name, (totals.get(name) ?? 0n) + amount);
      }
    }
  }
}

const effect: fc.Arbitrary<Effect> = fc.oneof(
  fc.record({
    op: fc.constant('put' as const),
    space: fc.constant('s'),
    key: fc.constantFrom(...KEYS),
    value: fc.jsonValue({ maxDepth: 2 }),
  }),
  fc.record({ op: fc.constant('delete' as const), space: fc.constant('s'), key: fc.constantFrom(...KEYS) }),
  fc.record({
    op: fc.constant('add' as const),
    space: fc.constant('s'),
    key: fc.constantFrom(...KEYS),
    amounts: fc.dictionary(fc.constantFrom('n', 'usd', 'constructor'), fc.bigInt({ min: -(2n ** 90n), max: 2n ** 90n })),
  }),
);

type Step =
  | {
      readonly kind: 'commit';
      readonly commits: readonly { readonly record: boolean; readonly pad: number; readonly effects: readonly Effect[] }[];
    }
  | { readonly kind: 'index' | 'reopen' | 'die' | 'full' };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('commit' as const),
      commits: fc.array(
        fc.record({ record: fc.boolean(), pad: fc.integer({ min: 0, max: 1_500 }), effects: fc.array(effect, { maxLength: 4 }) }),
        { minLength: 1, maxLength: 4 },
      ),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom('index' as const, 'reopen' as const, 'die' as const, 'full' as const) }) },
);

t.setTimeout(TIMEOUT_MS);

await t.test(
  'whatever is committed, indexed, closed, killed or refused, the store agrees with a plain model',
  { timeout: TIMEOUT_MS },
  async (t) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 14 }), async (steps) => {
        const rig = new StoreRig(t, { segmentBytes: 4 * 1024 });
        const model = new Model();
        let dir = rig.dir;
        let store = await rig.open(dir);
        let n = 0;
        for (const [at, one] of steps.entries()) {
          if (one.kind === 'commit') {
            await Promise.all(
              one.commits.map(({ record, pad, effects }) => {
                n += 1;
                const made = record ? makeRecord(n, { pad }) : undefined;
                model.apply(made?.text, effects);
                return store.commit(made, effects);
              }),
            );
          } else if (one.kind === 'index') {
            rig.clock.advance(200);
            if (at % 2 === 0) await turns(30);
          } else if (one.kind === 'reopen') {
            await store.close();
            store = await rig.open(dir);
          } else if (one.kind === 'die') {
            const copy = rig.snapshot(`${at}`, dir);
            await store.close();
            dir = copy;
            store = await rig.open(dir);
          } else {
            rig.files.room = 90;
            const refused = await Promise.allSettled([
              store.commit(makeRecord(1_000_000 + at), [{ op: 'put', space: 's', key: 'a', value: 'never' }]),
            ]);
            if (refused[0]?.status !== 'rejected') throw new Error('A full disk took a commit');
            rig.files.room = Number.POSITIVE_INFINITY;
            rig.clock.advance(500);
            while (!store.writable) await turns(1);
          }
          await agree(store, model);
        }
        await store.close();
      }),
      { numRuns: RUNS },
    );
    t.pass('no disagreement');
  },
);

async function agree(store: Store, model: Model): Promise<void> {
  same(
    (await store.records({ limit: 1_000 })).map((record) => record.text),
    model.records,
  );
  same(
    (await store.records({ limit: 1_000, newestFirst: true })).map((record) => record.text),
    [...model.records].reverse(),
  );
  const entities = [...model.entities].sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, value]) => ({ key, value }));
  same(await store.list('s'), entities);
  for (const key of KEYS) {
    same([await store.get('s', key)], [model.entities.get(key)]);
    same(sorted(await store.counter('s', key)), sorted(Object.fromEntries(model.counters.get(key) ?? [])));
  }
  const counters = (await store.counters('s', { limit: 1_000 }))
    .filter((row) => Object.keys(row.amounts).length > 0)
    .map((row) => [row.key, sorted(row.amounts)]);
  const expected = [...model.counters].filter(([, totals]) => totals.size > 0).sort(([a], [b]) => (a < b ? -1 : 1));
  same(
    counters,
    expected.map(([key, totals]) => [key, sorted(Object.fromEntries(totals))]),
  );
}

function sorted(amounts: Readonly<Record<string, bigint>>): string[] {
  return Object.entries(amounts)
    .map(([name, amount]) => `${name}=${amount}`)
    .sort();
}

function same(actual: unknown, expected: unknown): void {
  const [a, b] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (a !== b) throw new Error(`The store has ${a}, the model ${b}`);
}
