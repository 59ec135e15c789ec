import { isJsonObject, type JsonObject } from '../base/json/json-object.ts';
import { followChain, nothingSeen, type SeenRoot } from './chain-walk.ts';
import { isOriginOf, restoreOfOrigin } from './checkpoint.ts';
import { type ConsistencyProof, checkConsistency, readTreeHead, type TreeHead } from './consistency-proof.ts';
import { thinned } from './kept-roots.ts';
import { isEndorsed } from './key-endorsement.ts';
import { type ListedKey, readKeyList, readKeys } from './ledger-answers.ts';
import { expectText, hashOf, LedgerError, textOf, wholeNumberOf } from './ledger-error.ts';
import { type MerkleRoot, NO_ROOT, rootDigest } from './merkle-root.ts';

const SCHEMA = 'gw.ledger_watch.v1';
const WHAT = 'state';
/** More than a watcher ever keeps. */
const MOST_KEPT = 2_000;

/** What a watcher of a ledger remembers (decision 13.4): the last root, and whose signatures it believes. */
export interface WatchedChain {
  readonly schema: typeof SCHEMA;
  readonly org_id: string;
  /** Of the last root; 0 before the first. */
  readonly sequence: number;
  readonly digest: string;
  /** Hashes under all roots so far; undefined where no root has said it since somebody began to remember it. */
  readonly leaves: number | undefined;
  /** The newest tree that a root has signed; undefined: none has one. */
  readonly tree: TreeHead | undefined;
  /** As {@link SeenRoot} has it. */
  readonly keyed_from: string | undefined;
  /** The newest time stamp of a root; undefined: none has one. */
  readonly stamp: SeenStamp | undefined;
  /** The newest entry of a root in a transparency log; undefined: none has one. */
  readonly entered?: SeenStamp | undefined;
  /** The last checkpoint that the watcher has cosigned as a witness; undefined: he has cosigned none. */
  readonly cosigned?: CosignedTree | undefined;
  /** Some of the roots before the last one, in order (decision 13.23). */
  readonly kept?: readonly SeenRoot[];
  /** The root of the last restore that was accepted; absent: there was none. */
  readonly restored?: number;
  readonly keys: readonly ListedKey[];
}

/** A tree that a witness stands for from now on: every later one must go on from it. */
export interface CosignedTree extends TreeHead {
  /** Of its log. */
  readonly origin: string;
}

/** A time stamp, or an entry in a log, that was checked. */
export interface SeenStamp {
  /** Of the root. */
  readonly sequence: number;
  /** RFC 3339. */
  readonly time: string;
}

/** A watcher that has seen nothing yet. @param keys that it believes */
export function watchFrom(orgId: string, keys: readonly ListedKey[]): WatchedChain {
  return { schema: SCHEMA, ...nothingSeen(orgId), stamp: undefined, keys };
}

/** Reads what a watcher has kept. @throws LedgerError */
export function readWatchedChain(value: unknown): WatchedChain {
  if (!isJsonObject(value)) throw new LedgerError(`${WHAT}: it is not an object`);
  expectText(value, 'schema', SCHEMA, WHAT);
  return {
    schema: SCHEMA,
    ...readSeen(value, WHAT),
    stamp: readStamp(value, 'stamp'),
    ...(value['entered'] === undefined ? {} : { entered: readStamp(value, 'entered') }),
    ...(value['cosigned'] === undefined ? {} : { cosigned: readCosigned(value['cosigned'], `${WHAT}: cosigned`) }),
    ...(value['kept'] === undefined ? {} : { kept: readKept(value['kept']) }),
    ...(value['restored'] === undefined ? {} : { restored: wholeNumberOf(value, 'restored', 1, WHAT) }),
    keys: readKeyList({ data: value['keys'] }),
  };
}

