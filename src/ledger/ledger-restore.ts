import { canonicalJson } from '../base/json/jcs.ts';
import { isJsonObject, type JsonObject } from '../base/json/json-object.ts';
import { parseTime } from '../base/lib/clock.ts';
import { sha256Hex } from '../base/lib/sha256.ts';
import { LedgerError, textOf, wholeNumberOf } from './ledger-error.ts';

/**
 * That a control plane goes on from a backup (decision 13.23): what the first root behind it says, and signs with all
 * else.
 */
export interface LedgerRestore {
  /** How many restores this data folder knows of, with this one. */
  readonly epoch: number;
  /** The last root that the backup had; 0: none. */
  readonly from_sequence: number;
  /** When somebody declared it, RFC 3339. */
  readonly at: string;
  /** What he said of it. */
  readonly reason?: string;
}

/** A restore, and the root that signs it: sequences between the two were cut. */
export interface CutSpan extends LedgerRestore {
  /** Of the root. */
  readonly sequence: number;
  /** Key that has signed it. */
  readonly kid: string;
}

/** Something was signed, and stands in a span that a restore has cut: no fork, and nothing of the ledger as it is. */
export class CutSpanError extends LedgerError {}

/**
 * The member of a root, checked as far as one root shows it; undefined: it says nothing of a restore.
 * @throws LedgerError
 */
export function restoreIn(root: JsonObject, sequence: number, what: string): LedgerRestore | undefined {
  const value = root['restored'];
  if (value === undefined) return undefined;
  const member = `${what}: restored`;
  if (!isJsonObject(value)) throw new LedgerError(`${member} is not an object`);
  const from = wholeNumberOf(value, 'from_sequence', 0, member);
  const at = textOf(value, 'at', member);
  if (parseTime(at) === undefined) throw new LedgerError(`${member}: at is no time, as RFC 3339 writes it`);
  if (sequence <= from + 1) throw new LedgerError(`${member}: it cuts nothing between root ${from} and root ${sequence}`);
  return {
    ...value,
    epoch: wholeNumberOf(value, 'epoch', 1, member),
    from_sequence: from,
    at,
    ...(value['reason'] === undefined ? {} : { reason: textOf(value, 'reason', member) }),
  };
}

/** What a root cuts; undefined: nothing. */
export function cutBy({
  sequence,
  restored,
  sig,
}: {
  readonly sequence: number;
  readonly restored?: LedgerRestore;
  readonly sig: { readonly kid: string };
}): CutSpan | undefined {
  if (restored === undefined) return undefined;
  const { epoch, from_sequence, at, reason } = restored;
  return { sequence, from_sequence, at, epoch, ...(reason === undefined ? {} : { reason }), kid: sig.kid };
}

/** The cut that a sequence stands in; undefined: none of these. */
export function cutOver(cuts: readonly CutSpan[], sequence: number): CutSpan | undefined {
  return cuts.find((cut) => cut.from_sequence < sequence && sequence < cut.sequence);
}

/** Which span was cut, when, and by whose word. */
export function cutText({ from_sequence: from, sequence, at, reason, kid }: CutSpan): string {
  const why = reason === undefined ? '' : ` (${reason})`;
  const span =
    from === 0
      ? `whatever was signed before root ${sequence} is cut: the backup had no root`
      : `roots ${from + 1} to ${sequence - 1} are cut: the backup ended with root ${from}`;
  return `${span}; declared at ${at}${why}, signed in root ${sequence} with ${kid}`;
}

/**
 * The leaf that stands for a restore in the tree, so that a ledger shows it before a record comes: SHA-256 of the RFC
 * 8785 form of what is declared. 32 bytes.
 */
export function restoreLeaf(orgId: string, digest: string, { epoch, from_sequence, at, reason }: LedgerRestore): Buffer {
  const statement = { schema: 'gw.ledger_restore.v1', org_id: orgId, from_sequence, prev_root_hash: digest, epoch, at };
  return Buffer.from(sha256Hex(canonicalJson(reason === undefined ? statement : { ...statement, reason })), 'hex');
}
