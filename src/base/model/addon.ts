/** `provider_integration`: routing to a provider. `credential_mode`: whose keys its calls carry. `policy_preset`: rules that are ready to be switched on. */
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
