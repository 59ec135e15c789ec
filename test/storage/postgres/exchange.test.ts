// What nodes that share a cap hold of it, said and granted in exchanges: a cap is never passed, whatever breaks.
import t from 'tap';
import type { CapAsk, CapSpeaker, CountedRange } from '../../../src/storage/contract/cap-accounts.ts';
import type { JournalCarrier } from '../../../src/storage/postgres/journal-carrier.ts';
import { rejection, type Tap } from '../../contract/store-under-test.ts';
import { skipWithout } from '../../support/peers.ts';
import { fc } from '../../support/properties.ts';
import { ACCOUNT, beside, HOUR, LATER, MemoryJournal, MONTH, spent } from './cap-rig.ts';
import { type OpenedRig, PgRig, type TestDatabase } from './pg-rig.ts';
import { PgliteDatabase } from './pglite-database.ts';
import { PostgresServer } from './server.ts';

const CAP = 10n;

/** A node as the protocol asks for one: its journal is on its disk, the rest is gone with its process. */
class TestNode implements CapSpeaker {
  readonly journal = new MemoryJournal();
  readonly name: string;
  free = 0n;
  isLeaving = false;
  /** All that its journal has. */
  noted = 0n;
  wanted = 0n;
  cap = CAP;
  /** Whether it was asked for all that it holds, each time that it was asked. */
  readonly asked: boolean[] = [];
  #marked = 0n;

  constructor(name: string) {
    this.name = name;
  }

  mark(): void {
    this.#marked = this.noted;
  }

