import type { ErrorDetail } from '../../base/lib/gateway-error.ts';
import { POLICY_BOUNDS } from '../../base/model/work-bounds.ts';
import { type ActivePolicy, type Base, type CompileOptions, orgPolicy } from './active-policy.ts';
import type { OrgLayers, OrgOverlays } from './org-overlays.ts';

/**
 * The policies of orgs that lay something over the bundle, as far as they are compiled. Their patterns and rules are
 * bounded together (decision 7.12): where they would be too many, the org that has most of them is let go of, and
 * compiled again when it is next asked for, so that what one org lays down takes nothing from those that lay down less.
 * Never changes: each change makes another.
 */
export class OrgPolicies {
  readonly #base: ActivePolicy;
  /** Those that are compiled, by org. */
  readonly compiled: ReadonlyMap<string, ActivePolicy>;
  /** Orgs whose policy has to be compiled before it can be asked. */
  readonly letGo: ReadonlySet<string>;

  /** @param base what they lie over: its patterns are there once for all of them */
  constructor(base: ActivePolicy, compiled: ReadonlyMap<string, ActivePolicy>, letGo: ReadonlySet<string>) {
    this.#base = base;
    this.compiled = compiled;
    this.letGo = letGo;
  }

  /** That of an org that lays something over the bundle, where it is compiled. */
  own(orgId: string): ActivePolicy | undefined {
    return this.compiled.get(orgId);
  }

  isLetGo(orgId: string): boolean {
    return this.letGo.has(orgId);
  }

  /** What does not load, and of which org; without an org: of all of them. */
  notLoaded(): readonly { readonly org_id?: string; readonly problems: readonly ErrorDetail[] }[] {
    if (this.#base.notLoaded !== undefined) return [{ problems: this.#base.notLoaded }];
    return [...this.compiled].flatMap(([orgId, { notLoaded: problems }]) => (problems === undefined ? [] : [{ org_id: orgId, problems }]));
  }

  /** With another policy of an org, or without one. @param most instructions of the patterns of all */
  with(orgId: string, policy: ActivePolicy | undefined, most: number = POLICY_BOUNDS.compiled.all): OrgPolicies {
    const compiled = new Map(this.compiled);
    const letGo = new Set(this.letGo);
    letGo.delete(orgId);
    if (policy === undefined) compiled.delete(orgId);
    else compiled.set(orgId, policy);
    let sum = 0;
    for (const one of compiled.values()) sum += ownSteps(one, this.#base);
    while (sum > most) {
      const largest = this.#largest(compiled, orgId);
      if (largest === undefined) break;
      sum -= ownSteps(compiled.get(largest) ?? this.#base, this.#base);
      compiled.delete(largest);
      letGo.add(largest);
    }
    return new OrgPolicies(this.#base, compiled, letGo);
  }

  #largest(compiled: ReadonlyMap<string, ActivePolicy>, except: string): string | undefined {
    let largest: string | undefined;
    let most = 0;
    for (const [orgId, policy] of compiled) {
      const steps = ownSteps(policy, this.#base);
      if (orgId === except || steps <= most) continue;
      largest = orgId;
      most = steps;
    }
    return largest;
  }
}

/** What keeping a rule takes, in instructions of a pattern: about as many bytes. */
const STEPS_OF_RULE = 4;

/**
 * Instructions of the patterns that an org has beside those of the bundle, and of its rules, which are compiled for
 * each org, those of the bundle too.
 */
export function ownSteps({ policy }: ActivePolicy, base: ActivePolicy): number {
  return Math.max(0, policy.patternSteps - base.policy.patternSteps) + policy.ruleCount * STEPS_OF_RULE;
}

/**
 * One after the other, the small ones first: each may be large, and other work goes on between two of them. Those that
 * find no place are compiled when they are first asked for.
 */
export async function compileOrgs(overlays: OrgOverlays, base: Base, options: CompileOptions): Promise<OrgPolicies> {
  const compiled = new Map<string, ActivePolicy>();
  const later = new Set<string>();
  const language = { ...options, bundleTrees: new Map() };
  let left: number = POLICY_BOUNDS.compiled.all;
  for (const { orgId, layers } of bySize(overlays)) {
    if (left < POLICY_BOUNDS.patterns.org) {
      later.add(orgId);
      continue;
    }
    const policy = await orgPolicy(orgId, base, layers, language);
    compiled.set(orgId, policy);
    left -= ownSteps(policy, base.active);
  }
  return new OrgPolicies(base.active, compiled, later);
}

function bySize(overlays: OrgOverlays): readonly { readonly orgId: string; readonly layers: OrgLayers }[] {
  const sized = [...overlays.orgs()].flatMap((orgId) => {
    const layers = overlays.layers(orgId);
    return layers === undefined ? [] : [{ orgId, layers, size: sizeOf(layers) }];
  });
  return sized.sort((a, b) => a.size - b.size);
}

function sizeOf({ org, node, generated }: OrgLayers): number {
  return [...org, ...node, ...generated].reduce((sum, { text }) => sum + text.length, 0);
}
