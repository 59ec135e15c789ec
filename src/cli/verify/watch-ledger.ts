import { randomUUID } from 'node:crypto';
import { open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { AmbiguousJsonError, unambiguousJson } from '../../base/json/unambiguous-json.ts';
import { codeOf, messageOf } from '../../base/lib/gateway-error.ts';
import type { ConsistencyProof } from '../../ledger/consistency-proof.ts';
import type { ListedKey, ListedTimestamp } from '../../ledger/ledger-answers.ts';
import { LedgerError } from '../../ledger/ledger-error.ts';
import { type CutSpan, cutBy } from '../../ledger/ledger-restore.ts';
import type { LogKey } from '../../ledger/log-entry.ts';
import { type MerkleRoot, rootDigest } from '../../ledger/merkle-root.ts';
import type { ListedLogEntry } from '../../ledger/root-entry.ts';
import { checkTimeStamp } from '../../ledger/time-stamp-signer.ts';
import {
  askedAfter,
  believedWith,
  checkGrowth,
  checkRemembered,
  growthBetween,
  readWatchedChain,
  type SeenStamp,
  strangersAmong,
  type WatchedChain,
  watchFrom,
  watchOn,
} from '../../ledger/watched-chain.ts';
import { cutOfRemembered, passRestores, rewoundBefore } from '../../ledger/watched-restore.ts';
import { Unusable } from '../command.ts';
import { checkedEntry } from './check-entries.ts';

/** A ledger that is watched. */
export interface WatchedLedger {
  keys(): Promise<readonly ListedKey[]>;
  /** Undefined: there is no such org. */
  roots(orgId: string, after: number): Promise<readonly MerkleRoot[] | undefined>;
  /** Undefined: it shows none. */
  consistency(orgId: string, first: number, second: number): Promise<ConsistencyProof | undefined>;
  /** Time stamps behind the root of a sequence, in order. */
  timestamps(orgId: string, after: number): Promise<readonly ListedTimestamp[]>;
  /** Entries of roots in a log, behind the root of a sequence, in order. */
  logEntries(orgId: string, after: number): Promise<readonly ListedLogEntry[]>;
}

export interface WatchOptions {
  readonly ledger: WatchedLedger;
  readonly orgId: string;
  /** What was seen before; undefined: this is the first time. */
  readonly seen: WatchedChain | undefined;
  /** Keys that somebody has brought himself; undefined: those that were believed, at first those that are listed. */
  readonly pinned: readonly ListedKey[] | undefined;
  /** Keys of logs that are believed; undefined: nobody has said any. */
  readonly logKeys?: readonly LogKey[] | undefined;
  /** Restores that the root of a sequence, or one before it, says are accepted (decision 13.23); undefined: none is. */
  readonly acceptedRestore?: number | undefined;
  /** Keeps what was seen, page by page. */
  readonly save: (state: WatchedChain) => Promise<void>;
}

export interface Looked {
  readonly from: WatchedChain;
  readonly state: WatchedChain;
  /** Names of keys that are listed and not believed. */
  readonly strangers: readonly string[];
  /** Restores that were passed: all, where nothing was remembered, else those that are accepted. */
  readonly cuts: readonly CutSpan[];
}

/**
 * Looks once whether the history of a ledger goes on from where it was (decision 13.4). What does not fit is not saved,
 * so that it is found again. A declared restore is gone past when it is accepted, or when nothing was remembered.
 * @throws LedgerError for what does not fit; RestoreFound for a restore that nobody has accepted; and what the ledger
 * throws when it cannot be asked
 */
export async function lookAtLedger({ ledger, orgId, seen, pinned, logKeys, acceptedRestore = 0, save }: WatchOptions): Promise<Looked> {
  const listed = await ledger.keys();
  const known = { ...(seen ?? watchFrom(orgId, listed)), ...(pinned === undefined ? {} : { keys: pinned }) };
  // Somebody who brings the keys himself, and says that one has ended, believes nothing that it says of others.
  const retired = new Set(pinned?.flatMap(({ kid, not_after: end }) => (end === undefined ? [] : [kid])));
  const from = { ...known, keys: believedWith(known.keys, listed, retired) };
  let strangers = strangersAmong(from, listed);
  const { cut, ...begun } = await beginAt(ledger, from);
  let { answered, state } = begun;
  const compared = { seen: from.sequence, compared: state.sequence };
  const accepted = from.sequence === 0 ? Number.POSITIVE_INFINITY : Math.max(acceptedRestore, from.restored ?? 0);
  const cuts: CutSpan[] = [];
  let fresh = checkRemembered(state, answered);
  // Until nothing is answered: how many roots an answer has is the control plane's.
  while (answered.length > 0) {
    if (fresh.some(({ sig }) => !state.keys.some(({ kid }) => kid === sig.kid))) {
      // A key whose turn came since its list was read.
      const now = await ledger.keys();
      state = { ...state, keys: believedWith(state.keys, now, retired) };
      strangers = strangersAmong(state, now);
    }
    const on = watchOn(state, fresh);
    await checkTrees(ledger, state, on);
    const next = passRestores(on, fresh, accepted, compared);
    const stamp = await newestStamp(ledger, state, next, fresh);
    const entered = await newestEntry({ ledger, logKeys, retired }, next, answered);
    state = { ...next, stamp, ...(entered && { entered }) };
    cuts.push(...fresh.map(cutBy).filter((one) => one !== undefined));
    // Before the restore is passed what is remembered is what it went back from.
    if (state.sequence >= (cut?.sequence ?? 0)) await save(state);
    answered = await rootsBehind(ledger, state, state.sequence);
    fresh = answered;
  }
  if (cut !== undefined && state.sequence < cut.sequence)
    throw new LedgerError(`the ledger ends before root ${cut.sequence}, which it has just shown`);
  if (from.sequence === 0 && state.sequence === 0) await save(state);
  return { from, state, strangers, cuts };
}

/** From which root a look goes on: the remembered one, or where that was cut, an earlier one that was kept. */
async function beginAt(
  ledger: WatchedLedger,
  from: WatchedChain,
): Promise<{ readonly answered: readonly MerkleRoot[]; readonly state: WatchedChain; readonly cut: CutSpan | undefined }> {
  const answered = await rootsBehind(ledger, from, askedAfter(from));
  const cut = cutOfRemembered(from, answered);
  if (cut === undefined) return { answered, state: from, cut };
  const state = rewoundBefore(from, cut);
  return { answered: await rootsBehind(ledger, state, askedAfter(state)), state, cut };
}

/** @throws LedgerError when the new tree is not shown to go on from the one that is remembered */
async function checkTrees(ledger: WatchedLedger, before: WatchedChain, after: WatchedChain): Promise<void> {
  const growth = growthBetween(before, after);
  if (growth === undefined) return;
  const { first, second } = growth;
  checkGrowth(first, second, await ledger.consistency(after.org_id, first.sequence, second.sequence));
}

/**
 * The newest stamp of the roots of a page, each of which is checked.
 * @throws LedgerError for one that is of another root than it says
 */
async function newestStamp(
  ledger: WatchedLedger,
  before: WatchedChain,
  after: WatchedChain,
  fresh: readonly MerkleRoot[],
): Promise<SeenStamp | undefined> {
  const digests = new Map([[before.sequence, before.digest], ...fresh.map((root) => [root.sequence, rootDigest(root)] as const)]);
  let { stamp } = before;
  for (let last = stamp?.sequence ?? 0; last < after.sequence; ) {
    const stamps = await ledger.timestamps(after.org_id, last);
    const newest = stamps.at(-1);
    if (newest === undefined || newest.sequence <= last) break;
    for (const { sequence, token } of stamps) {
      const imprint = digests.get(sequence);
      // What was stamped before its root is remembered has nothing here to be compared with.
      if (imprint !== undefined) stamp = { sequence, time: checkTimeStamp(token, { imprint, trusted: undefined }).time };
    }
    last = newest.sequence;
  }
  return stamp;
}

/**
 * The newest entry in a log of these roots, each of which is checked.
 * @throws LedgerError for one that is of another root than it says, or does not stand in its log
 */
async function newestEntry(
  { ledger, logKeys, retired }: Pick<WatchOptions, 'ledger' | 'logKeys'> & { readonly retired: ReadonlySet<string> },
  { org_id: orgId, sequence, keys, entered: before }: WatchedChain,
  roots: readonly MerkleRoot[],
): Promise<SeenStamp | undefined> {
  const bySequence = new Map(roots.map((root) => [root.sequence, root]));
  let entered = before;
  for (let last = before?.sequence ?? 0; last < sequence; ) {
    const entries = await ledger.logEntries(orgId, last);
    const newest = entries.at(-1);
    if (newest === undefined || newest.sequence <= last) break;
    // A root is entered with the key of that moment, whose turn may have come since the list was read.
    const believed = believedWith(keys, await ledger.keys(), retired);
    for (const entry of entries) {
      const root = bySequence.get(entry.sequence);
      if (root !== undefined) entered = checkedEntry(entry, root, believed, logKeys);
    }
    last = newest.sequence;
  }
  return entered;
}

async function rootsBehind(
  ledger: WatchedLedger,
  { org_id: orgId, sequence }: WatchedChain,
  after: number,
): Promise<readonly MerkleRoot[]> {
  const roots = await ledger.roots(orgId, after);
  if (roots !== undefined) return roots;
  if (sequence === 0) throw new Unusable(`the control plane has no org ${orgId}`);
  throw new LedgerError(`there is no org ${orgId} any more, and root ${sequence} of it was there: its history is gone`);
}

const MAX_STATE_BYTES = 1024 * 1024;

/** What a watcher remembers from one run to the next. */
export class WatchStateFile {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Undefined: there is no such file.
   * @throws Unusable for one that is damaged: then nobody knows any more what was seen
   */
  async read(): Promise<WatchedChain | undefined> {
    try {
      if ((await stat(this.#path)).size > MAX_STATE_BYTES) throw new LedgerError(`it is larger than ${MAX_STATE_BYTES} bytes`);
      return readWatchedChain(unambiguousJson(await readFile(this.#path)));
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined;
      if (!(error instanceof LedgerError || error instanceof AmbiguousJsonError))
        throw new Unusable(`${this.#path}: ${messageOf(error)}`, { cause: error });
      throw new Unusable(
        `${this.#path} is damaged (${error.message}). Bring it back from a copy; or move it away and start again, which trusts what the control plane says now (a witness cosigns all the same only what goes on from what its key has cosigned)`,
        { cause: error },
      );
    }
  }

  /** A reader, or a power cut, sees the old state or the new one, also when several write. @throws Unusable */
  async write(state: WatchedChain): Promise<void> {
    const next = `${this.#path}.${randomUUID()}.next`;
    try {
      const file = await open(next, 'wx', 0o600);
      try {
        await file.writeFile(`${JSON.stringify(state, null, 2)}\n`);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(next, this.#path);
      const folder = await open(dirname(this.#path), 'r');
      await folder.sync().finally(() => folder.close());
    } catch (error) {
      await rm(next, { force: true }).catch(() => undefined);
      throw new Unusable(`${this.#path} cannot be written: ${messageOf(error)}`, { cause: error });
    }
  }
}
