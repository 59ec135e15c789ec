import { runLoad } from './processes.ts';
import { CHAT, STREAM, type System } from './systems.ts';

/** What is sent, and how many answers it takes until the compiler is through. */
export const KINDS = [
  { name: '1 KB chat call', params: CHAT, warmUp: 15_000 },
  { name: '50-event stream', params: STREAM, warmUp: 1_500 },
];
const WARM_UP_SECONDS = 2;
/** On a machine that is busy with other things, warming up ends here. */
const MOST_WARM_UPS = 8;

export interface Figures {
  /** Microseconds of CPU per request; 0 where no process of ours is between. */
  readonly cpu: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  readonly perSecond: number;
}

export async function measure(system: System, params: object, concurrency: number, seconds: number): Promise<Figures> {
  const before = system.process?.cpuMicros() ?? 0;
  const load = await runLoad({ ...system.job(params), concurrency, seconds });
  const used = (system.process?.cpuMicros() ?? 0) - before;
  return { cpu: used / load.requests, p50: load.p50, p99: load.p99, perSecond: load.perSecond };
}

export async function warmUp(system: System, params: object, requests: number): Promise<void> {
  for (let done = 0, runs = 0; done < requests && runs < MOST_WARM_UPS; runs += 1) {
    done += (await runLoad({ ...system.job(params), concurrency: 16, seconds: WARM_UP_SECONDS })).requests;
  }
}

/** @param share 0: the least, 0.5: the median */
export function quantile(numbers: readonly number[], share: number): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function median(numbers: readonly number[]): number {
  return quantile(numbers, 0.5);
}
