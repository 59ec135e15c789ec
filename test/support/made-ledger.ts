import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { canonicalJson } from '../../src/base/json/jcs.ts';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
import { type ConsistencyProof, consistencyRanges, treeHeadOf } from '../../src/ledger/consistency-proof.ts';
import { type InclusionProof, proveInclusion, recordLeaf } from '../../src/ledger/inclusion-proof.ts';
import { type ListedKey, listedKey } from '../../src/ledger/ledger-answers.ts';
import { type MerkleRoot, NO_ROOT, ROOT_SCHEMA, rootDigest, signRoot } from '../../src/ledger/merkle-root.ts';
import { treeRoot } from '../../src/ledger/merkle-tree.ts';
import type { HasTeardown } from './temp-dir.ts';

/** A private Ed25519 key that is the same in every run. */
export function ledgerKey(seed: number): KeyObject {
  const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.alloc(32, seed)]);
  return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
}

export interface MadeLedger {
  readonly roots: readonly MerkleRoot[];
  readonly keys: readonly ListedKey[];
  proofOf(recordHash: string): InclusionProof | undefined;
  /** Undefined where one of the roots is not there or has no tree. */
  consistencyOf(first: number, second: number): ConsistencyProof | undefined;
}

export interface MadeLedgerOptions {
  readonly org?: string;
  readonly kid?: string;
  readonly seed?: number;
  /** Sequence of the first root that signs a tree; default 1. */
  readonly treesFrom?: number;
  /** The batch, counted from 0, whose root says that the ledger was restored from a backup that ended before it. */
  readonly restored?: { readonly batch: number; readonly sequence: number };
}

/** A ledger over these batches of record hashes. */
export function makeLedger(
  batches: readonly (readonly string[])[],
  { org = 'acme', kid = 'ledger-1', seed = 7, treesFrom = 1, restored }: MadeLedgerOptions = {},
): MadeLedger {
  const key = ledgerKey(seed);
  const roots: MerkleRoot[] = [];
  const leaves: Buffer[] = [];
  for (const hashes of batches) {
    leaves.push(...hashes.map(recordLeaf));
    const before = roots.at(-1);
    const end = before?.sequence ?? 0;
    const restore = restored?.batch === roots.length ? restored : undefined;
    const sequence = restore?.sequence ?? end + 1;
    const root = {
      schema: ROOT_SCHEMA,
      batch_id: `${org}/${sequence}`,
      org_id: org,
      sequence,
      prev_root_hash: before === undefined ? NO_ROOT : rootDigest(before),
      root_hash: treeRoot(hashes.map(recordLeaf)).toString('hex'),
      leaf_count: hashes.length,
      ...(sequence >= treesFrom && { tree_size: leaves.length, tree_hash: treeRoot(leaves).toString('hex') }),
      closed_at: '2026-01-01T00:00:00.000Z',
      ...(restore && { restored: { epoch: 1, from_sequence: end, at: '2026-01-01T00:00:00.000Z', reason: 'the disk was lost' } }),
    } as const;
    roots.push(signRoot(root, kid, key));
  }
  return {
    roots,
    keys: [listedKey(kid, 'ledger', createPublicKey(key))],
    proofOf(recordHash) {
      const at = batches.findIndex((hashes) => hashes.includes(recordHash));
      const root = roots[at];
      return root === undefined ? undefined : proveInclusion(batches[at] ?? [], (batches[at] ?? []).indexOf(recordHash), root);
    },
    consistencyOf(from, to) {
      const [first, second] = [from, to].map((sequence) => {
        const root = roots.find((one) => one.sequence === sequence);
        return root === undefined ? undefined : treeHeadOf(root);
      });
      if (first === undefined || second === undefined) return undefined;
      const ranges = consistencyRanges(first.tree_size, second.tree_size);
      return { first, second, path: ranges.map(({ start, end }) => treeRoot(leaves.slice(start, end)).toString('hex')) };
    },
  };
}

/** A record as anybody may make one, in canonical form. */
export function madeRecord(members: Readonly<Record<string, unknown>>): { readonly text: string; readonly hash: string } {
  const hash = sha256Hex(canonicalJson(members));
  return { text: canonicalJson({ ...members, record_hash: hash }), hash };
}

export interface LedgerSite {
  readonly url: string;
  /** What it shows; a test puts another in its place. Undefined: it has no such org. */
  ledger: MadeLedger | undefined;
  /** Roots of a page. */
  page: number;
  /** Answers in place of everything else. */
  answer: { readonly status: number; readonly text: string } | undefined;
  /** Paths that were asked for. */
  readonly asked: string[];
  /** The checkpoint that it publishes. */
  checkpoint: { readonly sequence: number; readonly checkpoint: string } | undefined;
  /** Bodies of cosignatures that were handed in, and how they are answered. */
  readonly handedIn: string[];
  takes: number;
}

/** What a control plane shows to anybody of one org, over HTTP. */
export async function startLedgerSite(t: HasTeardown, ledger: MadeLedger, org = 'acme'): Promise<LedgerSite> {
  const site: Omit<LedgerSite, 'url'> = {
    ledger,
    page: 500,
    answer: undefined,
    asked: [],
    checkpoint: undefined,
    handedIn: [],
    takes: 200,
  };
  const server: Server = createServer((request, response) => {
    if (request.method === 'POST') {
      void text(request).then((body) => {
        site.handedIn.push(body);
        response.writeHead(site.takes, { 'content-type': 'application/json' }).end('{}');
      });
      return;
    }
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://site');
    site.asked.push(request.url ?? '');
    const found = site.answer === undefined ? answerOf(site, org, pathname, (name) => Number(searchParams.get(name))) : undefined;
    const said = site.answer?.text ?? JSON.stringify(found ?? { error: { code: 'not_found', message: 'There is no such thing.' } });
    response.writeHead(site.answer?.status ?? (found === undefined ? 404 : 200), { 'content-type': 'application/json' }).end(said);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => new Promise((resolve) => server.close(resolve)));
  return Object.assign(site, { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
}

function answerOf(
  { ledger, page, checkpoint }: Pick<LedgerSite, 'ledger' | 'page' | 'checkpoint'>,
  org: string,
  path: string,
  number: (name: string) => number,
): unknown {
  if (path === '/v1/keys') return { data: ledger?.keys ?? [] };
  if (ledger === undefined) return undefined;
  if (path === `/v1/orgs/${org}/roots`) return { data: ledger.roots.filter(({ sequence }) => sequence > number('after')).slice(0, page) };
  if (path === `/v1/orgs/${org}/timestamps` || path === `/v1/orgs/${org}/log-entries`) return { data: [] };
  if (path === `/v1/orgs/${org}/checkpoint`) return checkpoint;
  if (path === `/v1/orgs/${org}/consistency`) return ledger.consistencyOf(number('first'), number('second'));
  const [, hash] = /\/proofs\/([0-9a-f]{64})$/.exec(path.startsWith(`/v1/orgs/${org}/`) ? path : '') ?? [];
  return hash === undefined ? undefined : ledger.proofOf(hash);
}
