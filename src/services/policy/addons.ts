import type { CatalogueInForce } from '../../base/catalogue/catalogue-in-force.ts';
import type { Catalogue, Provider } from '../../base/catalogue/types.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { packageVersion } from '../../base/lib/package-root.ts';
import type { Addon, AddonState, ListedAddon } from '../../base/model/org.ts';
import { type AddonSwitch, type OrgAddons, PROVIDER_MODES, type ProviderMode } from '../../base/model/org.ts';
import type { Commit } from '../registers/commit.ts';
import type { PolicyService } from './policies.ts';
import type { PolicyPreset, PolicyPresets } from './policy-presets.ts';

const PRESET_PREFIX = 'policy-';
/** How the entries of a provider begin; its id follows. */
const ENTRY_PREFIX: Readonly<Record<ProviderMode, string>> = {
  routing: 'provider-',
  byok: 'credential-byok-',
  oauth: 'credential-oauth-',
};
const DESCRIPTION: Readonly<Record<ProviderMode, string>> = {
  routing: 'Calls go to it; switched off they are denied.',
  byok: "Callers may bring their own keys; switched off the org's stored credentials are used alone.",
  oauth: "The Authorization of callers who have signed in goes ahead of the org's stored credentials.",
};
const TITLE: Readonly<Record<ProviderMode, string>> = { routing: '', byok: ': keys of callers', oauth: ': sign-in of callers' };

export interface AddonOptions {
  readonly clock: Clock;
  readonly catalogues: CatalogueInForce;
  readonly policies: PolicyService;
  readonly presets: PolicyPresets;
  /** `GW_OAUTH_PASSTHROUGH`, as connector ids: what holds for an org that has said nothing. */
  readonly oauthPassthrough: ReadonlySet<string>;
}

/**
 * What an org can switch: each provider's routing and whose keys it is called with, and presets of policy
 * (specification, "Addon catalog entry"; decision 10.12).
 */
export class AddonService {
  readonly #options: AddonOptions;

  constructor(options: AddonOptions) {
    this.#options = options;
  }

