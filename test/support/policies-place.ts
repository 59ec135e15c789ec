import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { EventBus } from '../../src/base/events/bus.ts';
import { GatewayError } from '../../src/base/lib/gateway-error.ts';
import { type Logger, silentLogger } from '../../src/base/lib/log.ts';
import type { PlanTier } from '../../src/base/model/org.ts';
import { AuditTrail } from '../../src/services/orgs/audit-trail.ts';
import { PolicyService, type PolicyServiceOptions } from '../../src/services/policy/policies.ts';
import { PolicyPresets } from '../../src/services/policy/policy-presets.ts';
import { Outbox } from '../../src/services/sending/outbox.ts';
import type { Store } from '../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from './fake-clock.ts';
import { type HasTeardown, tempDir } from './temp-dir.ts';

/** A policies folder and a store of a test's own. */
export interface Place {
  readonly dir: string;
  readonly store: Store;
  readonly clock: ReturnType<typeof fakeClock>;
  readonly audit: AuditTrail;
  /** What {@link Place.open} opens a service with when nothing else is said. */
  readonly options: PolicyServiceOptions & { readonly events: EventBus };
  write(file: string, content: string | Uint8Array): void;
  open(tier?: PlanTier, connectorId?: (text: string) => string | undefined, log?: Logger): Promise<PolicyService>;
}

export async function somePlace(t: HasTeardown): Promise<Place> {
  const root = tempDir(t);
  const dir = join(root, 'policies');
  mkdirSync(join(dir, 'addons'), { recursive: true });
  mkdirSync(join(dir, 'overlays'));
  const clock = fakeClock();
  const store = await openEmbeddedStore({ dir: join(root, 'store'), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  const options: Place['options'] = {
    dir,
    tier: 'enterprise',
    store,
    clock,
    log: silentLogger,
    events: new EventBus(silentLogger),
    nodeId: 'node',
    presets: new PolicyPresets(),
    managedRemotely: false,
  };
  return {
    dir,
    store,
    clock,
    audit: new AuditTrail({ ...options, outbox: await Outbox.open({ ...options, writer: 'node', destinations: [] }) }),
    options,
    write(file, content) {
      mkdirSync(dirname(join(dir, file)), { recursive: true });
      writeFileSync(join(dir, file), content);
    },
    open: (tier = 'enterprise', connectorId, log = silentLogger) => PolicyService.open({ ...options, tier, log, connectorId }),
  };
}

/** The refusal that a promise must end in. */
export async function refusal(promise: Promise<unknown>): Promise<GatewayError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof GatewayError)) throw new Error(`no GatewayError: ${String(error)}`);
  return error;
}
