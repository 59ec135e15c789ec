import { isDeepStrictEqual } from 'node:util';
import type { OrgAddons } from '../../base/model/org-addons.ts';
import type { PlanTier } from '../../base/model/plan-tier.ts';
import { NO_SWITCHES, type ProviderSwitches } from '../../base/model/provider-switches.ts';
import type { PolicyText } from '../../decide/policy/bundle.ts';
import type { GeneratedText } from '../../decide/policy/compile.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import { WatchedSpace } from '../registers/watched-space.ts';
import { type AutoAllowed, autoRules } from './auto-rules.ts';
import type { PolicyPresets } from './policy-presets.ts';
import { switchesOf, switchRules } from './switch-rules.ts';

export const OVERLAYS = 'policy_overlay';
/** By org. */
export const ADDONS = 'org_addons';
/** By org: connectors that are allowed because there are credentials for them. */
export const AUTO_ALLOWED = 'auto_allowed';

/** An overlay that was put for an org; one of the level `node` counts on the node that it names. */
export interface OrgOverlay {
  readonly org_id: string;
  readonly level: 'org' | 'node';
  readonly node_id?: string;
  readonly bundle_yaml: string;
  /** Milliseconds since the epoch. */
  readonly put_at: number;
}

/** Which overlay is meant. */
export type OverlayPlace = Pick<OrgOverlay, 'org_id' | 'level' | 'node_id'>;

/** What one org lays over the bundle, as it is compiled. */
export interface OrgLayers {
  readonly org: readonly PolicyText[];
  readonly node: readonly PolicyText[];
  readonly generated: readonly GeneratedText[];
  readonly switches: ProviderSwitches;
}

export interface OrgOverlaysOptions {
  readonly store: Store;
  readonly nodeId: string;
  readonly presets: PolicyPresets;
  readonly tier: PlanTier;
}

/** What mistakes in an overlay that was put are said to be in; no name of a file in a policies folder. */
export function overlayFile(level: OrgOverlay['level']): string {
  return `${level} overlay`;
}

/** The same, of a preset. */
export function presetFile(id: string): string {
  return `preset ${id}`;
}

/** What orgs lay over the bundle of their gateway, in memory, also as other writers of the store change it: overlays that were put, and what they have switched. */
export class OrgOverlays {
  readonly #options: OrgOverlaysOptions;
  readonly #overlays: WatchedSpace<OrgOverlay>;
  readonly #addons: WatchedSpace<OrgAddons>;
  readonly #auto: WatchedSpace<AutoAllowed>;
  #tier: PlanTier;

  private constructor(
    options: OrgOverlaysOptions,
    spaces: { overlays: WatchedSpace<OrgOverlay>; addons: WatchedSpace<OrgAddons>; auto: WatchedSpace<AutoAllowed> },
  ) {
    this.#options = options;
    this.#tier = options.tier;
    this.#overlays = spaces.overlays;
    this.#addons = spaces.addons;
    this.#auto = spaces.auto;
  }

  /** @param changed told of the org whose layers are others now, whoever changed them */
  static async open(options: OrgOverlaysOptions, changed: (orgId: string) => void): Promise<OrgOverlays> {
    const tell = (_key: string, value: { readonly org_id: string } | undefined, before: { readonly org_id: string } | undefined): void => {
      const orgId = value?.org_id ?? before?.org_id;
      if (orgId !== undefined) changed(orgId);
    };
    const { store } = options;
    return new OrgOverlays(options, {
      overlays: await WatchedSpace.open(store, OVERLAYS, { read: (value) => value as OrgOverlay, changed: tell }),
      addons: await WatchedSpace.open(store, ADDONS, { read: (value) => value as OrgAddons, changed: tell }),
      auto: await WatchedSpace.open(store, AUTO_ALLOWED, { read: (value) => value as AutoAllowed, changed: tell }),
    });
  }

  /** From now on the rules of add-ons and keys are those that this tier includes. */
  holdTier(tier: PlanTier): void {
    this.#tier = tier;
  }

