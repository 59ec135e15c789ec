/** States of an org (specification, "Org status"). `terminated` is set by a control plane only. */
export const ORG_STATES = ['active', 'suspended', 'terminated'] as const;
export type OrgStanding = (typeof ORG_STATES)[number];

export interface OrgStatus {
  readonly org_id: string;
  readonly status: OrgStanding;
  /** Absent when the org is active, or nobody gave a reason. */
  readonly suspended_reason?: string;
}

/** What an org may do in a month, as it was put for it; what is absent is as the settings say. */
export interface OrgPlan {
  readonly org_id: string;
  /** Requests in a UTC calendar month; null: as many as it likes. */
  readonly monthly_request_limit?: number | null;
  /** Lets requests pass the limit. */
  readonly overage_enabled?: boolean;
}

/**
 * What an org can have bought, the smallest first; it limits the layers that an overlay may use (specification, "Policy
 * bundle"). This is the one list of them.
 */
export const PLAN_TIERS = ['starter', 'pro', 'enterprise'] as const;
export type PlanTier = (typeof PLAN_TIERS)[number];

/** The tier of this name; undefined for any other text, older spellings included. */
export function planTierOf(text: unknown): PlanTier | undefined {
  return PLAN_TIERS.find((tier) => tier === text);
}

/** What can be switched of a provider. */
export const PROVIDER_MODES = ['routing', 'byok', 'oauth'] as const;
export type ProviderMode = (typeof PROVIDER_MODES)[number];

/** What an org has switched, and when; what it never touched is as it is for everybody (decision 10.12). */
export interface OrgAddons {
  readonly org_id: string;
  /** By connector id, then mode. */
  readonly providers: Readonly<Record<string, Readonly<Partial<Record<ProviderMode, AddonSwitch>>>>>;
  /** By the id of the preset. */
  readonly presets: Readonly<Record<string, AddonSwitch>>;
}

export interface AddonSwitch {
  readonly enabled: boolean;
  /** RFC 3339. */
  readonly at: string;
}

/**
 * `provider_integration`: routing to a provider. `credential_mode`: whose keys its calls carry. `policy_preset`: rules
 * that are ready to be switched on.
 */
export const ADDON_KINDS = ['provider_integration', 'credential_mode', 'policy_preset'] as const;
export type AddonKind = (typeof ADDON_KINDS)[number];

/** Something that an org can switch (specification, "Addon catalog entry"). */
export interface Addon {
  readonly addon_id: string;
  readonly display_name: string;
  readonly description: string;
  readonly enabled: boolean;
  readonly category: string;
  readonly kind: AddonKind;
  /** The provider that it switches, by its id; absent: it is a preset. */
  readonly provider?: string;
  /** None is shipped. */
  readonly logo_url: string | null;
  readonly docs_url: string | null;
}

/** The same as the admin API lists it. */
export interface ListedAddon extends Omit<Addon, 'logo_url' | 'docs_url' | 'provider'> {
  /** Of the package that brings it. */
  readonly version: string;
  /** Since when the org has it switched on, RFC 3339; null: it is off, or on because nobody has switched it. */
  readonly enabled_at: string | null;
}

/** What a control plane says of one. */
export interface AddonState {
  readonly addon_id: string;
  readonly enabled: boolean;
}

/** What an org has said of whose keys its calls to a provider may carry, by connector id. */
export interface ProviderSwitches {
  /** Callers' own keys are not taken. */
  readonly byokOff: ReadonlySet<string>;
  /**
   * The caller's own Authorization goes ahead of a stored credential, or does not, whatever `GW_OAUTH_PASSTHROUGH`
   * says.
   */
  readonly oauthOn: ReadonlySet<string>;
  readonly oauthOff: ReadonlySet<string>;
}

const NOBODY: ReadonlySet<string> = new Set();

/** Of an org that has said nothing: callers' keys are taken, and `GW_OAUTH_PASSTHROUGH` counts. */
export const NO_SWITCHES: ProviderSwitches = Object.freeze({ byokOff: NOBODY, oauthOn: NOBODY, oauthOff: NOBODY });

/** States of a project (specification, "Project"). What an archived one would be charged for is denied. */
export const PROJECT_STATES = ['active', 'archived'] as const;
export type ProjectState = (typeof PROJECT_STATES)[number];

/**
 * A registered project of an org. A project needs no registration to be charged: one that is not registered is a name
 * like any other.
 */
export interface Project {
  readonly project_id: string;
  readonly org_id: string;
  readonly display_name: string;
  readonly description: string;
  readonly status: ProjectState;
  readonly created_at: string;
}