function readKept(value: unknown): readonly SeenRoot[] {
  if (!Array.isArray(value) || value.length > MOST_KEPT) throw new LedgerError(`${WHAT}: kept is not a list of at most ${MOST_KEPT}`);
  return value.map((one: unknown, at) => readSeen(one, `${WHAT}: kept ${at + 1}`));
}

/** @throws LedgerError */
function readSeen(value: unknown, what: string): SeenRoot {
  if (!isJsonObject(value)) throw new LedgerError(`${what} is not an object`);
  const sequence = wholeNumberOf(value, 'sequence', 0, what);
  const digest = hashOf(value, 'digest', what);
  if ((sequence === 0) !== (digest === NO_ROOT)) throw new LedgerError(`${what}: its digest is not that of root ${sequence}`);
  return {
    org_id: textOf(value, 'org_id', what),
    sequence,
    digest,
    leaves: value['leaves'] === undefined ? undefined : wholeNumberOf(value, 'leaves', 0, what),
    tree: value['tree'] === undefined ? undefined : readTreeHead(value['tree'], `${what}: tree`),
    keyed_from: value['keyed_from'] === undefined ? undefined : textOf(value, 'keyed_from', what),
  };
}

/** Reads what a witness has kept of a log. @throws LedgerError */
export function readCosigned(value: unknown, what = 'cosigned'): CosignedTree {
  if (!isJsonObject(value)) throw new LedgerError(`${what} is not an object`);
  return { origin: textOf(value, 'origin', what), ...readTreeHead(value, what) };
}

function readStamp(state: JsonObject, name: string): SeenStamp | undefined {
  const value = state[name];
  if (value === undefined) return undefined;
  const what = `${WHAT}: ${name}`;
  if (!isJsonObject(value)) throw new LedgerError(`${what} is not an object`);
  return { sequence: wholeNumberOf(value, 'sequence', 1, what), time: textOf(value, 'time', what) };
}

/** Whom to ask for roots: those behind the one before the last that is remembered, so that this one comes once more. */
export function askedAfter({ sequence }: WatchedChain): number {
  return Math.max(0, sequence - 1);
}

/**
 * That the root which is remembered is still what it was. @param roots of the ledger now, behind {@link askedAfter}
 * @returns those that are new
 * @throws LedgerError when it is gone, or another stands in its place
 */
export function checkRemembered({ sequence, digest }: WatchedChain, roots: readonly MerkleRoot[]): readonly MerkleRoot[] {
  if (sequence === 0) return roots;
  const [again, ...more] = roots;
  if (again === undefined) throw new LedgerError(`the ledger ends before root ${sequence}, which was there: its history goes backward`);
  if (again.sequence !== sequence)
    throw new LedgerError(`root ${sequence} is missing, and was there: root ${again.sequence} is in its place`);
  const now = rootDigest(again);
  if (now !== digest) throw new LedgerError(`root ${sequence} was rewritten: its digest was ${digest} and is ${now}`);
  return more;
}

/**
 * Goes on over new roots.
 * @throws LedgerError for the first that does not fit, or is signed with a key that is not believed
 */
export function watchOn(watched: WatchedChain, roots: readonly MerkleRoot[]): WatchedChain {
  const next = { ...watched, ...followChain(watched, roots, readKeys(watched.keys, 'ledger')) };
  return watched.sequence === 0 || next.sequence === watched.sequence
    ? next
    : { ...next, kept: thinned([...(watched.kept ?? []), seenIn(watched)]) };
}

function seenIn({ org_id, sequence, digest, leaves, tree, keyed_from }: WatchedChain): SeenRoot {
  return { org_id, sequence, digest, leaves, tree, keyed_from };
}

/**
 * Compares the keys that are listed now with those that are believed.
 * @returns names of keys that are listed and not believed, and do not wait for their turn: nothing is signed with them
 * until somebody says that they are right
 * @throws LedgerError when another key has the name of one that is believed
 */