  /** Orgs that lay something over the bundle. */
  orgs(): ReadonlySet<string> {
    return new Set([...this.#overlays.values(), ...this.#addons.values(), ...this.#auto.values()].map(({ org_id: orgId }) => orgId));
  }

  /** Of all nodes, in the order of their levels and nodes. */
  list(orgId: string): readonly OrgOverlay[] {
    const own = [...this.#overlays.values()].filter(({ org_id }) => org_id === orgId);
    return own
      .sort((a, b) => (overlayKey(a) < overlayKey(b) ? -1 : 1))
      .sort((a, b) => Number(a.level === 'node') - Number(b.level === 'node'));
  }

  get(place: OverlayPlace): OrgOverlay | undefined {
    return this.#overlays.get(overlayKey(place));
  }

  addons(orgId: string): OrgAddons {
    return this.#addons.get(orgId) ?? { org_id: orgId, providers: {}, presets: {} };
  }

  /** The rules that an org has because it has credentials, as an overlay; undefined when there are none. */
  autoRules(orgId: string): PolicyText | undefined {
    const allowed = this.#auto.get(orgId);
    return allowed && autoRules(allowed, this.#tier);
  }

  /** What this org lays over the bundle on this node; undefined when it lays nothing there. `instead`: with these in the place of what is stored. */
  layers(
    orgId: string,
    instead: { readonly overlay?: OrgOverlay; readonly addons?: OrgAddons; readonly auto?: AutoAllowed } = {},
  ): OrgLayers | undefined {
    const { nodeId } = this.#options;
    const textOf = (place: OverlayPlace): readonly PolicyText[] => {
      const isInstead = instead.overlay !== undefined && overlayKey(instead.overlay) === overlayKey(place);
      const text = (isInstead ? instead.overlay : this.get(place))?.bundle_yaml ?? '';
      return text === '' ? [] : [{ text, file: overlayFile(place.level) }];
    };
    const addons = instead.addons ?? this.addons(orgId);
    const auto = instead.auto === undefined ? this.autoRules(orgId) : autoRules(instead.auto, this.#tier);
    const layers = {
      org: [...(auto === undefined ? [] : [auto]), ...textOf({ org_id: orgId, level: 'org' })],
      node: textOf({ org_id: orgId, level: 'node', node_id: nodeId }),
      generated: this.#generated(addons),
      switches: switchesOf(addons),
    };
    const texts = layers.org.length + layers.node.length + layers.generated.length;
    return texts === 0 && layers.switches === NO_SWITCHES ? undefined : layers;
  }

  /** The same, of what an org is allowed by its credentials. */
  async refreshAuto(orgId: string): Promise<void> {
    await this.#auto.refresh(orgId);
  }

  /** Brings in what this writer has committed. */
  async refresh(orgId: string, place?: OverlayPlace): Promise<void> {
    await (place === undefined ? this.#addons.refresh(orgId) : this.#overlays.refresh(overlayKey(place)));
  }

  /** What makes these all overlays of an org. */
  replacing(orgId: string, overlays: readonly OrgOverlay[]): readonly Effect[] {
    const kept = new Set(overlays.map(overlayKey));
    const gone = this.list(orgId).filter((one) => !kept.has(overlayKey(one)));
    const others = overlays.filter((one) => !isDeepStrictEqual(one, this.get(one)));
    return [...gone.map((one): Effect => ({ op: 'delete', space: OVERLAYS, key: overlayKey(one) })), ...others.map(overlayEffect)];
  }

  /** Brings in what this writer has committed of all overlays of an org. */
  async refreshAll(orgId: string, overlays: readonly OrgOverlay[]): Promise<void> {
    const keys = new Set([...this.list(orgId), ...overlays].map(overlayKey));
    await Promise.all([...keys].map((key) => this.#overlays.refresh(key)));
  }

  #generated(addons: OrgAddons): readonly GeneratedText[] {
    const rules = switchRules(addons);
    const presets = Object.entries(addons.presets).flatMap(([id, { enabled }]): readonly GeneratedText[] => {
      // One that this version does not bring does not load, and so lets nothing through.
      return enabled ? [{ text: this.#options.presets.get(id)?.text ?? '', file: presetFile(id), kind: 'preset' }] : [];
    });
    return rules === undefined ? presets : [...presets, rules];
  }
}

/** An empty text takes the overlay away. */
export function overlayEffect(overlay: OrgOverlay): Effect {
  const at = { space: OVERLAYS, key: overlayKey(overlay) };
  return overlay.bundle_yaml === '' ? { op: 'delete', ...at } : { op: 'put', ...at, value: overlay };
}

/** Under which it is stored in {@link OVERLAYS}. */
export function overlayKey({ org_id: orgId, level, node_id: nodeId }: OverlayPlace): string {
  return level === 'org' ? orgId : `${orgId}\n${nodeId ?? ''}`;
}
