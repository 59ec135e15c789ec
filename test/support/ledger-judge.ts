import { sha256Hex } from '../../src/base/lib/sha256.ts';
import { followChain, nothingSeen } from '../../src/ledger/chain-walk.ts';
import { checkInclusion, type InclusionProof, readProof } from '../../src/ledger/inclusion-proof.ts';
import { readKeys } from '../../src/ledger/ledger-answers.ts';
import { checkSignature, type LedgerKeys, type MerkleRoot, readRoot, rootDigest } from '../../src/ledger/merkle-root.ts';
import { eventually } from './child.ts';

const PAGE = 500;

/** What is asked, with or without a token: an address that answers JSON. */
export type AskJson = (path: string) => Promise<{ readonly status: number; readonly body: unknown }>;

/** Without any token, as a third party asks a control plane. */
export function askPublicly(url: string): AskJson {
  return async (path) => {
    const response = await fetch(url + path);
    return { status: response.status, body: await response.json() };
  };
}

async function dataOf(ask: AskJson, path: string): Promise<readonly unknown[]> {
  const { status, body } = await ask(path);
  if (status !== 200) throw new Error(`${path} is answered ${status}: ${JSON.stringify(body)}`);
  return (body as { readonly data: readonly unknown[] }).data;
}

/** A ledger as a third party sees it who has the control plane's address alone. */
export class LedgerJudge {
  readonly roots: readonly MerkleRoot[];
  readonly #keys: LedgerKeys;
  readonly #digests: ReadonlySet<string>;

  private constructor(roots: readonly MerkleRoot[], keys: LedgerKeys) {
    this.roots = roots;
    this.#keys = keys;
    this.#digests = new Set(roots.map(rootDigest));
  }

  /** Reads the whole chain. @throws LedgerError for the first root that does not fit */
  static async read(ask: AskJson, orgId: string): Promise<LedgerJudge> {
    const keys = readKeys(await dataOf(ask, '/v1/keys'), 'ledger');
    const roots: MerkleRoot[] = [];
    for (let more = true; more; ) {
      const page = (await dataOf(ask, `/v1/orgs/${orgId}/roots?after=${roots.at(-1)?.sequence ?? 0}`)).map(readRoot);
      roots.push(...page);
      more = page.length === PAGE;
    }
    followChain(nothingSeen(orgId), roots, keys);
    return new LedgerJudge(roots, keys);
  }

  /** How many leaves all batches have. */
  get leaves(): number {
    return this.roots.reduce((sum, { leaf_count: count }) => sum + count, 0);
  }

  /** Checks a proof against this chain. @throws LedgerError, or Error for a root that is not of the chain */
  check(value: unknown, recordHash: string): InclusionProof {
    const proof = readProof(value);
    checkInclusion(proof, recordHash);
    checkSignature(proof.root, this.#keys);
    if (!this.#digests.has(rootDigest(proof.root))) throw new Error(`root ${proof.root.sequence}: it is not the one of the chain`);
    return proof;
  }
}

/** Waits for the proof of a record, as who has its hash asks. */
export function verifiedProof(ask: AskJson, recordHash: string, limitMs?: number): Promise<unknown> {
  return eventually(
    `the proof of ${recordHash}`,
    async () => {
      const { status, body } = await ask(`/v1/verify/${recordHash}`);
      const answer = body as { readonly status?: string; readonly inclusion_proof?: unknown };
      if (status !== 200) throw new Error(`/v1/verify is answered ${status}: ${JSON.stringify(body)}`);
      return answer.status === 'verified' ? answer.inclusion_proof : undefined;
    },
    limitMs,
  );
}

/** A hash that no record has. */
export function strangeHash(seed: string): string {
  return sha256Hex(seed);
}
