import { timestamp } from '../../base/lib/clock.ts';
import { type Checkpoint, checkLogSignature, readCheckpoint, restoreOfOrigin } from '../../ledger/checkpoint.ts';
import { type Cosigner, cosignersOf } from '../../ledger/cosignature.ts';
import { type ListedKey, readKeys } from '../../ledger/ledger-answers.ts';
import { LedgerError } from '../../ledger/ledger-error.ts';
import { type CutSpan, CutSpanError, cutBy, cutText } from '../../ledger/ledger-restore.ts';
import type { MerkleRoot } from '../../ledger/merkle-root.ts';
import { NOTE_TYPE, type NoteKey, readNoteKey } from '../../ledger/signed-note.ts';
import { badValue } from '../checked-arguments.ts';
import { type CliIo, Unusable } from '../command.ts';
import { nameOf, readEvidence } from './evidence-files.ts';

const MOST_WITNESSES = 64;
/** A key that begins so much later than the clock here says may have begun by another clock; milliseconds. */
const MOST_AHEAD_MS = 300_000;

/** A checkpoint, and whose cosignatures of it count. */
export interface CheckpointFiles {
  readonly checkpoint: string | undefined;
  readonly witnessKeys: string | undefined;
  /** How many of them must have cosigned it, as it was typed. */
  readonly witnesses: string | undefined;
}

/** A checkpoint that its log has signed, and enough witnesses have cosigned. */
export interface SeenCheckpoint extends Omit<Checkpoint, 'note'> {
  /** Key of the log. */
  readonly kid: string;
  /** When this key was retired, milliseconds since the epoch; undefined: it was not. */
  readonly retired: number | undefined;
  readonly cosigners: readonly Cosigner[];
}

/**
 * Checks a checkpoint and who has cosigned it.
 * @param now milliseconds since the epoch
 * @throws LedgerError for what does not fit; Unusable for a file that cannot be read
 */
export async function checkpointIn(
  files: CheckpointFiles,
  keys: readonly ListedKey[],
  now: number,
  io: CliIo,
): Promise<SeenCheckpoint | undefined> {
  const { checkpoint: file } = files;
  if (file === undefined) return undefined;
  const wanted = files.witnesses === undefined ? 1 : countOf(files.witnesses);
  const witnesses = files.witnessKeys === undefined ? undefined : await witnessesIn(files.witnessKeys, io);
  const { note, ...checkpoint } = readCheckpoint(textIn(await readEvidence(file, io)));
  const kid = checkLogSignature({ ...checkpoint, note }, keys);
  const { notBefore = 0, notAfter = Number.POSITIVE_INFINITY } = readKeys(keys, 'ledger').windowOf(kid);
  if (notBefore > now + MOST_AHEAD_MS)
    throw new LedgerError(`checkpoint: its key (${kid}) signs from ${timestamp(notBefore)} on, which is not yet`);
  const cosigners = cosignersOf({ note }, witnesses ?? []);
  if (witnesses !== undefined && cosigners.length < wanted)
    throw new LedgerError(`checkpoint: ${cosigners.length} of the ${witnesses.length} witnesses have cosigned it, and ${wanted} must have`);
  return { ...checkpoint, kid, retired: notAfter > now ? undefined : notAfter, cosigners };
}

/**
 * What somebody should know of a checkpoint by a retired key (decision 13.21): it has no time of its own, so that
 * whoever has the key later can still sign one. A cosignature of before its end says that it was there by then.
 */
export function notesOnCheckpoint({ kid, retired, cosigners }: SeenCheckpoint): readonly string[] {
  if (retired === undefined || cosigners.some(({ seconds }) => seconds * 1000 < retired)) return [];
  return [
    `the checkpoint is signed with ${kid}, which was retired at ${timestamp(retired)}, and nothing given shows that it was signed before: --roots with its root would, or a cosignature of that time`,
  ];
}

/** Finds the root of a checkpoint among roots that are walked. */
export class RootOfCheckpoint {
  readonly #checkpoint: SeenCheckpoint | undefined;
  /** Restores that were passed, each with the hashes that its backup had. */
  readonly #cuts: { readonly cut: CutSpan; readonly hashes: number }[] = [];
  /** Whether the first root that was given is the first of its log. */
  #isWhole: boolean | undefined;
  #found = false;

  constructor(checkpoint: SeenCheckpoint | undefined) {
    this.#checkpoint = checkpoint;
  }

  /** @throws LedgerError for a root with another tree of that size */
  take(root: MerkleRoot): void {
    const { sequence, tree_size: size, tree_hash: hash } = root;
    const cut = cutBy(root);
    if (cut !== undefined) this.#cuts.push({ cut, hashes: (size ?? root.leaf_count) - root.leaf_count });
    this.#isWhole ??= sequence === 1 || cut !== undefined;
    if (this.#checkpoint === undefined || size !== this.#checkpoint.tree_size || !this.#isOfLog(this.#checkpoint)) return;
    if (hash !== this.#checkpoint.tree_hash)
      throw new LedgerError(`root ${sequence}: the checkpoint has another tree of ${size} hashes: there are two histories`);
    this.#found = true;
  }

  /**
   * A log that was restored is another one, with trees of the same sizes (decision 13.23). Where the chain begins in
   * the middle nothing says in which it is.
   */
  #isOfLog({ origin }: SeenCheckpoint): boolean {
    const last = this.#cuts.at(-1)?.cut.sequence;
    return (last === undefined && this.#isWhole === false) || restoreOfOrigin(origin) === last;
  }

  /** @throws LedgerError when none of the roots was it; CutSpanError where a restore is why */
  end(): void {
    if (this.#checkpoint === undefined || this.#found) return;
    const { tree_size: size, origin } = this.#checkpoint;
    const begun = restoreOfOrigin(origin) ?? 0;
    // A tree that is no larger than that of the backup would be one of it.
    const found = this.#cuts.find(({ cut, hashes }) => cut.sequence > begun && size > hashes);
    if (found !== undefined)
      throw new CutSpanError(`the checkpoint of ${size} hashes is of a root in a span that a restore has cut: ${cutText(found.cut)}`);
    throw new LedgerError(`no root that was given has the tree of ${size} hashes of the checkpoint`);
  }
}

function countOf(text: string): number {
  if (!/^[1-9]\d?$/.test(text)) throw badValue('--witnesses', 'a number from 1 to 99', text);
  return Number(text);
}

/** Verifier keys, one a line; lines that are empty or begin with # say nothing. @throws Unusable */
async function witnessesIn(file: string, io: CliIo): Promise<readonly NoteKey[]> {
  const lines = textIn(await readEvidence(file, io))
    .split('\n')
    .map((line) => line.trim());
  const texts = lines.filter((line) => line !== '' && !line.startsWith('#'));
  try {
    if (texts.length > MOST_WITNESSES) throw new LedgerError(`it has more than ${MOST_WITNESSES} keys`);
    const keys = texts.map((text) => readNoteKey(text, NOTE_TYPE.cosignature));
    // One key under two names is one witness.
    const once = new Map(keys.map((key) => [key.vkey.slice(key.name.length + key.keyId.length), key]));
    if (once.size !== keys.length) throw new LedgerError('a key stands in it twice');
    return keys;
  } catch (error) {
    if (!(error instanceof LedgerError)) throw error;
    throw new Unusable(`${nameOf(file)}: ${error.message}`, { cause: error });
  }
}

function textIn(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('utf8');
}
