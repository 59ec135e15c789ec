import type { PlanTier } from '../../base/model/org.ts';

/** The standard layers in the order in which they are evaluated (policy.md 2). */
export const STANDARD_LAYERS = ['identity', 'connectors', 'credentials', 'targets', 'budgets', 'risk', 'transforms'] as const;

/** Reason code of a gating layer that lets nothing through or refuses without a code of its own (policy.md 3). */
export const GATE_CODES: Readonly<Record<string, string>> = {
  identity: 'identity_not_allowed',
  connectors: 'connector_not_allowed',
  credentials: 'credential_not_allowed',
  targets: 'target_not_allowed',
};

const CUSTOM = /^custom\.[A-Za-z0-9_-]{1,64}$/;

export function isCustomLayer(name: string): boolean {
  return CUSTOM.test(name);
}

export function isLayer(name: string): boolean {
  return (STANDARD_LAYERS as readonly string[]).includes(name) || isCustomLayer(name);
}

/** Standard layers in their order, then the custom ones by name. */
export function compareLayers(a: string, b: string): number {
  return rank(a) - rank(b) || (a < b ? -1 : a > b ? 1 : 0);
}

function rank(name: string): number {
  const index = (STANDARD_LAYERS as readonly string[]).indexOf(name);
  return index === -1 ? STANDARD_LAYERS.length : index;
}

/** Whether an overlay of this tier may hold rules for the layer. */
export function tierAllows(tier: PlanTier, layer: string): boolean {
  if (tier === 'enterprise') return true;
  if (tier === 'pro') return !isCustomLayer(layer);
  return layer === 'identity' || layer === 'budgets';
}
