import type { Clock } from '../../base/lib/clock.ts';
import type { Logger } from '../../base/lib/log.ts';
import { createUpstream } from '../../outbound/net/create-upstream.ts';
import { SideDoor } from '../../outbound/net/side-door.ts';

const SILENCE_MS = 15_000;

/** The door by which the control plane asks those whom its operator has named, and what closes its connections. */
export interface OwnDoor {
  readonly door: SideDoor;
  readonly close: () => Promise<void>;
}

export function openOwnDoor(ground: { readonly clock: Clock; readonly log: Logger }): OwnDoor {
  const upstream = createUpstream({ ...ground, headersTimeoutMs: SILENCE_MS, idleTimeoutMs: SILENCE_MS });
  const door = new SideDoor(upstream, ground.clock);
  return {
    door,
    async close() {
      door.close();
      await upstream.close();
    },
  };
}
