import type { Clock } from '../../base/lib/clock.ts';
import type { Route } from '../http/route.ts';

export interface HealthOptions {
  readonly clock: Clock;
  readonly nodeId: string;
  /** How long after its start the gateway says `starting` (`GW_HEALTHZ_STARTUP_GRACE`), milliseconds. */
  readonly startupGraceMs: number;
  connectors(): readonly { readonly id: string; readonly version: string; readonly healthy: boolean }[];
  bundle(): { readonly bundle_id: string; readonly version: string };
}

/** Health (specification, "Health response"). */
export function healthRoutes(options: HealthOptions): readonly Route[] {
  const startedAt = options.clock.monotonic();
  return [
    {
      method: 'GET',
      path: '/healthz',
      auth: 'none',
      ambient: true,
      summary: 'Liveness, connectors and the active bundle; `starting` during the start-up grace.',
      handle: () => {
        const { bundle_id, version } = options.bundle();
        const starting = options.clock.monotonic() - startedAt < options.startupGraceMs;
        return {
          status: 200,
          json: {
            status: starting ? 'starting' : 'ok',
            node_id: options.nodeId,
            connectors: options.connectors(),
            cp_status: 'unconfigured',
            bundle_id,
            bundle_version: version,
          },
        };
      },
    },
  ];
}
