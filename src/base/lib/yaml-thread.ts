import { type Clock, systemClock } from './clock.ts';
import type { ErrorDetail } from './gateway-error.ts';
import { inThread } from './in-thread.ts';
import { inSlices } from './slices.ts';
import { Turn } from './turn.ts';
import { inFewWords, type ParsedYaml, parseYaml, unreadYaml, unsoundYaml } from './yaml.ts';
import { type PackedYaml, unpackYaml } from './yaml-packed.ts';

/** A text, and the name by which its mistakes are told. */
export interface YamlText {
  readonly text: string;
  readonly file: string;
}

/** What the thread answers for a text: its tree, where it is sound. */
export interface ReadInThread {
  readonly errors: readonly ErrorDetail[];
  readonly packed?: PackedYaml;
}

/**
 * Texts that have no more characters together are read at once: that takes about 20 ms, and a thread costs more than it
 * spares.
 */
export const MAX_AT_ONCE = 16_384;
/** For each text. The largest ones take some seconds, on a machine that does much else many times that. */
export const READ_LIMIT_MS = 120_000;
/** Megabytes; the heaviest texts that are read at all need most of it. */
const MAX_MEMORY_MB = 1_024;
const WORKER = new URL('./yaml-worker.js', import.meta.url);

export interface YamlThreadOptions {
  readonly clock?: Clock;
  /** What runs in the thread. */
  readonly worker?: URL;
  /** Megabytes of its heap. */
  readonly maxMemoryMb?: number;
}

/**
 * Parses as {@link parseYaml}, and serves others meanwhile: texts that are not small are read in a thread, which is
 * begun for them and ends behind the last one. Never rejects. When the thread dies or hangs, what is not read yet has
 * an error of code `unreadable`.
 * @returns the trees in the order of the texts
 */
export async function readYaml(texts: readonly YamlText[], options: YamlThreadOptions = {}): Promise<readonly ParsedYaml[]> {
  const length = texts.reduce((sum, { text }) => sum + text.length, 0);
  if (length <= MAX_AT_ONCE) return texts.map(({ text, file }) => parseYaml(text, file));
  const read: ReadInThread[] = [];
  const fault = await threads.take(() => readInThread(texts, read, options));
  const trees: ParsedYaml[] = [];
  for (const [i, { file }] of texts.entries()) {
    const found = read[i];
    if (found === undefined) trees.push(unreadYaml(file, i === read.length ? fault : `${texts[read.length]?.file} ended the reading`));
    else if (found.packed === undefined) trees.push(unsoundYaml(found.errors));
    else trees.push({ root: await inSlices(unpackYaml(found.packed)), errors: found.errors });
  }
  return trees;
}

/** One thread at a time: each may need hundreds of megabytes. */
const threads = new Turn();

/** Fills `read` in the order of the texts. @returns why some of them are missing; empty when none is */
async function readInThread(texts: readonly YamlText[], read: ReadInThread[], options: YamlThreadOptions): Promise<string> {
  const { clock = systemClock, worker = WORKER, maxMemoryMb = MAX_MEMORY_MB } = options;
  const fault = await inThread({
    clock,
    worker,
    maxMemoryMb,
    limitMs: READ_LIMIT_MS,
    message: texts.map(({ text, file }) => ({ text, file })),
    onAnswer: (parsed) => read.push(parsed as ReadInThread) === texts.length,
  });
  return fault === undefined ? '' : inFewWords(fault);
}
