import { parseDuration, parseTime, systemClock, timestamp } from '../base/lib/clock.ts';
import { badValue } from './checked-arguments.ts';
import { UsageError } from './command.ts';

/** Options of a command that has one key follow another. */
export const SWITCH_OPTIONS = {
  'switch-at': { type: 'string' },
  in: { type: 'string' },
  cancel: { type: 'boolean' },
  finish: { type: 'boolean' },
} as const;

/** What was given of them. */
export interface SwitchAsked {
  readonly 'switch-at'?: string | undefined;
  readonly in?: string | undefined;
  readonly cancel?: boolean | undefined;
  readonly finish?: boolean | undefined;
}

/**
 * What is asked for, and of a rotation when the next key signs.
 * @param usualWait where nothing is said, such as `30d`
 * @throws UsageError for more than one of them, and for what is no time
 */
export function switchAsked(
  { 'switch-at': at, in: wait, cancel, finish }: SwitchAsked,
  usualWait: string,
): { readonly what: 'cancel' | 'finish' } | { readonly what: 'rotate'; readonly switch_at: string } {
  if ([at, wait, cancel, finish].filter((value) => value !== undefined).length > 1)
    throw new UsageError('of --in, --switch-at, --cancel and --finish one can be given');
  if (cancel) return { what: 'cancel' };
  if (finish) return { what: 'finish' };
  if (at !== undefined) {
    if (parseTime(at) === undefined) throw badValue('--switch-at', 'a time, such as 2027-01-31T03:00:00Z', at);
    return { what: 'rotate', switch_at: at };
  }
  const ms = parseDuration(wait ?? usualWait);
  if (ms === undefined) throw badValue('--in', `a duration, such as 12h or ${usualWait}`, wait ?? '');
  return { what: 'rotate', switch_at: timestamp(systemClock.now() + ms) };
}
