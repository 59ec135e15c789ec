import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { OrgAddons, PlanTier } from '../../base/model/org.ts';
import { NO_SWITCHES, type ProviderSwitches } from '../../base/model/org.ts';
import type { PolicyText } from '../../decide/policy/bundle.ts';
import type { GeneratedText } from '../../decide/policy/compile.ts';
import type { Effect, Store } from '../../storage/contract/store.ts';
import type { Commit, ToldChanges } from '../registers/commit.ts';
import { type Along, changesTo, REMOVED, Register } from '../registers/register.ts';
import { entityWith, type WatchedSpaceOptions } from '../registers/watched-space.ts';
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

interface LaidRegisters {
  readonly overlays: Register<OrgOverlay>;
  readonly addons: Register<OrgAddons>;
  readonly auto: Register<AutoAllowed>;
}

/**
 * What orgs lay over the bundle of their gateway, in memory, also as other writers of the store change it: overlays
 * that were put, and what they have switched.
 */
export class OrgOverlays {
  readonly #options: OrgOverlaysOptions;
  readonly #overlays: Register<OrgOverlay>;
  readonly #addons: Register<OrgAddons>;
  readonly #auto: Register<AutoAllowed>;
  #tier: PlanTier;

  private constructor(options: OrgOverlaysOptions, { overlays, addons, auto }: LaidRegisters) {
    this.#options = options;
    this.#tier = options.tier;
    this.#overlays = overlays;
    this.#addons = addons;
    this.#auto = auto;
  }

  /** @param changed told of the org whose layers are others now, whichever writer has changed them */
  static async open(options: OrgOverlaysOptions, changed: (orgId: string) => void): Promise<OrgOverlays> {
    const { store } = options;
    const laid = <V extends { readonly org_id: string }>(): WatchedSpaceOptions<V> => ({
      read: entityWith<V>('org_id'),
      orgOf: ({ org_id: orgId }) => orgId,
      changed: (_key, value, before) => {
        const one = value ?? before;
        if (one !== undefined) changed(one.org_id);
      },
    });
    return new OrgOverlays(options, {
      overlays: await Register.open(store, OVERLAYS, laid<OrgOverlay>()),
      addons: await Register.open(store, ADDONS, laid<OrgAddons>()),
      auto: await Register.open(store, AUTO_ALLOWED, laid<AutoAllowed>()),
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
    return [...this.#overlays.ofOrg(orgId)]
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

  /**
   * What this org lays over the bundle on this node; undefined when it lays nothing there. `instead`: with these in the
   * place of what is stored.
   */
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

  /**
   * Puts an overlay, from the one that is stored; one whose text is empty is taken away.
   * @throws GatewayError `conflict` when another writer was first; what `next` throws
   */
  async put(
    place: OverlayPlace,
    next: (stored: OrgOverlay | undefined) => Promise<{ readonly overlay: OrgOverlay; readonly told: ToldChanges }>,
    commit: Commit | undefined,
  ): Promise<void> {
    const put = async (stored: OrgOverlay | undefined, along: Along): Promise<OrgOverlay | typeof REMOVED> => {
      const { overlay, told } = await next(stored);
      along.told = told;
      return overlay.bundle_yaml === '' ? REMOVED : overlay;
    };
    const conflict = (): GatewayError =>
      new GatewayError('conflict', 'Somebody else has changed this overlay at the same moment: read it again.');
    await this.#overlays.change(overlayKey(place), put, { commit, object: place.org_id, conflict });
  }

  /** These are all overlays of an org from now on. */
  async replace(orgId: string, overlays: readonly OrgOverlay[], commit: Commit): Promise<void> {
    const next = new Map(overlays.filter(({ bundle_yaml: text }) => text !== '').map((one) => [overlayKey(one), one]));
    const now = this.list(orgId).map((one): [string, OrgOverlay] => [overlayKey(one), one]);
    await this.#overlays.changeAll(changesTo(next, now), { commit });
  }

  /** Changes what an org has switched. @param next from what is switched; asked again when another writer was first */
  async switch(
    orgId: string,
    next: (before: OrgAddons) => Promise<OrgAddons>,
    how: { readonly commit: Commit | undefined; readonly object: string },
  ): Promise<void> {
    await this.#addons.change(orgId, (stored) => next(stored ?? { org_id: orgId, providers: {}, presets: {} }), how);
  }

  /**
   * Allows an org the connectors that it has credentials for.
   * @param commit stores what it is given, with what belongs to it
   */
  async allow(auto: AutoAllowed, commit: (effects: readonly Effect[]) => Promise<void>): Promise<void> {
    await commit([this.#auto.effect(auto.org_id, auto.connector_ids.length === 0 ? REMOVED : auto)]);
    await this.#auto.refresh(auto.org_id);
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

/** Under which it is stored in {@link OVERLAYS}. */
function overlayKey({ org_id: orgId, level, node_id: nodeId }: OverlayPlace): string {
  return level === 'org' ? orgId : `${orgId}\n${nodeId ?? ''}`;
}
