/*
 * The ledger of the control plane under SIGKILL, and what it costs (decisions 13.1 to 13.3): no acknowledged hash is
 * forgotten, no sequence has two roots, every proof checks; sizes, CPU and the time until inclusion by counts, which a
 * busy machine does not change.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../../src/base/lib/clock.ts';
import { followChain, nothingSeen } from '../../src/ledger/chain-walk.ts';
import { checkInclusion, recordLeaf } from '../../src/ledger/inclusion-proof.ts';
import { readKeys } from '../../src/ledger/ledger-answers.ts';
import { checkSignature, type MerkleRoot, rootDigest } from '../../src/ledger/merkle-root.ts';
import { treeRoot } from '../../src/ledger/merkle-tree.ts';
import { launch } from '../support/child.ts';
import { type Checks, type CleanUp, prove, sleep } from './checks.ts';
import { proveCosts } from './ledger-costs.ts';
import { LEDGER_ORGS, type LedgerGround, openLedgerGround } from './ledger-ground.ts';
import { Seeded } from './seeded.ts';
import { proofSettings } from './settings.ts';

const ROUNDS = { tenth: 2, full: 20, long: 20 };
const LEAVES = { tenth: 100_000, full: 1_000_000, long: 1_000_000 };
const WRITERS_FILE = fileURLToPath(new URL('./ledger-writers.js', import.meta.url));
/** Proofs that are checked after each kill: of the hashes of that round, and of earlier ones. */
const SAMPLE = 150;
const PATIENCE_MS = 60_000;

interface Line {
  readonly ready?: true;
  readonly org?: string;
  readonly hashes?: readonly string[];
  readonly root?: MerkleRoot;
}

/** What was seen of one org from outside, over all rounds. */
class SeenLedger {
  readonly acknowledged = new Set<string>();
  readonly digests = new Map<number, string>();
  readonly org: string;

  constructor(org: string) {
    this.org = org;
  }

  /** @returns what is wrong with it */
  see(root: MerkleRoot): string[] {
    const digest = rootDigest(root);
    const before = this.digests.get(root.sequence);
    this.digests.set(root.sequence, before ?? digest);
    return before === undefined || before === digest ? [] : [`${this.org}: sequence ${root.sequence} has two roots`];
  }
}

interface KilledLedger {
  readonly dir: string;
  readonly seed: string;
  readonly cleanUp: CleanUp;
  readonly seen: ReadonlyMap<string, SeenLedger>;
  readonly found: { forgotten: string[]; twoRoots: string[]; chains: string[]; proofs: string[]; leaves: string[] };
  proofs: number;
}

await prove(async (checks, cleanUp) => {
  const settings = proofSettings();
  const rounds = settings.rounds ?? ROUNDS[settings.length];
  const root = mkdtempSync(join(tmpdir(), 'gw-ledger-'));
  cleanUp.teardown(() => rmSync(root, { recursive: true, force: true }));
  checks.note(`ledger: ${rounds} rounds, seed ${settings.seed}`);
  await proveKills(checks, cleanUp, rounds, settings.seed, join(root, 'killed'));
  await proveCosts(checks, { dir: root, leaves: LEAVES[settings.length], seed: settings.seed });
});

async function proveKills(checks: Checks, cleanUp: CleanUp, rounds: number, seed: string, dir: string): Promise<void> {
  const killed: KilledLedger = {
    dir,
    seed,
    cleanUp,
    seen: new Map(LEDGER_ORGS.map((org) => [org, new SeenLedger(org)])),
    found: { forgotten: [], twoRoots: [], chains: [], proofs: [], leaves: [] },
    proofs: 0,
  };
  let waited = 0;
  for (let round = 1; round <= rounds; round++) {
    const random = new Seeded(`${seed}/${round}`);
    await writeAndKill(killed, round, random);
    // In the other rounds what has no root yet is left to the next start.
    const isSettled = round === rounds || random.chance(0.5);
    waited += await weigh(killed, round, isSettled, random);
  }
  const { found, seen } = killed;
  const acknowledged = [...seen.values()].reduce((sum, one) => sum + one.acknowledged.size, 0);
  const roots = [...seen.values()].reduce((sum, { digests }) => sum + digests.size, 0);
  checks.check(`${rounds} kills: each of ${acknowledged} acknowledged hashes is found, and under a root in the end`, [
    ...(acknowledged === 0 ? ['none was acknowledged'] : []),
    ...found.forgotten,
  ]);
  checks.check(`never two roots of one sequence: ${roots} roots, seen while they were made and after each start`, found.twoRoots);
  checks.check('the roots of each org chain from 1 without a gap, and are signed', found.chains);
  checks.check('each root is that of its leaves, and each leaf is under one root once', found.leaves);
  checks.check(`every proof checks: ${killed.proofs} proofs`, [...(killed.proofs === 0 ? ['there was none'] : []), ...found.proofs]);
  checks.note(`       ${waited} hashes were left without a root by the kills`);
}

