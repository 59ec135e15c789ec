import { messageOf } from '../../base/lib/gateway-error.ts';
import { ChainWalk, type WalkedChain } from '../../ledger/chain-walk.ts';
import { type ConsistencyProof, checkConsistency, readConsistency, type TreeHead, treeHeadOf } from '../../ledger/consistency-proof.ts';
import { checkInclusion, type InclusionProof } from '../../ledger/inclusion-proof.ts';
import { ALWAYS } from '../../ledger/key-window.ts';
import { type ListedKey, readKeyList, readKeys, readProofAnswer, readTimestampsPage } from '../../ledger/ledger-answers.ts';
import { LedgerError } from '../../ledger/ledger-error.ts';
import { type CutSpan, CutSpanError, cutOver, cutText } from '../../ledger/ledger-restore.ts';
import { checkSignature, type LedgerKeys, type MerkleRoot, rootDigest } from '../../ledger/merkle-root.ts';
import { certificatesOf, checkTimeStamp, type StampCheck } from '../../ledger/time-stamp-signer.ts';
import type { TimeStampToken } from '../../ledger/time-stamp-token.ts';
import type { SeenStamp } from '../../ledger/watched-chain.ts';
import { type CheckedRecord, checkRecord } from '../../record/verify-record.ts';
import { type CliIo, Unusable } from '../command.ts';
import { type CheckpointFiles, checkpointIn, notesOnCheckpoint, RootOfCheckpoint, type SeenCheckpoint } from './check-checkpoint.ts';
import { type EntryFiles, NO_LOG_KEY, newestEntryIn } from './check-entries.ts';
import { readEvidence, readJsonFile, rootsInFiles } from './evidence-files.ts';

/** Files of which a check is made; which may stand together is the command's. */
export interface EvidenceFiles extends CheckpointFiles, EntryFiles {
  /** As it was read, and how it is called in a message. */
  readonly record: { readonly bytes: Uint8Array; readonly name: string } | undefined;
  readonly proof: string | undefined;
  readonly consistency: string | undefined;
  /** Time stamps of roots, and certificates of the authorities that are trusted with them. */
  readonly timestamps: readonly string[];
  readonly tsaCa: string | undefined;
  readonly keys: string | undefined;
}

/** What was found. It fits together when there are no problems. */
export interface CheckedEvidence {
  readonly record: CheckedRecord | undefined;
  /** Undefined where none was given, or it does not hold. */
  readonly proof: InclusionProof | undefined;
  readonly chain: WalkedChain | undefined;
  /** That the tree of one root of the chain goes on in that of another; undefined as the others. */
  readonly growth: ConsistencyProof | undefined;
  /** The newest time stamp of a root of the chain. */
  readonly stamp: SeenStamp | undefined;
  /** The newest root of the chain that stands in a log. */
  readonly entered: SeenStamp | undefined;
  readonly checkpoint: SeenCheckpoint | undefined;
  /** What does not fit, one line each. */
  readonly problems: readonly string[];
  /** What was signed, and stands in a span that a restore has cut (decision 13.23), one line each. */
  readonly cut: readonly string[];
  /** What somebody should know who reads that everything fits. */
  readonly notes: readonly string[];
}

/** What was found to be wrong, apart from what a declared restore has cut. */
class Problems {
  readonly lines: string[] = [];
  readonly cut: string[] = [];

  /** @param error of which what is wrong is said @param what comes before it @throws what is no LedgerError */
  take(error: unknown, what = ''): void {
    if (!(error instanceof LedgerError)) throw error;
    (error instanceof CutSpanError ? this.cut : this.lines).push(`${what}${error.message}`);
  }
}

/**
 * Checks what was given without asking anybody (decision 13.4): the record against its hash, the proof against the
 * record, its root and the chain against the keys.
 * @param now milliseconds since the epoch
 * @throws Unusable for a file that cannot be read
 */
