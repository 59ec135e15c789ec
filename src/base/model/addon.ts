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
  /** None is shipped. */
  readonly logo_url: string | null;
  readonly docs_url: string | null;
}
