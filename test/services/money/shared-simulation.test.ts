// Gateways that share caps, in one process, with the real code and a database: whatever breaks, and whoever is killed,
// what providers were paid is never above a cap, by books of their own; and in the end all of it is settled once.
import t from 'tap';
import { picoFromUsd, usdFromPico } from '../../../src/base/lib/money.ts';
import { type Tap, turns } from '../../contract/store-under-test.ts';
import { beside } from '../../storage/postgres/cap-rig.ts';
import { PgRig } from '../../storage/postgres/pg-rig.ts';
import { PgliteDatabase } from '../../storage/postgres/pglite-database.ts';
import { fc } from '../../support/properties.ts';
import { inTime, NodeDisk, orgLimit, SharedNode } from './shared-rig.ts';

const CAP = '1';
const PROJECT_CAP = '0.6';
const COSTS = ['0.01', '0.05', '0.2', '0.4'] as const;
/** What becomes of a statement: the server refuses it, or the connection breaks before it or behind it. */
const FATES = ['sent', 'sent', 'sent', 'sent', 'refused', 'cut', 'lost'] as const;

const step = fc.record({
  at: fc.nat({ max: 2 }),
  does: fc.constantFrom('calls', 'calls', 'calls', 'ends', 'ends', 'grows', 'passes', 'dies'),
  costs: fc.array(fc.constantFrom(...COSTS), { minLength: 1, maxLength: 3 }),
  /** Of its estimate that a call costs, in tenths. */
  tenths: fc.integer({ min: 0, max: 10 }),
  isOfProject: fc.boolean(),
  fates: fc.array(fc.constantFrom(...FATES), { maxLength: 12 }),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** A call that was forwarded: its provider is paid what it costs when it ends, at most what was set aside. */
interface Forwarded {
  readonly node: SharedNode;
  readonly id: string;
  pico: bigint;
}

class World {
  readonly #rig: PgRig;
  readonly #disks: readonly NodeDisk[];
  readonly #nodes: SharedNode[] = [];
  #under: Forwarded[] = [];
  /** The provider's own books: what it was paid, and what it will be paid at most for what is under way. */
  paid = 0n;
  refused = 0;

  constructor(rig: PgRig, count: number) {
    this.#rig = rig;
    this.#disks = Array.from({ length: count }, (_, n) => new NodeDisk(`n${n}`));
  }

  async start(): Promise<void> {
    for (const disk of this.#disks) this.#nodes.push(await SharedNode.start(this.#rig, disk));
  }

  get count(): number {
    return this.#nodes.length;
  }

  async step({ at, does, costs, tenths, isOfProject, fates }: Step): Promise<void> {
    const index = at % this.count;
    const node = this.#nodes[index] as SharedNode;
    const coming = [...fates];
    node.opened.pools.around = async (_text, send) => {
      const fate = coming.shift();
      if (fate === 'refused') throw Object.assign(new Error('out of memory'), { code: '53200', severity: 'ERROR' });
      if (fate === 'cut') throw new Error('Connection terminated unexpectedly');
      const rows = await send();
      if (fate === 'lost') throw new Error('Connection terminated unexpectedly');
      return rows;
    };
    if (does === 'calls') await this.#call(node, costs, isOfProject);
    else if (does === 'ends') this.#end(node, tenths);
    else if (does === 'grows') await this.#grow(node, costs[0] ?? '0');
    else if (does === 'passes') await this.#pass();
    else await this.#die(index);
    node.opened.pools.around = undefined;
  }

  async #call(node: SharedNode, costs: readonly string[], isOfProject: boolean): Promise<void> {
    const cap = isOfProject ? { monthlyCapUsd: PROJECT_CAP } : {};
    const taken = costs.map(async (usd) => [await node.take(usd, { spend: cap }), picoFromUsd(usd)] as const);
    for (const [id, pico] of await inTime(this.#rig, Promise.all(taken)))
      if (typeof id === 'string') this.#under.push({ node, id, pico });
      else this.refused += 1;
  }

  #end(node: SharedNode, tenths: number): void {
    const call = this.#under.find((one) => one.node === node);
    if (call === undefined) return;
    this.#under = this.#under.filter((one) => one !== call);
    const pico = (call.pico * BigInt(tenths)) / 10n;
    this.paid += pico;
    node.end(call.id, usdFromPico(pico));
  }

  async #grow(node: SharedNode, usd: string): Promise<void> {
    const call = this.#under.find((one) => one.node === node);
    if (call === undefined) return;
    const pico = call.pico + picoFromUsd(usd);
    const exceeded = await inTime(this.#rig, Promise.resolve(node.allowance.grow(call.id, pico)));
    if (exceeded !== undefined) return;
    call.pico = pico;
    node.disk.intents.set(call.id, pico);
  }

  /** A second passes, and what is to be done by then. */
  async #pass(): Promise<void> {
    this.#rig.clock.advance(1_000);
    await turns(100);
  }

  /** A process dies at any moment of an exchange, and another one starts: what was under way is charged in full. */
  async #die(index: number): Promise<void> {
    const node = this.#nodes[index] as SharedNode;
    node.caps.exchange().catch(() => undefined);
    await turns(3);
    node.opened.pools.die();
    await database.quiet();
    for (const { pico } of this.#under.filter((one) => one.node === node)) this.paid += pico;
    this.#under = this.#under.filter((one) => one.node !== node);
    this.#nodes[index] = await SharedNode.start(this.#rig, node.disk);
  }

  /** What the provider was or will be paid at most. */
  get owed(): bigint {
    return this.#under.reduce((sum, { pico }) => sum + pico, this.paid);
  }

  get noted(): bigint {
    return this.#disks.reduce((sum, { noted }) => sum + noted, 0n);
  }

  async finish(): Promise<void> {
    for (const node of this.#nodes) {
      while (this.#under.some((one) => one.node === node)) this.#end(node, 10);
      await inTime(this.#rig, node.caps.close());
      await node.opened.store.close();
    }
  }
}

t.setTimeout(600_000);
const database = await PgliteDatabase.start(t);
/** Over all runs: a gateway that lets nothing through passes no cap either. */
let [paid, refused] = [0n, 0];

async function history(t: Tap, count: number, steps: readonly Step[]): Promise<void> {
  const rig = new PgRig(t, await database.clear());
  const { store } = await rig.open();
  const limit = orgLimit(CAP);
  await store.commit(undefined, [{ op: 'put', space: 'budget_limit', key: limit.limit_id, value: limit }]);
  await store.close();
  const world = new World(rig, count);
  await world.start();
  for (const one of steps) {
    await world.step(one);
    t.ok(world.owed <= picoFromUsd(CAP), `${usdFromPico(world.owed)} is owed`);
  }
  await world.finish();
  const sql = (text: string) => beside(database, (on) => on.query(text));
  t.strictSame(await sql('SELECT account, node, amount::text FROM gw_leases'), [], 'nobody holds anything');
  const [row] = await sql(
    `SELECT coalesce(sum(amount), 0)::text AS settled FROM gw_counters WHERE space = 'spend_hour' AND key LIKE 'o|org||%'`,
  );
  t.equal(row?.['settled'], `${world.paid}`, 'all that was paid is settled, once');
  t.equal(world.noted, world.paid);
  [paid, refused] = [paid + world.paid, refused + world.refused];
}

await t.test('two and three gateways', { timeout: 600_000 }, async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 2, max: 3 }), fc.array(step, { minLength: 10, maxLength: 30 }), (count, steps) =>
      history(t, count, steps),
    ),
    { numRuns: Number(process.env['PROOF_SHARED_RUNS'] ?? 10) },
  );
  t.ok(paid > picoFromUsd('1') && refused > 5, `${usdFromPico(paid)} was paid, ${refused} calls were refused`);
});
