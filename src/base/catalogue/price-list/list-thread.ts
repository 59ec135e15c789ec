import type { Clock } from '../../lib/clock.ts';
import { inThread } from '../../lib/in-thread.ts';
import { sha256Hex } from '../../lib/sha256.ts';
import { shorten } from '../../lib/text.ts';
import { type JudgedList, judgeList, type ListToJudge } from './judge-list.ts';

/**
 * The published list takes some tenths of a second, two seconds with hundreds of new models, the largest that is taken
 * some seconds, on a machine that does much else many times that.
 */
export const JUDGE_LIMIT_MS = 60_000;
/** Megabytes. */
const MAX_MEMORY_MB = 1_024;
const WORKER = new URL('./list-worker.js', import.meta.url);
/**
 * A list of which the text and what it is compared with have no more is judged at once: a thread costs more than it
 * spares.
 */
const MAX_AT_ONCE = 16_384;
const MODELS_AT_ONCE = 50;
const LONGEST_REASON = 512;

export interface ListThreadOptions {
  readonly clock: Clock;
  /** What runs in the thread. */
  readonly worker?: URL;
  readonly maxMemoryMb?: number;
}

/**
 * As {@link judgeList}, and calls are served meanwhile. Never rejects: where the thread dies or hangs, that is what is
 * wrong with the list.
 */
export async function judgeInThread(
  list: ListToJudge,
  { clock, worker = WORKER, maxMemoryMb = MAX_MEMORY_MB }: ListThreadOptions,
): Promise<JudgedList> {
  if (isSmall(list)) return judgeList(list);
  let judged: JudgedList | undefined;
  const onAnswer = (answer: unknown): boolean => {
    judged = answer as JudgedList;
    return true;
  };
  const fault = await inThread({ clock, worker, maxMemoryMb, limitMs: JUDGE_LIMIT_MS, message: list, onAnswer });
  return judged ?? unread(list, fault ?? 'nothing came of it');
}

function isSmall({ text, before = [] }: ListToJudge): boolean {
  return text.length <= MAX_AT_ONCE && before.reduce((sum, { models }) => sum + models.length, 0) <= MODELS_AT_ONCE;
}

function unread({ text, file }: ListToJudge, why: string): JudgedList {
  const message = `cannot be read: ${shorten(why, LONGEST_REASON)}`;
  return {
    version: undefined,
    date: undefined,
    sha256: sha256Hex(text),
    problems: [{ path: '', message, file }],
    warnings: [],
    providers: [],
    inForce: [],
    diff: { added: [], removed: [], changed: [] },
    held: [],
  };
}
