import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../src/base/lib/package-root.ts';
import type { Measured } from './processes.ts';
import { runLoad } from './processes.ts';
import { CHAT, STREAM, type System, startDoors, startUpstream } from './systems.ts';
import { table } from './table.ts';

const KINDS = [
  { name: '1 KB chat call', params: CHAT, warmUp: 15_000 },
  { name: '50-event stream', params: STREAM, warmUp: 3_000 },
];
const CONCURRENCY = 16;

type Door = System & { readonly process: Measured };

/** Microseconds of CPU per request in one burst. */
async function burst(door: Door, params: object, seconds: number): Promise<{ cpu: number; requests: number }> {
  const before = door.process.cpuMicros();
  const { requests } = await runLoad({ ...door.job(params), concurrency: CONCURRENCY, seconds });
  return { cpu: (door.process.cpuMicros() - before) / requests, requests };
}

/**
 * Two gateways, that of another checkout and this one, both running, with bursts in turn: what else the machine does falls on neighbours alike, so that the median of
 * their ratios tells apart what two runs of the bench cannot. Prints a table; ratios below 1 are this one's gain.
 * @param root the other checkout, built
 */
export async function compare(dir: string, root: string, { rounds, seconds }: { rounds: number; seconds: number }): Promise<string> {
  const upstream = await startUpstream(dir);
  const start = (name: string, from: string) => {
    mkdirSync(join(dir, name));
    return startDoors(join(dir, name), from, upstream);
  };
  const [others, own] = [await start('other', root), await start('own', packageRoot())];
  const sections: string[] = [];
  try {
    for (const { name, params, warmUp } of KINDS) {
      const rows: string[][] = [];
      for (const [at, door] of own.entries()) {
        const pair = [others[at] as Door, door] as const;
        for (const one of pair) for (let done = 0; done < warmUp / 2; ) done += (await burst(one, params, 2)).requests;
        rows.push([door.name, ...figures(await bursts(pair, { params, rounds, seconds }))]);
      }
      sections.push(
        `## ${name}\n\n${table(['door', 'other, least', 'own, least', 'other, median', 'own, median', 'ratio, median', 'from', 'to'], rows)}`,
      );
      process.stdout.write(`${sections.at(-1)}\n`);
    }
  } finally {
    for (const one of new Set([...others, ...own].map((door) => door.process))) await one.stop();
    await upstream.process.stop();
  }
  return sections.join('\n');
}

type Pairs = readonly (readonly [other: number, own: number])[];

async function bursts(
  [other, own]: readonly [Door, Door],
  { params, rounds, seconds }: { params: object; rounds: number; seconds: number },
): Promise<Pairs> {
  const pairs: (readonly [number, number])[] = [];
  for (let round = 0; round < rounds; round += 1) {
    // Whoever comes first is the other one in every second round.
    const [first, second] = round % 2 === 0 ? [other, own] : [own, other];
    const [a, b] = [(await burst(first, params, seconds)).cpu, (await burst(second, params, seconds)).cpu];
    pairs.push(round % 2 === 0 ? [a, b] : [b, a]);
  }
  return pairs;
}

/** Of all pairs: the least and the median of both, the median of their ratios and its quartiles. */
function figures(pairs: Pairs): readonly string[] {
  const sorted = (numbers: readonly number[]) => [...numbers].sort((a, b) => a - b);
  const at = (numbers: readonly number[], share: number) =>
    numbers[Math.min(numbers.length - 1, Math.floor(numbers.length * share))] ?? Number.NaN;
  const [others, own] = [sorted(pairs.map(([other]) => other)), sorted(pairs.map((pair) => pair[1]))];
  const ratios = sorted(pairs.map(([other, mine]) => mine / other));
  const micros = [at(others, 0), at(own, 0), at(others, 0.5), at(own, 0.5)].map((one) => one.toFixed(0));
  return [...micros, ...[0.5, 0.25, 0.75].map((share) => at(ratios, share).toFixed(3))];
}