export async function checkEvidence(files: EvidenceFiles, now: number, io: CliIo): Promise<CheckedEvidence> {
  const problems = new Problems();
  const record = files.record === undefined ? undefined : recordIn(files.record);
  if (record !== undefined && record.stored !== record.computed)
    problems.lines.push(`record: its hash is ${record.computed}, and record_hash in it is ${record.stored}`);
  const listed = await listedIn(files.keys, io, problems);
  let keys: LedgerKeys = { find: () => undefined, windowOf: () => ALWAYS };
  noteProblem(problems, () => {
    keys = readKeys(listed, 'ledger');
  });
  const proof = files.proof === undefined ? undefined : await proofIn(files.proof, io, problems);
  const holds = proof !== undefined && noteProblem(problems, () => checkProof(proof, record, keys));
  const growth = files.consistency === undefined ? undefined : await consistencyIn(files.consistency, io, problems);
  const checkpoint = await noted(problems, () => checkpointIn(files, listed, now, io));
  const chain = files.roots.length === 0 ? undefined : await chainIn(files.roots, { keys, proof, growth, checkpoint }, io, problems);
  const anchored = chain === undefined ? undefined : await anchoredIn(files, { listed, chain }, io, problems);
  if (chain?.wantedIsCut !== undefined) problems.cut.push(chain.wantedIsCut);
  const isFine = problems.lines.length === 0;
  const notes = [...(holds ? notesOn(record, proof) : []), ...notesAlone(isFine, chain, checkpoint), ...(anchored?.notes ?? [])];
  return {
    record,
    proof: holds ? proof : undefined,
    chain,
    growth: isFine ? growth : undefined,
    stamp: anchored?.stamp,
    entered: anchored?.entered,
    checkpoint: isFine ? checkpoint : undefined,
    problems: problems.lines,
    cut: problems.cut,
    notes,
  };
}

/** On a checkpoint that no chain stands beside. */
function notesAlone(isFine: boolean, chain: WalkedChain | undefined, checkpoint: SeenCheckpoint | undefined): readonly string[] {
  return isFine && chain === undefined && checkpoint !== undefined ? notesOnCheckpoint(checkpoint) : [];
}

/**
 * A call that named another org is refused, and its record is in the ledger of the gateway's own org all the same
 * (decision 13.4).
 */
function notesOn(record: CheckedRecord | undefined, { root }: InclusionProof): string[] {
  if (record?.orgId === undefined || record.orgId === root.org_id) return [];
  return [`the record names the org ${record.orgId}, and the ledger is that of ${root.org_id}: its gateway is one of ${root.org_id}`];
}

function recordIn({ bytes, name }: NonNullable<EvidenceFiles['record']>): CheckedRecord {
  try {
    return checkRecord(bytes);
  } catch (error) {
    throw new Unusable(`${name}: ${messageOf(error)}`, { cause: error });
  }
}

/** Nobody's, where there are none that can be read: then nothing holds. */
async function listedIn(file: string | undefined, io: CliIo, problems: Problems): Promise<readonly ListedKey[]> {
  if (file === undefined) return [];
  const value = await readJsonFile(file, io);
  return (await noted(problems, async () => readKeyList(value))) ?? [];
}

async function proofIn(file: string, io: CliIo, problems: Problems): Promise<InclusionProof | undefined> {
  const value = await readJsonFile(file, io);
  let proof: InclusionProof | undefined;
  noteProblem(problems, () => {
    ({ proof } = readProofAnswer(value));
    if (proof === undefined)
      throw new LedgerError('proof: there is none yet: the answer says pending_inclusion, so that no root stands for the record so far');
  });
  return proof;
}

function checkProof(proof: InclusionProof, record: CheckedRecord | undefined, keys: LedgerKeys): void {
  checkInclusion(proof, record?.computed ?? proof.record_hash);
  checkSignature(proof.root, keys);
}

async function consistencyIn(file: string, io: CliIo, problems: Problems): Promise<ConsistencyProof | undefined> {
  const value = await readJsonFile(file, io);
  let growth: ConsistencyProof | undefined;
  noteProblem(problems, () => {
    growth = readConsistency(value);
  });
  return growth;
}

interface BesideChain {
  readonly keys: LedgerKeys;
  readonly proof: InclusionProof | undefined;
  readonly growth: ConsistencyProof | undefined;
  readonly checkpoint: SeenCheckpoint | undefined;
}

async function chainIn(
  files: readonly string[],
  { keys, proof, growth, checkpoint }: BesideChain,
  io: CliIo,
  problems: Problems,
): Promise<WalkedChain | undefined> {
  const leap = growth === undefined ? undefined : { from: growth.first.sequence, to: growth.second.sequence };
  const walk = new ChainWalk(keys, proof?.root, leap);
  const trees = new Map<number, TreeHead | undefined>();
  const ofCheckpoint = new RootOfCheckpoint(checkpoint);
  try {
    for await (const root of rootsInFiles(files, io)) {
      walk.take(root);
      ofCheckpoint.take(root);
      if (root.sequence === leap?.from || root.sequence === leap?.to) trees.set(root.sequence, treeHeadOf(root));
    }
    const chain = walk.end();
    try {
      ofCheckpoint.end();
      if (growth !== undefined) checkConsistency(growth, treeIn(trees, growth.first, chain), treeIn(trees, growth.second, chain));
    } catch (error) {
      // The chain is what it is; what was cut is told beside it.
      if (!(error instanceof CutSpanError)) throw error;
      problems.take(error);
    }
    return chain;
  } catch (error) {
    problems.take(error, 'chain: ');
    return undefined;
  }
}