export function strangersAmong({ keys }: WatchedChain, listed: readonly ListedKey[]): readonly string[] {
  const believed = new Map(keys.map(({ kid, public_key }) => [kid, public_key]));
  for (const { kid, public_key } of listed) {
    const known = believed.get(kid);
    if (known !== undefined && known !== public_key)
      throw new LedgerError(`key ${kid} was replaced: ${public_key} is listed, ${known} is believed`);
  }
  return listed.flatMap((key) => (believed.has(key.kid) || isNext(key, keys) ? [] : [key.kid]));
}

/**
 * Whom a watcher believes from now on (decision 13.18): those that he believed, each until the end that is listed for
 * it, and the keys that one of them endorses, one after the other. What has once been said to end does not end later. A
 * next key is believed when the one before it has ended, since it may be given up until then.
 * @param retired names of keys whose endorsements are worth nothing, because somebody who knows it says that they ended
 */
export function believedWith(
  keys: readonly ListedKey[],
  listed: readonly ListedKey[],
  retired: ReadonlySet<string> = new Set(),
): readonly ListedKey[] {
  const byKid = new Map(listed.map((key) => [key.kid, key]));
  const signing = keys.filter((key) => !isAwaited(key, keys));
  const believed = new Map(signing.map((key) => [key.kid, endedBy(key, byKid.get(key.kid))]));
  for (let before = -1; before < believed.size; ) {
    before = believed.size;
    const found = listed.filter((key) => !believed.has(key.kid) && succeeds(key, believed, retired));
    for (const key of found) {
      // Of two that one key endorses for its end the one is forged, and nobody here can say which.
      const isAlone = found.every((other) => other === key || other.endorsed_by?.kid !== key.endorsed_by?.kid);
      if (isAlone) believed.set(key.kid, key);
    }
  }
  return [...believed.values()];
}

/** Whether the key that endorses it is there, and signs until further notice. */
function isAwaited({ endorsed_by: endorsement }: ListedKey, keys: readonly ListedKey[]): boolean {
  const by = keys.find(({ kid }) => kid === endorsement?.kid);
  return by !== undefined && by.not_after === undefined;
}

function endedBy(key: ListedKey, listed: ListedKey | undefined): ListedKey {
  const end = listed?.public_key === key.public_key ? listed.not_after : undefined;
  const isSooner = end !== undefined && (key.not_after === undefined || Date.parse(end) < Date.parse(key.not_after));
  return isSooner ? { ...key, not_after: end } : key;
}

/**
 * Whether a key that is believed, and has ended when this one begins, says that this one follows it. A key has one
 * successor: whoever gets hold of a retired one can endorse others with it.
 */
function succeeds(key: ListedKey, believed: ReadonlyMap<string, ListedKey>, retired: ReadonlySet<string>): boolean {
  const { not_before: from, endorsed_by: endorsement } = key;
  const by = endorsement && believed.get(endorsement.kid);
  if (endorsement === undefined || by?.not_after === undefined || from === undefined || retired.has(by.kid)) return false;
  const end = Date.parse(by.not_after);
  if (end !== Date.parse(from)) return false;
  const isFollowed = [...believed.values()].some(
    (other) => other.endorsed_by?.kid === by.kid || (other.not_before !== undefined && Date.parse(other.not_before) === end),
  );
  if (isFollowed) return false;
  return isEndorsedBy(key, by);
}

/** Whether a key that is believed and has not ended says that this one is to follow it. */
function isNext(key: ListedKey, believed: readonly ListedKey[]): boolean {
  const by = believed.find(({ kid }) => kid === key.endorsed_by?.kid);
  return by !== undefined && by.not_after === undefined && isEndorsedBy(key, by);
}

function isEndorsedBy(key: ListedKey, by: ListedKey): boolean {
  const { not_before: from, endorsed_by: endorsement } = key;
  const signer = readKeys([by], 'ledger').find(by.kid);
  if (endorsement === undefined || from === undefined || signer === undefined) return false;
  return isEndorsed({ ...key, not_before: from }, endorsement, signer);
}

