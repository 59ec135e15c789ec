import { hourName, quarterNames, SPEND_DAY, SPEND_PROVIDER_DAY, type SpendKind, spendHourKeyOf, USAGE_QUARTER } from './counter-spaces.ts';

/** What an addition to another counter adds to one of `spend_hour`. */
export interface SpendOfHour {
  readonly key: string;
  /** Pico-dollars; negative where it is taken from the calls that name no project. */
  readonly pico: bigint;
}

const QUARTERS: ReadonlySet<string> = new Set([0, 1, 2, 3].map((quarter) => quarterNames(quarter).cost_pico));
const HOURS: ReadonlyMap<string, string> = new Map(
  Array.from({ length: 24 }, (_, hour) => [hourName(hour), `T${String(hour).padStart(2, '0')}`]),
);
const NONE: readonly never[] = [];

/**
 * What one addition to a counter adds to the spend by hour of each scope. It is linear: of sums it is the sum. All
 * spend is that of calls without a project, until the counters of named projects say otherwise, so that what no project
 * has is the rest of the org's.
 * @param key of the counter; its parts are encoded, and stay so
 */
export function spendByHour(
  space: string,
  key: string,
  amounts: Iterable<readonly [name: string, amount: bigint]>,
): readonly SpendOfHour[] {
  if (space === USAGE_QUARTER) return ofQuarters(key, amounts);
  if (space !== SPEND_DAY && space !== SPEND_PROVIDER_DAY) return NONE;
  const [day = '', org = '', of = ''] = key.split('|');
  const found: SpendOfHour[] = [];
  const add = (kind: SpendKind, id: string, hour: string, pico: bigint): void => {
    if (pico !== 0n) found.push({ key: spendHourKeyOf(org, kind, id, `${day}${hour}`), pico });
  };
  for (const [hour, pico] of hoursOf(amounts)) {
    if (space === SPEND_PROVIDER_DAY) add('provider', of, hour, pico);
    else if (of !== '') {
      add('project', of, hour, pico);
      add('project', '', hour, -pico);
    }
  }
  return found;
}

function ofQuarters(key: string, amounts: Iterable<readonly [name: string, amount: bigint]>): readonly SpendOfHour[] {
  let pico = 0n;
  for (const [name, amount] of amounts) if (QUARTERS.has(name)) pico += amount;
  if (pico === 0n) return NONE;
  const [org = '', hour = '', workload = '', connector = ''] = key.split('|');
  return [
    { key: spendHourKeyOf(org, 'org', '', hour), pico },
    { key: spendHourKeyOf(org, 'project', '', hour), pico },
    { key: spendHourKeyOf(org, 'workload', workload, hour), pico },
    { key: spendHourKeyOf(org, 'provider', connector, hour), pico },
  ];
}

/** What a day's row has of no hour counts in its first one: windows of a day or more begin there. */
function hoursOf(amounts: Iterable<readonly [name: string, amount: bigint]>): ReadonlyMap<string, bigint> {
  const hours = new Map<string, bigint>();
  let rest = 0n;
  for (const [name, amount] of amounts) {
    const hour = HOURS.get(name);
    if (hour !== undefined) {
      hours.set(hour, (hours.get(hour) ?? 0n) + amount);
      rest -= amount;
    } else if (name === 'cost_pico') rest += amount;
  }
  if (rest !== 0n) hours.set('T00', (hours.get('T00') ?? 0n) + rest);
  return hours;
}