/** Lets the writers run until the moment that the seed picks. */
async function writeAndKill(killed: KilledLedger, round: number, random: Seeded): Promise<void> {
  const { dir, seed, cleanUp, seen, found } = killed;
  const told = join(dir, '..', `told-${round}`);
  const child = launch(cleanUp, process.execPath, [WRITERS_FILE, dir, `${seed}/${round}`, told]);
  for (let slept = 0; !existsSync(told) && slept < PATIENCE_MS; slept += 5) await sleep(5);
  await sleep(random.between(50, 1_500));
  // Timers are too coarse for moments inside a write.
  const until = performance.now() + random.between(0, 2_000) / 1_000;
  while (performance.now() < until);
  child.kill('SIGKILL');
  const { stderr, signal } = await child.ended;
  if (signal !== 'SIGKILL') throw new Error(`round ${round}: the writers ended by themselves: ${stderr}`);
  // The last line may be cut.
  for (const text of readFileSync(told, 'utf8').split('\n').slice(0, -1)) {
    const { org, hashes, root } = JSON.parse(text) as Line;
    if (root !== undefined) found.twoRoots.push(...(seen.get(root.org_id)?.see(root) ?? []));
    for (const hash of hashes ?? []) seen.get(org ?? '')?.acknowledged.add(hash);
  }
}

/** Opens what the kill has left. @returns how many hashes had no root */
async function weigh(killed: KilledLedger, round: number, isSettled: boolean, random: Seeded): Promise<number> {
  const ground = await openLedgerGround(killed.dir, systemClock, 'always');
  const { ledgers, key } = ground;
  const { found, seen } = killed;
  const waiting = ledgers.pending;
  if (isSettled) for (let slept = 0; ledgers.pending > 0 && slept < PATIENCE_MS; slept += 20) await sleep(20);
  const keys = readKeys([key.listed], 'ledger');
  const rootsOf = new Map<string, readonly MerkleRoot[]>();
  for (const one of seen.values()) {
    const roots = await allRoots(ground, one.org);
    rootsOf.set(one.org, roots);
    for (const root of roots) found.twoRoots.push(...one.see(root));
    if (roots.length < one.digests.size)
      found.chains.push(`round ${round}: ${one.org} had ${one.digests.size} roots, and has ${roots.length}`);
    await noting(found.chains, `round ${round}`, async () => {
      followChain(nothingSeen(one.org), roots, keys);
    });
    const known = [...one.acknowledged];
    const sample = known.length === 0 ? [] : Array.from({ length: SAMPLE }, () => random.pick(known));
    for (const hash of new Set(sample)) {
      const inclusion = await ledgers.inclusion(one.org, Buffer.from(hash, 'hex'));
      if (inclusion.status === 'verified') {
        killed.proofs++;
        await noting(found.proofs, `round ${round}: ${hash}`, async () => {
          checkInclusion(inclusion.proof, hash);
          checkSignature(inclusion.proof.root, keys);
        });
      } else if (isSettled || inclusion.status === 'unknown')
        found.forgotten.push(`round ${round}: ${one.org} ${hash} is ${inclusion.status}`);
    }
  }
  await ground.close();
  await weighLeaves(killed, round, ground, rootsOf, isSettled);
  return waiting;
}

async function allRoots({ ledgers }: LedgerGround, org: string): Promise<readonly MerkleRoot[]> {
  const roots: MerkleRoot[] = [];
  for (let page = await ledgers.roots(org, 0, 500); page.length > 0; page = await ledgers.roots(org, roots.length, 500))
    roots.push(...page);
  return roots;
}

/**
 * Makes every root anew from the file of the leaves, and looks for every acknowledged hash among those under roots;
 * before all are, among all.
 */
async function weighLeaves(
  killed: KilledLedger,
  round: number,
  closed: LedgerGround,
  rootsOf: ReadonlyMap<string, readonly MerkleRoot[]>,
  isSettled: boolean,
): Promise<void> {
  const { found, seen } = killed;
  for (const one of seen.values()) {
    const leaves = await closed.leaves.open(one.org, 0);
    const places = new Set<string>();
    let first = 0;
    for (const root of rootsOf.get(one.org) ?? []) {
      const hashes = (await leaves.read(first, root.leaf_count)).map((hash) => hash.toString('hex'));
      first += root.leaf_count;
      for (const hash of hashes) places.add(hash);
      const digest = treeRoot(hashes.map(recordLeaf)).toString('hex');
      if (digest !== root.root_hash) found.leaves.push(`round ${round}: root ${root.sequence} of ${one.org} is not that of its leaves`);
    }
    if (!isSettled) {
      const left = await leaves.read(first, leaves.count - first);
      first += left.length;
      for (const hash of left) places.add(hash.toString('hex'));
    }
    if (places.size !== first) found.leaves.push(`round ${round}: ${one.org}: ${first} leaves are ${places.size} hashes`);
    for (const hash of one.acknowledged)
      if (!places.has(hash)) found.forgotten.push(`round ${round}: ${one.org} ${hash} is ${isSettled ? 'under no root' : 'gone'}`);
    await leaves.close();
  }
}

async function noting(problems: string[], when: string, look: () => Promise<void>): Promise<void> {
  try {
    await look();
  } catch (error) {
    problems.push(`${when}: ${error}`);
  }
}
