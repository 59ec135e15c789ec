import { rm } from 'node:fs/promises';
import { checkLogSignature, readCheckpoint } from '../../ledger/checkpoint.ts';
import { cosign, cosignersOf } from '../../ledger/cosignature.ts';
import type { PublishedCheckpoint } from '../../ledger/ledger-answers.ts';
import { NOTE_TYPE, type NoteKey, noteKey } from '../../ledger/signed-note.ts';
import { type CosignedTree, checkToCosign, type WatchedChain } from '../../ledger/watched-chain.ts';
import { badValue } from '../checked-arguments.ts';
import { GatewayRefusal, Unusable } from '../command.ts';
import { SigningKey } from '../delegate/signing-key.ts';
import { CosignedTrees } from './cosigned-trees.ts';
import type { WatchedLedger } from './watch-ledger.ts';

const MAKER = 'gw verify --witness-key';

/** Who cosigns. */
export interface Witness {
  readonly key: NoteKey;
  readonly sign: (message: Uint8Array) => Uint8Array;
  /** What the key has cosigned until now. @throws Unusable */
  readonly cosigned: () => Promise<CosignedTrees>;
}

/** A ledger that takes cosignatures. */
export interface CosignedLedger extends WatchedLedger {
  /** The one that is published; undefined: there is none yet. */
  checkpoint(orgId: string): Promise<PublishedCheckpoint | undefined>;
  cosign(orgId: string, sequence: number, line: string): Promise<void>;
}

/**
 * A witness of a private key.
 * @param name default: one that follows from the key
 * @throws Unusable for a file that holds none; UsageError for a name that none can have
 */
export async function readWitness(file: string, name: string | undefined): Promise<Witness> {
  return witnessOf(await SigningKey.read(file, MAKER), file, name);
}

/**
 * Makes the key of a witness in a new file, and the folder that remembers what it cosigns.
 * @throws as {@link readWitness}
 */
export async function makeWitness(file: string, name: string | undefined): Promise<Witness> {
  const key = SigningKey.make();
  const witness = witnessOf(key, file, name);
  await key.write(file);
  try {
    await CosignedTrees.make(file);
  } catch (error) {
    await rm(file, { force: true }).catch(() => undefined);
    throw error;
  }
  return witness;
}

function witnessOf(key: SigningKey, file: string, name = `witness-${key.kid}`): Witness {
  if (!/^[\w.~:/-]{1,128}$/.test(name))
    throw badValue('--name', '1 to 128 letters, digits, dots, dashes, slashes and the like, such as witness.example.com', name);
  return {
    key: noteKey(name, NOTE_TYPE.cosignature, Buffer.from(key.publicKey, 'base64')),
    sign: (message) => key.signature(message),
    cosigned: () => CosignedTrees.of(file),
  };
}

export interface CosignOptions {
  readonly ledger: CosignedLedger;
  readonly witness: Witness;
  /** As they were before {@link published} was asked for: what is cosigned later is another process's. */
  readonly before: CosignedTrees;
  /** As it was answered before the ledger was looked at. */
  readonly published: PublishedCheckpoint;
  /** What was seen of the ledger since. */
  readonly state: WatchedChain;
  readonly save: (state: WatchedChain) => Promise<void>;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/**
 * Cosigns a published checkpoint when it goes on from what was cosigned before, and is of the history that was seen
 * (decision 13.21). What is cosigned is on the disk beside the key before it is signed, so that no crash, and no other
 * process, makes a witness of two histories.
 * @returns what stands now @throws LedgerError when it may not be cosigned; Unusable when another process cosigns with
 * this key; what the ledger throws
 */
export async function cosignPublished({ ledger, witness, before, published, state, save, now }: CosignOptions): Promise<WatchedChain> {
  const checkpoint = readCheckpoint(published.checkpoint);
  checkLogSignature(checkpoint, state.keys);
  const { origin, tree_size, tree_hash, note } = checkpoint;
  const tree: CosignedTree = { origin, sequence: published.sequence, tree_size, tree_hash };
  const last = await before.last(origin);
  await checkToCosign(state, last, tree, (first, second) => ledger.consistency(state.org_id, first, second));
  if (last?.sequence !== tree.sequence) await before.add(tree);
  const next = { ...state, cosigned: tree };
  if (state.cosigned?.sequence !== tree.sequence) await save(next);
  // It stands there already: what was handed in is not handed in again.
  if (cosignersOf({ note }, [witness.key]).length > 0) return next;
  const line = cosign(note.text, witness.key, Math.floor(now / 1000), witness.sign);
  try {
    await ledger.cosign(state.org_id, published.sequence, line);
  } catch (error) {
    // The history fits: that nobody takes what a witness says of it is another matter, and tried again.
    if (!(error instanceof GatewayRefusal)) throw error;
    throw new Unusable(`the control plane does not take the cosignature of ${witness.key.name}: ${error.message}`, { cause: error });
  }
  return next;
}
