import type { Config } from '../base/config/config.ts';
import type { Destination } from '../base/events/destination.ts';

/** Each kind of destination for durable events: what makes one of the settings, or nothing when they name none. No setting names one yet (later-settings.ts). */
const KINDS: readonly ((config: Config) => Destination | undefined)[] = [];

/** Where durable events go with these settings. */
export function destinationsOf(config: Config): readonly Destination[] {
  return KINDS.flatMap((make) => make(config) ?? []);
}
