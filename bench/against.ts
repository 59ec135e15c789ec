import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../src/base/lib/package-root.ts';
import { KINDS, measure, median, quantile, warmUp } from './measure.ts';
import { type Door, startDoors, startUpstream } from './systems.ts';
import { table } from './table.ts';

const CONCURRENCY = 16;
const HEAD = ['door', 'other, least', 'own, least', 'other, median', 'own, median', 'ratio, median', 'from', 'to'];

interface Rounds {
  readonly rounds: number;
  readonly seconds: number;
}

/**
 * Two gateways, that of another checkout and this one, both running, with bursts in turn: what else the machine does
 * falls on neighbours alike, so that the median of their ratios tells apart what two runs of the bench cannot. Prints
 * tables; ratios below 1 are this one's gain.
 * @param root the other checkout, built
 */
export async function compare(dir: string, root: string, times: Rounds): Promise<void> {
  const upstream = await startUpstream(dir);
  const start = (name: string, from: string) => {
    mkdirSync(join(dir, name));
    return startDoors(join(dir, name), from, upstream);
  };
  const [others, own] = [await start('other', root), await start('own', packageRoot())];
  try {
    for (const kind of KINDS) {
      const rows: string[][] = [];
      for (const [at, door] of own.entries()) {
        const pair = [others[at] as Door, door] as const;
        for (const one of pair) await warmUp(one, kind.params, kind.warmUp);
        rows.push([door.name, ...figures(await bursts(pair, kind.params, times))]);
      }
      process.stdout.write(`## ${kind.name}\n\n${table(HEAD, rows)}\n`);
    }
  } finally {
    for (const one of new Set([...others, ...own].map((door) => door.process))) await one.stop();
    await upstream.process.stop();
  }
}

/** Microseconds of CPU per request. */
type Pairs = readonly (readonly [other: number, own: number])[];

async function bursts([other, own]: readonly [Door, Door], params: object, { rounds, seconds }: Rounds): Promise<Pairs> {
  const burst = async (door: Door) => (await measure(door, params, CONCURRENCY, seconds)).cpu;
  const pairs: (readonly [number, number])[] = [];
  for (let round = 0; round < rounds; round += 1) {
    // Whoever comes first is the other one in every second round.
    const [first, second] = round % 2 === 0 ? [other, own] : [own, other];
    const [a, b] = [await burst(first), await burst(second)];
    pairs.push(round % 2 === 0 ? [a, b] : [b, a]);
  }
  return pairs;
}

/** Of all pairs: the least and the median of both, the median of their ratios and its quartiles. */
function figures(pairs: Pairs): readonly string[] {
  const [others, own] = [pairs.map(([other]) => other), pairs.map((pair) => pair[1])];
  const ratios = pairs.map(([other, mine]) => mine / other);
  const micros = [quantile(others, 0), quantile(own, 0), median(others), median(own)].map((one) => one.toFixed(0));
  return [...micros, ...[0.5, 0.25, 0.75].map((share) => quantile(ratios, share).toFixed(3))];
}
