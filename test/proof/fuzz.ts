/*
 * A million hostile inputs for each parser that reads what strangers send: none may throw what is no refusal, break a
 * rule of its parser, take more than a quarter of a second, or fill the memory. What did is kept below build/fuzz; once
 * it is understood it moves to test/cases/fuzz, where every test run replays it.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import type { FuzzTarget } from '../fuzz/target.ts';
import { FUZZ_TARGETS } from '../fuzz/targets.ts';
import { type Checks, prove } from './checks.ts';
import { Lane } from './fuzz-lane.ts';
import type { Finding, FuzzResult } from './fuzz-worker.ts';
import { proofSettings } from './settings.ts';

/**
 * A tenth takes no longer than this: each parser gets its share of the time that is left, and how far it came is
 * printed.
 */
const TENTH_LIMIT_MS = 50_000;
const MIN_LIMIT_MS = 1_000;
/** Of the whole process, buffers outside of the heap included. */
const MAX_RSS_MB = 1_024;

await prove(async (checks, cleanUp) => {
  const { seed, length, rounds, parser } = proofSettings();
  const targets = parser === undefined ? FUZZ_TARGETS : FUZZ_TARGETS.filter(({ name }) => name === parser);
  if (targets.length === 0) throw new Error(`--parser takes one of ${FUZZ_TARGETS.map(({ name }) => name).join(', ')}`);
  const inputs = (target: FuzzTarget): number => rounds ?? Math.ceil(target.inputs / (length === 'tenth' ? 10 : 1));
  checks.note(`fuzz: ${targets.length} parsers, seed ${seed}`);
  const workers = availableParallelism();
  const end = length === 'tenth' && rounds === undefined ? performance.now() + TENTH_LIMIT_MS : Number.POSITIVE_INFINITY;
  // The dear ones first, so that none of them runs alone at the end.
  const waiting = [...targets.filter(({ dear }) => dear), ...targets.filter(({ dear }) => !dear)];
  const work = async (): Promise<void> => {
    const lane = new Lane(cleanUp);
    for (let target = waiting.shift(); target !== undefined; target = waiting.shift()) {
      const limitMs = Math.max(MIN_LIMIT_MS, ((end - performance.now()) * workers) / (waiting.length + workers));
      report(await lane.run({ target: target.name, inputs: inputs(target), limitMs, seed: `${seed}/${target.name}` }), checks);
    }
    await lane.end();
  };
  await Promise.all(Array.from({ length: workers }, work));
  const rss = process.resourceUsage().maxRSS / 1_024;
  checks.check(`memory stays bounded: at most ${rss.toFixed(0)} MiB (limit ${MAX_RSS_MB} MiB)`, rss <= MAX_RSS_MB ? [] : ['it grew']);
});

function report({ job, inputs, findings, labels, ms, slowestMs }: FuzzResult, checks: Checks): void {
  const ofAll = inputs === job.inputs ? `${inputs}` : `${inputs} of ${job.inputs}`;
  const perSecond = ((inputs * 1_000) / Math.max(1, ms)).toFixed(0);
  checks.check(`${job.target}: ${ofAll} inputs, ${perSecond} a second, ${labels} outcomes, the slowest took ${slowestMs.toFixed(0)} ms`, [
    ...findings.map((finding) => `${save(job.target, finding)}: ${finding.what.slice(0, 600)}`),
    ...(labels > 1 ? [] : ['all of its inputs ended the same: nothing was tried']),
  ]);
}

/** Keeps an input; where it is. */
function save(target: string, { input }: Finding): string {
  const folder = join(packageRoot(), 'build', 'fuzz', target);
  mkdirSync(folder, { recursive: true });
  const file = createHash('sha256').update(input).digest('hex').slice(0, 16);
  writeFileSync(join(folder, file), input);
  return join('build', 'fuzz', target, file);
}