  /** The flat catalogue, as it is switched for this org: providers in the order of the registry, then presets. */
  list(orgId: string): readonly Addon[] {
    const { catalogues, policies, presets } = this.#options;
    const catalogue = catalogues.shipped();
    const addons = policies.addons(orgId);
    const entries = catalogue.providers.flatMap((provider) =>
      modesOf(provider).map((mode) => this.#providerEntry(catalogue, provider, mode, addons)),
    );
    return [...entries, ...presets.list().map((preset) => presetEntry(preset, addons))];
  }

  /** The same as the admin API lists it (specification, "Addon catalog entry"). */
  listed(orgId: string): readonly ListedAddon[] {
    const addons = this.#options.policies.addons(orgId);
    return this.list(orgId).map((entry) => listedAddon(entry, addons));
  }

  /** One entry, as the admin API lists it. @throws GatewayError `not_found` */
  listedOne(orgId: string, addonId: string): ListedAddon {
    return listedAddon(this.known(orgId, addonId), this.#options.policies.addons(orgId));
  }

  /**
   * The entry that {@link set} would switch.
   * @throws GatewayError `not_found` for what is no provider and no preset, `mode_not_supported`
   */
  named(orgId: string, name: string, mode: string): Addon {
    return this.known(orgId, this.#place(name, mode).addonId);
  }

  /** @throws GatewayError `not_found` */
  known(orgId: string, addonId: string): Addon {
    const found = this.list(orgId).find(({ addon_id: id }) => id === addonId);
    if (found === undefined) throw new GatewayError('not_found', 'There is no add-on of this id.');
    return found;
  }

  /**
   * Switches the entry of this id, as {@link set} does by names.
   * @throws GatewayError `not_found`, `invalid_policy`, `conflict`
   */
  async switch(orgId: string, addonId: string, enabled: boolean, commit?: Commit): Promise<ListedAddon> {
    const place = placeOf(this.known(orgId, addonId).addon_id);
    const entry = await this.set(orgId, addonId, place?.mode ?? 'routing', enabled, commit);
    return listedAddon(entry, this.#options.policies.addons(orgId));
  }

  /**
   * What the entries of a control plane say, in the place of whatever is switched here: what they do not name is as it
   * is for everybody.
   * @returns what is unknown here beside it. A preset that is unknown and switched on denies everything, since it might
   * have refused something; any other does nothing here
   */
  async replace(orgId: string, states: readonly AddonState[], commit: Commit): Promise<readonly string[]> {
    const { policies, catalogues, clock } = this.#options;
    const catalogue = catalogues.shipped();
    const at = timestamp(clock.now());
    const unknown: string[] = [];
    await policies.switchAddons(
      orgId,
      orgId,
      (before) => {
        unknown.length = 0;
        let addons: OrgAddons = { org_id: orgId, providers: {}, presets: {} };
        for (const { addon_id: id, enabled } of states) {
          const earlier = switchOf(before, id);
          const now: AddonSwitch = earlier?.enabled === enabled ? earlier : { enabled, at };
          const found = placeOf(id);
          if (found === undefined) unknown.push(id);
          else if (found.preset !== undefined) addons = withPreset(addons, found.preset, now);
          else if (catalogue.provider(found.provider)?.id === found.provider) addons = withMode(addons, found.provider, found.mode, now);
          else unknown.push(id);
        }
        return addons;
      },
      commit,
      true,
    );
    return unknown;
  }

  /**
   * Switches one of them, from the next call of the org on.
   * @param name an id, neutral name or alias of a provider, or the id of an entry
   * @throws GatewayError `not_found` for what is no provider and no preset, `mode_not_supported`, `invalid_policy` for
   * a preset that the tier does not include
   */
  async set(orgId: string, name: string, mode: string, enabled: boolean, commit?: Commit): Promise<Addon> {
    const { policies, catalogues } = this.#options;
    const now = { enabled, at: timestamp(this.#options.clock.now()) };
    const place = this.#place(name, mode);
    if (place.preset !== undefined) {
      const { preset, addonId } = place;
      return presetEntry(preset, await policies.switchAddons(orgId, addonId, (addons) => withPreset(addons, preset.id, now), commit));
    }
    const { provider, mode: known, addonId } = place;
    const addons = await policies.switchAddons(orgId, addonId, (before) => withMode(before, provider.id, known, now), commit);
    return this.#providerEntry(catalogues.shipped(), provider, known, addons);
  }

  /** @throws GatewayError `not_found`, `mode_not_supported` */
  #place(name: string, mode: string): SwitchedPlace {
    const preset = this.#preset(name);
    if (preset !== undefined) {
      if (mode !== 'routing') throw notSupported(name, mode, ['routing']);
      return { preset, addonId: PRESET_PREFIX + preset.id };
    }
    const provider = providerOf(this.#options.catalogues.shipped(), name);
    if (provider === undefined) throw new GatewayError('not_found', 'There is no provider and no preset of this name.');
    const known = modesOf(provider).find((one) => one === mode);
    if (known === undefined) throw notSupported(provider.id, mode, modesOf(provider));
    return { provider, mode: known, addonId: ENTRY_PREFIX[known] + provider.id };
  }

  #preset(name: string): PolicyPreset | undefined {
    return name.startsWith(PRESET_PREFIX) ? this.#options.presets.get(name.slice(PRESET_PREFIX.length)) : undefined;
  }

  #providerEntry(catalogue: Catalogue, provider: Provider, mode: ProviderMode, { providers }: OrgAddons): Addon {
    const { id, docsUrl } = provider;
    const usual = mode === 'oauth' ? this.#options.oauthPassthrough.has(id) : true;
    return {
      addon_id: ENTRY_PREFIX[mode] + id,
      display_name: titleOf(catalogue, provider) + TITLE[mode],
      description: DESCRIPTION[mode],
      enabled: providers[id]?.[mode]?.enabled ?? usual,
      category: mode === 'routing' ? 'provider' : 'credential',
      kind: mode === 'routing' ? 'provider_integration' : 'credential_mode',
      provider: id,
      logo_url: null,
      docs_url: docsUrl ?? null,
    };
  }
}

/** What a name and a mode lead to. */
type SwitchedPlace =
  | { readonly preset: PolicyPreset; readonly addonId: string }
  | { readonly preset?: undefined; readonly provider: Provider; readonly mode: ProviderMode; readonly addonId: string };

type AddonPlace =
  | { readonly preset: string; readonly provider?: undefined; readonly mode?: undefined }
  | { readonly preset?: undefined; readonly provider: string; readonly mode: ProviderMode };

/** Where the switch of an entry stands; undefined for what is no id of one. */
function placeOf(addonId: string): AddonPlace | undefined {
  if (addonId.startsWith(PRESET_PREFIX)) return { preset: addonId.slice(PRESET_PREFIX.length) };
  const mode = PROVIDER_MODES.find((one) => addonId.startsWith(ENTRY_PREFIX[one]));
  return mode && { provider: addonId.slice(ENTRY_PREFIX[mode].length), mode };
}

function switchOf({ providers, presets }: OrgAddons, addonId: string): AddonSwitch | undefined {
  const place = placeOf(addonId);
  if (place === undefined) return undefined;
  return place.preset === undefined ? providers[place.provider]?.[place.mode] : presets[place.preset];
}

function listedAddon({ logo_url: _logo, docs_url: _docs, provider: _provider, ...entry }: Addon, addons: OrgAddons): ListedAddon {
  const at = switchOf(addons, entry.addon_id)?.at;
  return { ...entry, version: packageVersion(), enabled_at: entry.enabled ? (at ?? null) : null };
}

function modesOf({ takesOauth }: Provider): readonly ProviderMode[] {
  return takesOauth ? ['routing', 'byok', 'oauth'] : ['routing', 'byok'];
}

function providerOf(catalogue: Catalogue, name: string): Provider | undefined {
  const prefix = Object.values(ENTRY_PREFIX).find((one) => name.startsWith(one));
  return catalogue.provider(prefix === undefined ? name : name.slice(prefix.length));
}

/** As the list of AI domains calls it; those that it does not have are called by their ids. */
function titleOf(catalogue: Catalogue, { id, hosts }: Provider): string {
  return (hosts[0] === undefined ? undefined : catalogue.domain(hosts[0])?.vendor) ?? id;
}

function presetEntry({ id, displayName, description, category }: PolicyPreset, { presets }: OrgAddons): Addon {
  return {
    addon_id: PRESET_PREFIX + id,
    display_name: displayName,
    description,
    enabled: presets[id]?.enabled === true,
    category,
    kind: 'policy_preset',
    logo_url: null,
    docs_url: null,
  };
}

function withPreset(addons: OrgAddons, id: string, now: AddonSwitch): OrgAddons {
  return { ...addons, presets: { ...addons.presets, [id]: now } };
}

function withMode(addons: OrgAddons, id: string, mode: ProviderMode, now: AddonSwitch): OrgAddons {
  return { ...addons, providers: { ...addons.providers, [id]: { ...addons.providers[id], [mode]: now } } };
}

function notSupported(name: string, mode: string, modes: readonly ProviderMode[]): GatewayError {
  return new GatewayError(
    'mode_not_supported',
    `${name} has no mode ${JSON.stringify(mode.slice(0, 32))} that can be switched, only ${modes.join(' and ')}.`,
  );
}
