import type { DelegationLink, Limits } from './link.ts';
import { covers, DelegationError } from './link.ts';

/**
 * What is left of a chain's limits, from the root to its leaf. A child that claims more than stands above it is
 * refused, not clipped: its issuer meant something that does not hold (decision 9.4). What a child leaves out it
 * inherits.
 * @param links root first, at least one
 * @throws DelegationError `delegation_not_attenuated`
 */
export function intersection(links: readonly [DelegationLink, ...DelegationLink[]]): Limits {
  let outer = links[0];
  let limits = outer.limits;
  for (const link of links.slice(1)) {
    if (link.orgId !== outer.orgId) wider('org_id');
    if (link.expiresAt > outer.expiresAt) wider('expires_at');
    if (link.issuedAt < outer.issuedAt) wider('issued_at');
    limits = narrowed(limits, link.limits);
    outer = link;
  }
  return limits;
}

function narrowed(outer: Limits, inner: Limits): Limits {
  return {
    actions: within('actions_allow', outer.actions, inner.actions, same),
    targets: within('targets_allow', outer.targets, inner.targets, same),
    methods: within('methods_allow', outer.methods, inner.methods, same),
    resources: within('resource_patterns_allow', outer.resources, inner.resources, covers),
    models: within('allowed_models', outer.models, inner.models, same),
    overrides: within('allow_overrides', outer.overrides, inner.overrides, same),
    usdMax: smaller(outer.usdMax, inner.usdMax),
  };
}

const same = (outer: string, inner: string): boolean => outer === inner;

function within<T>(
  name: string,
  outer: readonly T[] | undefined,
  inner: readonly T[] | undefined,
  holds: (outer: T, inner: T) => boolean,
): readonly T[] | undefined {
  if (outer === undefined || inner === undefined) return inner ?? outer;
  if (!inner.every((element) => outer.some((one) => holds(one, element)))) wider(name);
  return inner;
}

function smaller(outer: bigint | undefined, inner: bigint | undefined): bigint | undefined {
  if (outer !== undefined && inner !== undefined && inner > outer) wider('usd_max');
  return inner ?? outer;
}

function wider(name: string): never {
  throw new DelegationError('delegation_not_attenuated', `A link of the delegation chain is wider than its parent: ${name}.`);
}
