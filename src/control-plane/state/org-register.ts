import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { type PlanTier, planTierOf } from '../../base/model/org.ts';
import type { Commit } from '../../services/registers/commit.ts';
import { Register } from '../../services/registers/register.ts';
import type { Store } from '../../storage/contract/store.ts';
import { SPACE } from './control-plane-spaces.ts';
import type { ControlPlaneState, Org, OrgChange } from './control-plane-state.ts';
import type { OrgVersions } from './org-versions.ts';

/** Ids stand in certificates, whose names have at most so many characters (X.520, `ub-common-name`). */
const NAME = /^[\x21-\x7e]{1,64}$/;
export const NAME_RULE = 'must be 1 to 64 visible ASCII characters';

/** True for the id of an org or a node. */
export function isName(text: string): boolean {
  return NAME.test(text);
}

/** The orgs of a control plane, in memory. */
export class OrgRegister implements Pick<ControlPlaneState, 'orgs'> {
  readonly orgs: ControlPlaneState['orgs'];
  readonly #clock: Clock;
  readonly #versions: OrgVersions;
  readonly #space: Register<Org>;

  private constructor(clock: Clock, versions: OrgVersions, space: Register<Org>) {
    this.#clock = clock;
    this.#versions = versions;
    this.#space = space;
    this.orgs = {
      list: () => [...space.values()].sort((a, b) => (a.org_id < b.org_id ? -1 : 1)),
      get: (orgId) => this.require(orgId),
      put: (orgId, change, commit) => this.#put(orgId, change, commit),
    };
  }

  static async open(store: Store, clock: Clock, versions: OrgVersions): Promise<OrgRegister> {
    const space = await Register.open<Org>(store, SPACE.orgs, { read: storedOrg });
    return new OrgRegister(clock, versions, space);
  }

  get count(): number {
    return this.#space.size;
  }

  find(orgId: string): Org | undefined {
    return this.#space.get(orgId);
  }

  /** @throws GatewayError `not_found` */
  require(orgId: string): Org {
    const org = this.#space.get(orgId);
    if (org === undefined) throw new GatewayError('not_found', `There is no org ${orgId}.`);
    return org;
  }

  async #put(orgId: string, change: OrgChange, commit: Commit): Promise<Org> {
    if (!isName(orgId))
      throw new GatewayError('invalid_request', 'The id of the org is not valid.', { details: [{ path: 'org_id', message: NAME_RULE }] });
    const how = { commit: this.#versions.raising(orgId, [], commit) };
    return this.#space.change(orgId, (before): Org => changed(before ?? newOrg(orgId, this.#now()), change, this.#now()), how);
  }

  #now(): string {
    return timestamp(this.#clock.now());
  }
}

/** What tiers were called in what was stored before; nobody may say so any more. */
const FORMER_TIERS: Readonly<Record<string, PlanTier>> = { community: 'starter', professional: 'pro' };

/** An org as it is stored, also by an older version. A tier that nobody knows includes least. */
function storedOrg(value: unknown): Org | undefined {
  if (value === undefined) return undefined;
  const org = value as Org;
  const tier = planTierOf(org.plan_tier) ?? FORMER_TIERS[org.plan_tier] ?? 'starter';
  // Members come in one order, whenever it was stored.
  return { ...newOrg(org.org_id, org.created_at), ...org, plan_tier: tier };
}

/** As decision 13.5 has it for an org of which nothing is said. */
function newOrg(orgId: string, now: string): Org {
  return {
    org_id: orgId,
    status: 'active',
    plan_tier: 'enterprise',
    cp_down_policy: 'permissive',
    redis_down_policy: 'allow',
    grace_seconds: 300,
    // An org may have been stored before there were these.
    gateway_writes: 'allow',
    monthly_request_limit: null,
    overage_enabled: false,
    created_at: now,
    updated_at: now,
  };
}

function changed(before: Org, { suspended_reason: given, ...change }: OrgChange, now: string): Org {
  const { suspended_reason: kept, ...rest } = before;
  const values = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
  const next: Org = { ...rest, ...values, updated_at: now };
  // A reason is that of a suspension, and goes with it.
  const reason = given === undefined ? kept : (given ?? undefined);
  return next.status === 'active' || reason === undefined ? next : { ...next, suspended_reason: reason };
}