  say(isWhole: boolean): readonly CapAsk[] {
    this.asked.push(isWhole);
    const counts = [{ range: MONTH, cap: this.cap }];
    return [{ id: ACCOUNT, held: this.free + this.noted - this.#marked, wanted: this.wanted, counts }];
  }

  spend(units: bigint): void {
    this.free -= units;
    this.noted += units;
    this.journal.append(spent(units));
  }

  /** Its process dies. */
  die(): void {
    this.free = 0n;
    this.asked.length = 0;
  }

  carrier({ store }: OpenedRig, folder = 'folder'): Promise<JournalCarrier> {
    return store.carrier({ node: this.name, incarnation: `${folder} of ${this.name}` });
  }

  async ask(carrier: JournalCarrier, wanted: bigint) {
    this.wanted = wanted;
    const { answers, ...state } = await carrier.exchange(this.journal, this, { commits: 3, bytes: 1_000_000 });
    const { granted = 0n, settled: [settled] = [0n], others = 0n } = answers.get(ACCOUNT) ?? {};
    this.free += granted;
    return { granted, settled, others, ...state };
  }
}

const database = await PgliteDatabase.start(t);

async function place(t: Tap, on: TestDatabase | undefined = undefined) {
  const used = on ?? (await database.clear());
  const rig = new PgRig(t, used);
  const opened = await rig.open();
  const sql = (text: string) => beside(used, (sql) => sql.query(text));
  return { rig, opened, sql, leases: () => sql('SELECT node, amount::text FROM gw_leases ORDER BY node') };
}

await t.test('what is granted, spent and given back adds up, part of a wish is granted, and nothing beyond the cap', async (t) => {
  const { opened, leases } = await place(t);
  const [one, two] = [new TestNode('one'), new TestNode('two')];
  const [ones, twos] = [await one.carrier(opened), await two.carrier(opened)];
  t.match(await one.ask(ones, 6n), { granted: 6n, settled: 0n, others: 0n, isOpen: true, isTold: true });
  t.match(await two.ask(twos, 6n), { granted: 4n, settled: 0n, others: 6n });
  t.match(await two.ask(twos, 1n), { granted: 0n, others: 6n });
  for (let call = 0; call < 5; call += 1) one.spend(1n);
  t.match(await two.ask(twos, 1n), { granted: 0n, settled: 0n, others: 6n }, 'what is not shipped yet is held');
  t.match(await one.ask(ones, 0n), { granted: 0n, settled: 5n, others: 4n });
  t.strictSame(await leases(), [
    { node: 'one', amount: '1' },
    { node: 'two', amount: '4' },
  ]);
  two.free -= 3n;
  await two.ask(twos, 0n);
  t.match(await one.ask(ones, 9n), { granted: 3n, settled: 5n, others: 1n }, 'what was given back is there for others');
  one.cap = 5n;
  t.match(await one.ask(ones, 1n), { granted: 0n }, 'a smaller cap is passed already');
  t.strictSame(one.asked.slice(0, 3), [true, false, false], 'all that it holds it says once');
});

await t.test('of several windows the one that has least left decides, and one without a cap is merely told', async (t) => {
  const { opened } = await place(t);
  const one = await opened.store.carrier({ node: 'one', incarnation: 'folder' });
  const journal = new MemoryJournal();
  journal.append(spent(4n));
  const exchange = async (held: bigint, caps: readonly (bigint | undefined)[]) => {
    const asks = [
      { id: ACCOUNT, held, wanted: 9n, counts: caps.map((cap, at) => ({ range: [HOUR, MONTH, LATER][at] as CountedRange, cap })) },
    ];
    const { answers } = await one.exchange(journal, { isLeaving: false, mark: () => undefined, say: () => asks });
    return answers.get(ACCOUNT);
  };
  t.match(await exchange(0n, [7n, 8n]), { granted: 3n, settled: [4n, 4n] });
  t.match(await exchange(3n, [undefined, 8n, 5n]), { granted: 1n, settled: [4n, 4n, 0n] });
  t.match(await exchange(4n, [undefined, undefined, 6n]), { granted: 2n }, 'what is held counts in a window that is to come as well');
  t.match(await exchange(4n, [undefined]), { granted: 0n, settled: [4n] }, 'without any cap nothing is granted');
});

await t.test('a node that comes back ships first, and holds nothing', async (t) => {
  const { opened, leases } = await place(t);
  const one = new TestNode('one');
  await one.ask(await one.carrier(opened), 8n);
  one.spend(5n);
  one.die();
  const two = new TestNode('two');
  const twos = await two.carrier(opened);
  t.match(await two.ask(twos, 5n), { granted: 2n, others: 8n });
  t.match(await one.ask(await one.carrier(opened), 0n), { settled: 5n, others: 2n });
  t.strictSame(await leases(), [{ node: 'two', amount: '2' }]);
});

await t.test('an exchange whose answer was lost is said anew, and one that comes too late does nothing', async (t) => {
  const { opened, leases } = await place(t);
  const one = new TestNode('one');
  const ones = await one.carrier(opened);
  await one.ask(ones, 1n);
  opened.pools.around = async (text, send) => {
    const rows = await send();
    if (text === 'COMMIT') throw new Error('Connection terminated unexpectedly');
    return rows;
  };
  t.match(await rejection(one.ask(ones, 4n)), { message: 'Connection terminated unexpectedly' });
  opened.pools.around = undefined;
  t.strictSame(await leases(), [{ node: 'one', amount: '5' }], 'it was granted, and nobody knows');
  await one.ask(ones, 0n);
  t.strictSame(await leases(), [{ node: 'one', amount: '1' }]);
  t.strictSame(one.asked, [true, false, true], 'of what it is not sure of it says all');

  const other = await one.carrier(opened);
  await one.ask(other, 2n);
  one.asked.length = 0;
  t.match(await one.ask(ones, 0n), { granted: 0n });
  t.strictSame(one.asked, [false, true], 'its number was taken meanwhile: it reads where the database stands');
  t.strictSame(await leases(), [{ node: 'one', amount: '3' }]);
});

await t.test('nothing is granted until every member has told the server as it is now', async (t) => {
  const { opened, sql } = await place(t);
  const [one, two] = [new TestNode('one'), new TestNode('two')];
  const [ones, twos] = [await one.carrier(opened), await two.carrier(opened)];
  await one.ask(ones, 3n);
  await two.ask(twos, 3n);
  await sql('UPDATE gw_nodes SET told = told - 1');
  await sql('DELETE FROM gw_leases');
  t.match(await one.ask(ones, 3n), { granted: 0n, isTold: false, isOpen: false });
  t.match(await one.ask(ones, 3n), { granted: 0n, isTold: true, isOpen: false }, 'it has said all, the other has not');
  t.equal(one.asked.at(-1), true);
  t.match(await two.ask(twos, 9n), { granted: 0n, isTold: false });
  t.match(await two.ask(twos, 9n), { granted: 4n, others: 3n, isOpen: true });
});

await t.test('what a forgotten node held is charged in the windows that are open then, and in no later one', async (t) => {
  const { opened, sql, leases } = await place(t);
  const [one, two] = [new TestNode('one'), new TestNode('two')];
  const [ones, twos] = [await one.carrier(opened), await two.carrier(opened)];
  await one.ask(ones, 6n);
  one.spend(2n);
  await one.ask(ones, 0n);
  await two.ask(twos, 1n);
  t.equal(await opened.store.forget('one'), 'alive', 'it was heard of just now');
  t.equal(await opened.store.isAlive('one'), true);
  await sql(`UPDATE gw_nodes SET seen_at = now() - interval '61 seconds' WHERE node = 'one'`);
  t.strictSame((await opened.store.holdings()).get('one'), { accounts: 1, pico: 4n });
  t.equal(await opened.store.forget('one'), 'forgotten');
  t.strictSame(await leases(), [{ node: 'two', amount: '1' }], 'it holds nothing any more');
  t.strictSame(await sql('SELECT account, node, hour, amount::text FROM gw_charges'), [
    { account: ACCOUNT, node: 'one', hour: '2026-11-21T12', amount: '4' },
  ]);
  // The hour that these tests are made in.
  await sql(`UPDATE gw_charges SET hour = '2026-11-18T05'`);
  t.match(await two.ask(twos, 9n), { granted: 3n, settled: 6n, others: 0n }, 'what it may have spent counts as spent');
  const counts = [MONTH, HOUR, LATER].map((range) => ({ range, cap: undefined }));
  const asks = [{ id: ACCOUNT, held: two.free, wanted: 0n, counts }];
  const { answers } = await twos.exchange(two.journal, { isLeaving: false, mark: () => undefined, say: () => asks });
  t.strictSame(answers.get(ACCOUNT)?.settled, [6n, 6n, 0n]);
  t.match(await rejection(one.ask(ones, 1n)), {
    name: 'OpeningRefused',
    message: /^the database does not know the node one: it was forgotten/,
  });
  t.equal(await opened.store.forget('one'), 'unknown');
});

await t.test('who has left holding nothing is not waited for, and who holds something is', async (t) => {
  const { opened, sql } = await place(t);
  const nodes = [new TestNode('one'), new TestNode('two'), new TestNode('three')] as const;
  const [one, two, three] = nodes;
  const [ones, twos, threes] = [await one.carrier(opened), await two.carrier(opened), await three.carrier(opened)];
  for (const [node, carrier] of [
    [one, ones],
    [two, twos],
    [three, threes],
  ] as const)
    await node.ask(carrier, 1n);
  one.free = 0n;
  for (const [node, carrier] of [
    [one, ones],
    [two, twos],
  ] as const) {
    node.isLeaving = true;
    await node.ask(carrier, 0n);
  }
  t.strictSame(await sql('SELECT node FROM gw_nodes WHERE told IS NULL'), [{ node: 'one' }]);
  await sql('UPDATE gw_nodes SET told = told - 1');
  await three.ask(threes, 1n);
  t.match(await three.ask(threes, 1n), { granted: 0n, isOpen: false }, 'what the second one holds it may spend');
  two.isLeaving = false;
  await two.ask(twos, 0n);
  await two.ask(twos, 0n);
  t.match(await three.ask(threes, 1n), { granted: 1n, isOpen: true });
  one.isLeaving = false;
  await one.ask(ones, 0n);
  t.match(await one.ask(ones, 1n), { granted: 1n, isTold: true }, 'one that comes back says all that it holds');
});

await t.test('whatever breaks and whoever dies no cap is passed, and in the end all is settled once', { timeout: 300_000 }, async (t) => {
  const fates = ['sent', 'sent', 'sent', 'refused', 'lost', 'cut'] as const;
  const step = fc.record({
    at: fc.nat({ max: 2 }),
    does: fc.constantFrom('ask', 'ask', 'spend', 'spend', 'back', 'die'),
    units: fc.bigInt({ min: 1n, max: 4n }),
    fates: fc.array(fc.constantFrom(...fates), { maxLength: 8 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 2, max: 3 }), fc.array(step, { minLength: 10, maxLength: 40 }), async (count, steps) => {
      const { opened, sql } = await place(t);
      const nodes = Array.from({ length: count }, (_, n) => new TestNode(`n${n}`));
      const carriers = new Map<TestNode, JournalCarrier>();
      const paid = () => nodes.reduce((sum, { noted }) => sum + noted, 0n);
      const exchange = async (node: TestNode, wanted: bigint, coming: string[]): Promise<void> => {
        opened.pools.around = around(coming);
        try {
          const carrier = carriers.get(node) ?? (await node.carrier(opened));
          carriers.set(node, carrier);
          await node.ask(carrier, wanted);
        } catch {
          // Nobody knows what became of it.
        } finally {
          opened.pools.around = undefined;
        }
      };
      for (const { at, does, units, fates: coming } of steps) {
        const node = nodes[at % count] as TestNode;
        if (does === 'ask') await exchange(node, units, [...coming]);
        else if (does === 'spend' && node.free > 0n) node.spend(units < node.free ? units : node.free);
        else if (does === 'back') node.free -= units < node.free ? units : node.free;
        else if (does === 'die') {
          node.die();
          carriers.delete(node);
        }
        t.ok(paid() <= CAP);
      }
      for (const node of nodes) {
        node.free = 0n;
        await exchange(node, 0n, []);
      }
      t.strictSame(await sql('SELECT node FROM gw_leases'), []);
      const [row] = await sql(
        `SELECT coalesce(sum(amount), 0)::text AS settled FROM gw_counters WHERE space = 'spend_hour' AND key LIKE 'o|org||%'`,
      );
      t.equal(row?.['settled'], `${paid()}`);
      await opened.store.close();
    }),
    { numRuns: Number(process.env['PROOF_EXCHANGE_RUNS'] ?? 15) },
  );
});

/** What becomes of the next statements. */
function around(coming: string[]) {
  return async <T>(_text: string, send: () => Promise<T>): Promise<T> => {
    const fate = coming.shift();
    if (fate === 'refused') throw Object.assign(new Error('could not serialize access'), { code: '53100', severity: 'ERROR' });
    if (fate === 'cut') throw new Error('Connection terminated unexpectedly');
    const rows = await send();
    if (fate === 'lost') throw new Error('Connection terminated unexpectedly');
    return rows;
  };
}

await t.test('on a server', { skip: skipWithout(['postgresql']) }, async (t) => {
  const server = await PostgresServer.start(t);

  await t.test('nodes that ask at the same time are granted the cap together, and not more', async (t) => {
    const on = await server.database();
    const { rig, opened } = await place(t, on);
    const all = [opened, await rig.open(), await rig.open()];
    const nodes = all.map((_, n) => new TestNode(`n${n}`));
    const carriers = await Promise.all(nodes.map((node, n) => node.carrier(all[n] as OpenedRig)));
    for (let round = 0; round < 6; round += 1) {
      await Promise.all(nodes.map(async (node, n) => node.ask(carriers[n] as JournalCarrier, 1n)));
      for (const node of nodes) if (node.free > 0n) node.spend(1n);
    }
    t.equal(
      nodes.reduce((sum, { noted, free }) => sum + noted + free, 0n),
      CAP,
    );
  });

  await t.test('one that outlives its connection is void once its number is taken', async (t) => {
    const on = await server.database();
    const { rig, opened } = await place(t, on);
    const one = new TestNode('one');
    await one.ask(await one.carrier(opened), 1n);
    const late = await rig.open();
    const straggler = await one.carrier(late);
    let go = (): void => undefined;
    const held = new Promise<void>((resolve) => (go = resolve));
    let begins = (): void => undefined;
    const begun = new Promise<void>((resolve) => (begins = resolve));
    late.pools.around = async (text, send) => {
      if (text.startsWith('UPDATE gw_nodes SET position') || text.startsWith('BEGIN')) {
        begins();
        await held;
      }
      return send();
    };
    const outlived = straggler.carry({ from: '00000000', commits: [], next: '00000000' });
    await begun;
    t.match(await one.ask(await one.carrier(opened), 2n), { granted: 2n });
    go();
    t.equal((await outlived).isStored, false);
  });
});
