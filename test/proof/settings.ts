import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';

/** How long a proof runs: a tenth in CI, whole by default, an hour for the soak alone. */
export interface ProofSettings {
  readonly length: 'tenth' | 'full' | 'long';
  /** Everything random is drawn from it, so that a failure can be repeated as far as the machine's timing allows. */
  readonly seed: string;
  /** Another number of kills than the length asks for. */
  readonly rounds: number | undefined;
  /** Another number of seconds of soak. */
  readonly seconds: number | undefined;
  /** Another number of requests per second of soak. */
  readonly rate: number | undefined;
}

/** Reads the arguments of a proof, the same for all of them. */
export function proofSettings(): ProofSettings {
  const { values } = parseArgs({
    options: {
      tenth: { type: 'boolean' },
      long: { type: 'boolean' },
      seed: { type: 'string' },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      rate: { type: 'string' },
    },
  });
  const number = (text: string | undefined): number | undefined => (text === undefined ? undefined : Number(text));
  return {
    length: values.tenth ? 'tenth' : values.long ? 'long' : 'full',
    seed: values.seed ?? String(randomInt(1_000_000)),
    rounds: number(values.rounds),
    seconds: number(values.seconds),
    rate: number(values.rate),
  };
}
