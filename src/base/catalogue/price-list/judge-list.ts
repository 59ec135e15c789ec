import type { ErrorDetail } from '../../lib/gateway-error.ts';
import { sha256Hex } from '../../lib/sha256.ts';
import { heldNames, withHeldNames } from '../prices/held-names.ts';
import type { PriceGrounds } from '../prices/price-table.ts';
import { diffLists, type ListDiff, type ListedModel, type RateChange, withHeld } from './list-diff.ts';
import type { ListProvider } from './list-shape.ts';
import { type ListHead, readPriceList } from './read-list.ts';

/** The text of a list, and what it is compared with. JSON data. */
export interface ListToJudge {
  readonly text: string;
  /** For messages. */
  readonly file: string;
  /** It was made of others by this program (`withHeld`), and names that were kept for a model stand beside it. */
  readonly kept?: true;
  /** What is in force before it. Without it nothing is held. */
  readonly before?: readonly ListProvider[] | undefined;
  /** What prices names beside the lists; without it names are looked for in the lists alone. */
  readonly grounds?: PriceGrounds;
  /** The models whose held changes have had their yes. */
  readonly accepted?: readonly ListedModel[] | 'all';
}

/** What became of a list when it was read and compared. JSON data. */
export interface JudgedList extends ListHead {
  /** Of the text, lower-case hex. */
  readonly sha256: string;
  /** What is wrong with it; a list with any of these must not be used. */
  readonly problems: readonly ErrorDetail[];
  readonly warnings: readonly string[];
  /** As the text has them. */
  readonly providers: readonly ListProvider[];
  /** With the old value of what is held: what may come into force. The same where nothing is held. */
  readonly inForce: readonly ListProvider[];
  /** What the text says that the list before it does not. */
  readonly diff: ListDiff;
  /** What of it has had no yes. */
  readonly held: readonly RateChange[];
}

const NO_GROUNDS: PriceGrounds = { lanes: [], corrections: [], own: [] };
const NO_DIFF: ListDiff = { added: [], removed: [], changed: [] };

/** Reads a list and says how much of it may hold (decision 6.16). Pure; takes as long as the list is large. */
export function judgeList({ text, file, kept, before, grounds = NO_GROUNDS, accepted = [] }: ListToJudge): JudgedList {
  const { providers, problems: found, warnings, version, date } = readPriceList(text, { file, regexes: true, kept: kept ?? false });
  // Sound and empty, such as `[]`: with it every model would be charged at the default.
  const isEmpty = found.length === 0 && providers.every(({ models }) => models.length === 0);
  const problems = isEmpty ? [{ path: '', message: 'it has no models', file }] : found;
  const read = { version, date, sha256: sha256Hex(text), problems, warnings, providers };
  if (problems.length > 0 || before === undefined) return { ...read, inForce: providers, diff: NO_DIFF, held: [] };
  const diff = compared(before, providers, grounds);
  if (!diff.changed.some(({ held }) => held)) return { ...read, inForce: providers, diff, held: [] };
  const isAccepted = (change: ListedModel): boolean => accepted === 'all' || accepted.some((one) => isSame(one, change));
  const inForce = withHeldNames(before, withHeld(before, providers, isAccepted), grounds, isAccepted);
  return { ...read, inForce, diff, held: compared(inForce, providers, grounds).changed.filter((change) => change.held) };
}

function compared(before: readonly ListProvider[], after: readonly ListProvider[], grounds: PriceGrounds): ListDiff {
  const diff = diffLists(before, after);
  return { ...diff, changed: [...diff.changed, ...heldNames(before, after, grounds)] };
}

function isSame(one: ListedModel, other: ListedModel): boolean {
  return one.provider === other.provider && one.model === other.model;
}