/**
 * What to ask the ledger a proof for: the trees of two roots, the later of which is new.
 * @returns undefined where there is no earlier tree, or no newer one
 */
export function growthBetween(
  before: WatchedChain,
  after: WatchedChain,
): { readonly first: TreeHead; readonly second: TreeHead } | undefined {
  const { tree: first } = before;
  const { tree: second } = after;
  return first === undefined || second === undefined || first.sequence === second.sequence ? undefined : { first, second };
}

/**
 * @param proof undefined: the ledger shows none
 * @throws LedgerError when it does not show that one goes on in the other
 */
export function checkGrowth(first: TreeHead, second: TreeHead, proof: ConsistencyProof | undefined): void {
  if (proof === undefined)
    throw new LedgerError(`the ledger shows no proof that the tree of root ${second.sequence} goes on from that of root ${first.sequence}`);
  checkConsistency(proof, first, second);
}

/**
 * That a published checkpoint may be cosigned: it is of the log of the org, and lies between what was cosigned before
 * and what was seen of the ledger.
 * @param last that the key of the witness has cosigned of this log, whatever the state says; undefined: nothing
 * @param asks the ledger for the proof between the roots of two trees; undefined: it shows none
 * @throws LedgerError when it does not go on from what was cosigned, or is not of the history that was seen
 */
export async function checkToCosign(
  { org_id: orgId, cosigned, sequence, tree, restored }: WatchedChain,
  last: CosignedTree | undefined,
  checkpoint: CosignedTree,
  asks: (first: number, second: number) => Promise<ConsistencyProof | undefined>,
): Promise<void> {
  const { origin } = checkpoint;
  // Else a ledger of another org could go on in the name of this one.
  if (!isOriginOf(origin, orgId)) throw new LedgerError(`the log is called ${origin}, and that is no name of the log of the org ${orgId}`);
  // A ledger that was restored is another log: what was cosigned of the one before stands, and nothing goes on from it.
  if (restoreOfOrigin(origin) !== restored)
    throw new LedgerError(
      `the log is called ${origin}, and ${restored === undefined ? 'the ledger was not restored' : `the ledger was restored by root ${restored}`}`,
    );
  if (tree === undefined || checkpoint.sequence > sequence)
    throw new LedgerError(`the published checkpoint is of root ${checkpoint.sequence}, which the ledger does not show`);
  if (cosigned !== undefined && cosigned.origin !== origin)
    throw new LedgerError(`the log is called ${origin}, and was ${cosigned.origin} when it was cosigned`);
  if (last !== undefined) await checkOnward(last, checkpoint, asks);
  const isLast = cosigned?.sequence === last?.sequence && cosigned?.tree_hash === last?.tree_hash;
  if (cosigned !== undefined && !isLast) await checkOnward(cosigned, checkpoint, asks);
  await checkOnward(checkpoint, tree, asks);
}

async function checkOnward(
  first: TreeHead,
  second: TreeHead,
  asks: (first: number, second: number) => Promise<ConsistencyProof | undefined>,
): Promise<void> {
  if (second.sequence < first.sequence || second.tree_size < first.tree_size)
    throw new LedgerError(
      `the tree of root ${second.sequence} has ${second.tree_size} hashes, and that of root ${first.sequence} had ${first.tree_size}: the log goes backward`,
    );
  const isSame = second.sequence === first.sequence;
  if (isSame && (second.tree_size !== first.tree_size || second.tree_hash !== first.tree_hash))
    throw new LedgerError(`root ${first.sequence} has two trees: that of the checkpoint and another one`);
  if (!isSame) checkGrowth(headOnly(first), headOnly(second), await asks(first.sequence, second.sequence));
}

function headOnly({ sequence, tree_size, tree_hash }: TreeHead): TreeHead {
  return { sequence, tree_size, tree_hash };
}
