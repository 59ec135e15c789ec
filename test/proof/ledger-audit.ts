import { rootDigest } from '../../src/ledger/merkle-root.ts';
import { askPublicly, LedgerJudge } from '../support/ledger-judge.ts';
import type { Seeded } from './seeded.ts';
import type { HashedRecord } from './stored-hashes.ts';

/** Proofs of earlier rounds that are asked for again. */
const AGAIN = 25;

export interface LedgerFindings {
  /** Records without a proof that holds. */
  readonly unproven: string[];
  /** Hashes that are under no root, under two, or that no record has. */
  readonly notOnce: string[];
  /** Roots that say something else than they did. */
  readonly rewritten: string[];
}

/**
 * What a third party knows of a ledger whose proofs it has checked so far: roots and places that must stay as they are.
 */
export class LedgerAudit {
  readonly #org: string;
  readonly #places = new Map<string, string>();
  readonly #taken = new Map<string, string>();
  #digests: readonly string[] = [];

  constructor(org: string) {
    this.#org = org;
  }

  get proven(): number {
    return this.#places.size;
  }

  get roots(): number {
    return this.#digests.length;
  }

  /** How many leaves are under roots now. */
  async leavesAt(url: string): Promise<number> {
    return (await LedgerJudge.read(askPublicly(url), this.#org)).leaves;
  }

  /** Reads the chain anew, checks a proof of every record that has none yet, and some of the others again. */
  async weigh(url: string, records: readonly HashedRecord[], random: Seeded, found: LedgerFindings): Promise<void> {
    const ask = askPublicly(url);
    const judge = await LedgerJudge.read(ask, this.#org);
    const digests = judge.roots.map(rootDigest);
    for (const [index, digest] of this.#digests.entries())
      if (digests[index] !== digest) found.rewritten.push(`root ${index + 1} is not the one that was seen`);
    this.#digests = digests;
    const hashes = new Set(records.map(({ hash }) => hash));
    if (judge.leaves !== hashes.size) found.notOnce.push(`${hashes.size} records, and ${judge.leaves} leaves`);
    const known = [...this.#places.keys()];
    const again = known.length === 0 ? [] : Array.from({ length: AGAIN }, () => random.pick(known));
    for (const hash of [...[...hashes].filter((one) => !this.#places.has(one)), ...again]) {
      const { status, body } = await ask(`/v1/orgs/${this.#org}/proofs/${hash}`);
      if (status !== 200) found.unproven.push(`${hash}: ${status} ${JSON.stringify(body)}`);
      else this.#place(judge, hash, body, found);
    }
  }

  #place(judge: LedgerJudge, hash: string, body: unknown, found: LedgerFindings): void {
    try {
      const { batch_id: batch, leaf_index: leaf } = judge.check(body, hash);
      const place = `${batch}/${leaf}`;
      const before = this.#places.get(hash);
      if (before !== undefined && before !== place) found.notOnce.push(`${hash} is at ${place}, and was at ${before}`);
      const other = this.#taken.get(place);
      if (other !== undefined && other !== hash) found.notOnce.push(`${hash} and ${other} are both at ${place}`);
      this.#places.set(hash, place);
      this.#taken.set(place, hash);
    } catch (error) {
      found.unproven.push(`${hash}: ${String(error)}`);
    }
  }
}
