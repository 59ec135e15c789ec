import type { YamlNode } from '../../base/lib/yaml.ts';
import type { Problems, SourcePlace } from './problems.ts';

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;
/** 1970-01-01 was a Thursday. */
export const DAYS = ['thu', 'fri', 'sat', 'sun', 'mon', 'tue', 'wed'] as const;
/** As people count. */
const WEEK = [...DAYS.slice(4), ...DAYS.slice(0, 4)];
const DATE = /^\d{4}-\d{2}-\d{2}/;
const CLOCK = /^([01]\d|2[0-3]):([0-5]\d)$/;

/**
 * Reads the literal of `between` (policy.md 11): `{days: [mon, …], from: "08:00", to: "18:00"}` in UTC, each part
 * optional, `to` excluded. A window with `from` after `to` spans midnight and belongs to the day on which it began.
 * @returns a test of milliseconds since the epoch, or undefined after adding a problem
 */
export function readTimeWindow(node: YamlNode, place: SourcePlace, problems: Problems): ((epochMs: number) => boolean) | undefined {
  const map = problems.map(node, place, 'between');
  if (map === undefined) return undefined;
  let days: ReadonlySet<number> | undefined;
  let from: number | undefined;
  let to: number | undefined;
  let sound = map.entries.length > 0;
  if (!sound) problems.add(place, node, 'empty', 'between needs days, from or to');
  const keep = <T>(value: T | undefined): T | undefined => {
    if (value === undefined) sound = false;
    return value;
  };
  problems.members(
    map,
    place,
    {
      days: ({ value }, at) => {
        days = keep(readDays(value, at, problems));
      },
      from: ({ value }, at) => {
        from = keep(readClock(value, at, problems, false));
      },
      to: ({ value }, at) => {
        to = keep(readClock(value, at, problems, true));
      },
    },
    'unknown_key',
    'key of between',
  );
  if (from !== undefined && from === to) {
    problems.add(place, node, 'bad_value', 'from and to are the same: no time is between them');
    sound = false;
  }
  return sound ? windowTest(days, from ?? 0, to ?? DAY_MS) : undefined;
}

function windowTest(days: ReadonlySet<number> | undefined, from: number, to: number): (epochMs: number) => boolean {
  const onDay = (day: number) => days === undefined || days.has(((day % 7) + 7) % 7);
  return (epochMs) => {
    const day = Math.floor(epochMs / DAY_MS);
    const ofDay = epochMs - day * DAY_MS;
    if (from < to) return ofDay >= from && ofDay < to && onDay(day);
    return ofDay >= from ? onDay(day) : ofDay < to && onDay(day - 1);
  };
}

function readDays(node: YamlNode, place: SourcePlace, problems: Problems): ReadonlySet<number> | undefined {
  const items = problems.items(node, place, 'days');
  if (items === undefined) return undefined;
  if (items.length === 0) problems.add(place, node, 'empty', 'days is empty');
  const days = new Set<number>();
  items.forEach((item, i) => {
    const name = problems.scalar(item, place.at(i), 'a day')?.source;
    if (name === undefined) return;
    const day = (DAYS as readonly string[]).indexOf(name);
    if (day === -1) problems.unknown(place.at(i), item, 'bad_value', 'day', name, WEEK);
    else days.add(day);
  });
  return days.size > 0 ? days : undefined;
}

function readClock(node: YamlNode, place: SourcePlace, problems: Problems, midnightEnds: boolean): number | undefined {
  const text = node.kind === 'scalar' ? node.source : '';
  if (midnightEnds && text === '24:00') return DAY_MS;
  const match = CLOCK.exec(text);
  if (match !== null) return (Number(match[1]) * 60 + Number(match[2])) * MINUTE_MS;
  problems.add(
    place,
    node,
    'bad_value',
    'a time of day is written HH:MM, in UTC, such as "08:00"',
    DATE.test(text)
      ? 'from one day to another is {field: context.time, gte: "2027-01-31T00:00:00Z", lt: "2027-02-03T00:00:00Z"}, without between'
      : 'two digits each, in quotes: "08:00", "17:30"',
  );
  return undefined;
}
