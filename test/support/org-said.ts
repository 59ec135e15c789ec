import type { OrgState, Stale } from '../../src/control-plane/proto/messages.ts';

/** Nothing is stale but what is named. */
export function staleOf(...names: readonly (keyof Stale)[]): Stale {
  const is = (name: keyof Stale): boolean => names.includes(name);
  return {
    policy: is('policy'),
    workloads: is('workloads'),
    credentials: is('credentials'),
    export_config: is('export_config'),
    addons: is('addons'),
    api_keys: is('api_keys'),
    keys: is('keys'),
    overlays: is('overlays'),
  };
}

/** What a control plane says of an org where nothing is wrong. */
export function orgSaid(more: Partial<OrgState> = {}): OrgState {
  return {
    status: 'active',
    suspended_reason: '',
    plan_tier: 'enterprise',
    cp_down_policy: 'permissive',
    redis_down_policy: 'allow',
    grace_seconds: 300,
    gateway_writes: 'allow',
    monthly_request_limit: '',
    overage_enabled: false,
    stale: staleOf(),
    ...more,
  };
}

const MOST_TURNS = 20_000;

/** Turns of the event loop until it holds. @throws Error that says what never came */
export async function comes(what: string, holds: () => boolean): Promise<void> {
  for (let turns = 0; !holds(); turns++) {
    if (turns === MOST_TURNS) throw new Error(`it never came: ${what}`);
    await new Promise(setImmediate);
  }
}