/** What somebody outside says of roots of the chain. */
async function anchoredIn(
  files: EvidenceFiles,
  { listed, chain }: { readonly listed: readonly ListedKey[]; readonly chain: WalkedChain },
  io: CliIo,
  problems: Problems,
): Promise<Pick<CheckedEvidence, 'stamp' | 'entered' | 'notes'>> {
  const stamp = await stampIn(files, chain, io, problems);
  const isCut = (sequence: number): boolean => noteCut(sequence, chain, 'log entries: ', problems);
  const entered = await noted(problems, () => newestEntryIn(files, listed, isCut, io));
  return { stamp, entered, notes: entered !== undefined && files.rekorKey === undefined ? [NO_LOG_KEY] : [] };
}

/** Whether a root that was not given is one of a span that a restore has cut, which is noted then. */
function noteCut(sequence: number, { cuts }: WalkedChain, what: string, problems: Problems): boolean {
  const cut = cutOver(cuts, sequence);
  if (cut !== undefined) problems.take(cutRoot(sequence, cut), what);
  return cut !== undefined;
}

/** The newest of the time stamps that were given, each of which must be one of a root that was given. */
async function stampIn(
  { timestamps, tsaCa, roots }: EvidenceFiles,
  chain: WalkedChain,
  io: CliIo,
  problems: Problems,
): Promise<SeenStamp | undefined> {
  if (timestamps.length === 0) return undefined;
  const trusted = tsaCa === undefined ? undefined : trustedIn(await readEvidence(tsaCa, io), tsaCa);
  let newest: SeenStamp | undefined;
  const pages: unknown[] = [];
  for (const file of timestamps) pages.push(await readJsonFile(file, io));
  try {
    const stamps = new Map(pages.flatMap(readTimestampsPage).map(({ sequence, token }) => [sequence, token]));
    for await (const root of rootsInFiles(roots, io)) {
      const token = stamps.get(root.sequence);
      if (token === undefined) continue;
      stamps.delete(root.sequence);
      const { time } = checkedStamp(root, token, trusted);
      newest = { sequence: root.sequence, time };
    }
    const [lost] = [...stamps.keys()].filter((sequence) => !noteCut(sequence, chain, 'timestamps: ', problems));
    if (lost !== undefined) throw new LedgerError(`root ${lost} is not among the roots that were given, and has a time stamp`);
    return newest;
  } catch (error) {
    problems.take(error, 'timestamps: ');
    return undefined;
  }
}

function checkedStamp(root: MerkleRoot, token: Buffer, trusted: StampCheck['trusted']): TimeStampToken {
  try {
    return checkTimeStamp(token, { imprint: rootDigest(root), trusted });
  } catch (error) {
    if (error instanceof LedgerError) throw new LedgerError(`root ${root.sequence}: ${error.message}`, { cause: error });
    throw error;
  }
}

/** @throws Unusable */
function trustedIn(bytes: Uint8Array, name: string): StampCheck['trusted'] {
  try {
    return certificatesOf(Buffer.from(bytes).toString('latin1'));
  } catch (error) {
    throw new Unusable(`${name}: ${messageOf(error)}`, { cause: error });
  }
}

/** What is to be said of a root that was signed, and that the ledger does not have any more. */
function cutRoot(sequence: number, cut: CutSpan): CutSpanError {
  return new CutSpanError(`root ${sequence} is of a span that a restore has cut: ${cutText(cut)}`);
}

/** The tree that a root of the chain signs. @throws LedgerError */
function treeIn(trees: ReadonlyMap<number, TreeHead | undefined>, { sequence }: TreeHead, { cuts }: WalkedChain): TreeHead {
  const tree = trees.get(sequence);
  if (tree !== undefined) return tree;
  const cut = cutOver(cuts, sequence);
  if (cut !== undefined) throw cutRoot(sequence, cut);
  throw new LedgerError(
    trees.has(sequence)
      ? `consistency: root ${sequence} was signed before roots had a tree`
      : `consistency: root ${sequence} is not among the roots that were given`,
  );
}

/** @returns undefined for what does not fit */
async function noted<T>(problems: Problems, read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    problems.take(error);
    return undefined;
  }
}

/** @returns whether it holds */
function noteProblem(problems: Problems, check: () => void): boolean {
  try {
    check();
    return true;
  } catch (error) {
    problems.take(error);
    return false;
  }
}
