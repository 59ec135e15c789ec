import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { NON_AI_MODES, type NonAiMode } from './calls.ts';

/** How long a proof runs: a tenth in CI, whole by default, an hour for the soak alone. */
export interface ProofSettings {
  readonly length: 'tenth' | 'full' | 'long';
  /**
   * Everything random is drawn from it, so that a failure can be repeated as far as the machine's timing allows. Of a
   * tenth it is the same unless it is given: CI is to say of a commit what it said of it before; what is new is looked
   * for at full length.
   */
  readonly seed: string;
  /** Another number of kills than the length asks for. */
  readonly rounds: number | undefined;
  /** Another number of seconds of soak. */
  readonly seconds: number | undefined;
  /** Another number of requests per second of soak. */
  readonly rate: number | undefined;
  /** `GW_PROXY_NON_AI` of the gateway under chaos; drawn when it is not given. */
  readonly nonAi: NonAiMode | undefined;
  /** The one parser that is to be fuzzed. */
  readonly parser: string | undefined;
}

const TENTH_SEED = 'tenth';

/**
 * Reads the arguments of a proof, the same for all of them.
 * @throws Error for an option or a choice that there is not
 */
export function proofSettings(args: readonly string[] = process.argv.slice(2)): ProofSettings {
  const { values } = parseArgs({
    args: [...args],
    options: {
      tenth: { type: 'boolean' },
      long: { type: 'boolean' },
      seed: { type: 'string' },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      rate: { type: 'string' },
      'non-ai': { type: 'string' },
      parser: { type: 'string' },
    },
  });
  const number = (text: string | undefined): number | undefined => (text === undefined ? undefined : Number(text));
  return {
    length: values.tenth ? 'tenth' : values.long ? 'long' : 'full',
    seed: values.seed ?? (values.tenth ? TENTH_SEED : String(randomInt(1_000_000))),
    rounds: number(values.rounds),
    seconds: number(values.seconds),
    rate: number(values.rate),
    nonAi: choice('--non-ai', values['non-ai'], NON_AI_MODES),
    parser: values.parser,
  };
}

function choice<T extends string>(flag: string, value: string | undefined, allowed: readonly T[]): T | undefined {
  const found = allowed.find((one) => one === value);
  if (found === undefined && value !== undefined) throw new Error(`${flag} takes one of ${allowed.join(', ')}`);
  return found;
}
