import type { CuttableLink } from '../support/cuttable-link.ts';
import { sleep } from './checks.ts';
import type { Seeded } from './seeded.ts';

/** What befalls a part of the place, at what moment of the round, and for how long. */
export interface PlannedFault {
  readonly what: 'kill' | 'cut' | 'hold' | 'delay';
  readonly part: string;
  readonly afterMs: number;
  readonly forMs: number;
}

/** Something that dies at once and comes back when it is asked to. */
export interface Mortal {
  readonly name: string;
  kill(): Promise<void>;
  start(): Promise<void>;
}

const LINK_FAULTS = ['cut', 'hold', 'delay'] as const;
const LATEST_MS = 1_500;
const LONGEST_MS = 2_500;
/** A piece that passes late passes so much later. */
const MOST_DELAY_MS = 120;

/** The faults of a round: each part has its own turn or none, at least one has, and turns overlap as they fall. */
export function drawFaults(random: Seeded, mortals: readonly string[], links: readonly string[]): readonly PlannedFault[] {
  const turn = (part: string, what: PlannedFault['what']): PlannedFault => ({
    what,
    part,
    afterMs: random.between(0, LATEST_MS),
    forMs: random.between(50, LONGEST_MS),
  });
  const drawn = [
    ...mortals.flatMap((part) => (random.chance(0.6) ? [turn(part, 'kill')] : [])),
    ...links.flatMap((part) => (random.chance(0.7) ? [turn(part, random.pick(LINK_FAULTS))] : [])),
  ];
  return drawn.length > 0 ? drawn : [turn(random.pick(mortals), 'kill')];
}

/** Lets the faults of a round happen; when it resolves everything is back. */
export async function carryOutFaults(
  plan: readonly PlannedFault[],
  mortals: readonly Mortal[],
  links: ReadonlyMap<string, CuttableLink>,
  random: Seeded,
): Promise<void> {
  const delays = plan.map(() => random.between(5, MOST_DELAY_MS));
  await Promise.all(
    plan.map(async ({ what, part, afterMs, forMs }, index) => {
      await sleep(afterMs);
      if (what === 'kill') {
        const mortal = mortals.find(({ name }) => name === part);
        await mortal?.kill();
        await sleep(forMs);
        await mortal?.start();
        return;
      }
      const link = links.get(part);
      if (what === 'cut') link?.cut();
      else if (what === 'hold') link?.hold();
      else link?.delay(delays[index] ?? 0);
      await sleep(forMs);
      link?.resume();
    }),
  );
}

export function describeFaults(plan: readonly PlannedFault[]): string {
  return [...plan]
    .sort((one, other) => one.afterMs - other.afterMs)
    .map(({ what, part, afterMs, forMs }) => `${what} ${part} at ${afterMs} for ${forMs} ms`)
    .join(', ');
}
