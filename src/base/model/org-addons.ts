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
