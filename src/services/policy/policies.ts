import type { Events } from '../../base/events/bus.ts';
import type { PolicyLoadEvent } from '../../base/events/events.ts';
import { type ErrorDetail, GatewayError } from '../../base/lib/gateway-error.ts';
import type { Maybe } from '../../base/lib/maybe.ts';
import type { OrgAddons } from '../../base/model/org-addons.ts';
import type { PlanTier } from '../../base/model/plan-tier.ts';
import type { PolicyInput } from '../../decide/policy/compile.ts';
import type { PassageOptions } from '../../decide/policy/refuses-all.ts';
import type { Effect } from '../../storage/contract/store.ts';
import { type Commit, commitAlone, type ToldChanges, unlessConflict } from '../registers/commit.ts';
import {
  type ActivePolicy,
  type Base,
  compileAgain,
  compileFetched,
  compileFolder,
  type FetchedBundle,
  orgHash,
  orgPolicy,
  orgPolicyUnless,
  textsOfOrg,
} from './active-policy.ts';
import type { AutoAllowed } from './auto-rules.ts';
import { type TriedBundle, toldOfBundle, tryBundle } from './bundle-trial.ts';
import { firstBase, logLoaded, NOTHING_TO_RELOAD, type PolicyPlace, PUT_BUNDLE } from './first-policy.ts';
import { FolderReads } from './folder-reads.ts';
import {
  ADDONS,
  AUTO_ALLOWED,
  type OrgLayers,
  type OrgOverlay,
  OrgOverlays,
  OVERLAYS,
  type OverlayPlace,
  overlayEffect,
  overlayKey,
  presetFile,
} from './org-overlays.ts';
import { compileOrgs, type OrgPolicies } from './org-policies.ts';
import { type OverlayText, type TrialGround, type TriedOverlay, tryOverlay } from './overlay-trial.ts';
import { PolicyDrafts } from './policy-drafts.ts';
import { foldersOf, type PolicyFolder } from './policy-folder.ts';
import type { PolicyPresets } from './policy-presets.ts';
import type { Weighed } from './weigh-policy.ts';

export interface PolicyServiceOptions extends PolicyPlace {
  readonly events: Events;
  /** What orgs may switch on. */
  readonly presets: PolicyPresets;
  /** Of this node: which overlays of the level `node` count here. */
  readonly nodeId: string;
  /** By which is stored what the watch of the folder takes. */
  readonly followBy?: Commit;
}

/** Of a change of add-ons that others are in the way of. */
const SWITCH_ATTEMPTS = 5;

/** Everything that is in force together. */
interface Opened {
  /** Undefined: the bundle comes from the control plane. */
  readonly folder: PolicyFolder | undefined;
  readonly base: Base;
  readonly orgs: OrgPolicies;
}

/**
 * Holds the active policy snapshot: one reference, swapped when a bundle has compiled and, if it came by API, is stored. A bundle that does not load leaves
 * the running one in place. An org that has laid something over the bundle (decisions 5.6, 5.7) has a snapshot of its own; all others share one.
 */
export class PolicyService {
  /** With the tier that holds now. */
  #options: PolicyServiceOptions;
  readonly #overlays: OrgOverlays;
  readonly drafts: PolicyDrafts = new PolicyDrafts(
    () => this.#ground(),
    () => this.#folder?.dir,
  );
  #folder: PolicyFolder | undefined;
  #base: Base;
  #orgs: OrgPolicies;
  readonly #reads: FolderReads;
  /** Changes run one after the other. */
  #changes: Promise<unknown> = Promise.resolve();

  private constructor(options: PolicyServiceOptions, overlays: OrgOverlays, opened: Opened) {
    this.#options = options;
    this.#overlays = overlays;
    this.#folder = opened.folder;
    this.#base = opened.base;
    this.#orgs = opened.orgs;
    this.#reads = new FolderReads(options.dir, opened.folder?.hash);
  }

  /**
   * Loads the folder, or the bundle that was put since its content last changed; nothing of both where the control plane gives the bundle.
   * @throws GatewayError `invalid_policy`: no folder, no bundle, or mistakes, all of which are in the message, one a line
   */
  static async open(options: PolicyServiceOptions): Promise<PolicyService> {
    const { folder, base } = await firstBase(options);
    const early = new Set<string>();
    let changed = (orgId: string): unknown => early.add(orgId);
    const overlays = await OrgOverlays.open(options, (orgId) => void changed(orgId));
    const orgs = await compileOrgs(overlays, base, options);
    if (base.isNone !== true) logLoaded(options, base.active, folder);
    const service = new PolicyService(options, overlays, { folder, base, orgs });
    changed = (orgId) => service.#follow(orgId);
    // What came while the others were compiled.
    for (const orgId of early) void service.#follow(orgId);
    return service;
  }

  /** From now on what the watch of the folder takes is stored by this commit, which has an entry of the audit trail. */
  followBy(commit: Commit): void {
    this.#options = { ...this.#options, followBy: commit };
  }

  /** The snapshot of this moment: that of an org, where it is compiled ({@link ready}), or the one of all that lay nothing over the bundle. */
  current(orgId?: string): ActivePolicy {
    return (orgId === undefined ? undefined : this.#orgs.own(orgId)) ?? this.#base.active;
  }

  /** As {@link current}; of an org that was let go of when it is compiled again, by then. */
  ready(orgId: string): Maybe<ActivePolicy> {
    const { compiled, letGo } = this.#orgs;
    return compiled.get(orgId) ?? (letGo.has(orgId) ? this.#compileAgain(orgId) : this.#base.active);
  }

  #compileAgain(orgId: string): Promise<ActivePolicy> {
    return this.#inTurn(async () => {
      if (!this.#orgs.isLetGo(orgId)) return this.current(orgId);
      const layers = this.#overlays.layers(orgId);
      return this.#put(orgId, layers && (await orgPolicy(orgId, this.#base, layers, this.#options)));
    });
  }

  /** One after the other with all changes: nothing that came meanwhile is lost, and the patterns of one policy at a time are compiled. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#changes.then(work);
    this.#changes = turn.catch(() => undefined);
    return turn;
  }

  /** What the org of this gateway, or every org of it, has bought. */
  get tier(): PlanTier {
    return this.#options.tier;
  }

  /**
   * Holds another tier from now on. What it does not include denies: the requests of an org for what that lays over the bundle, all for the bundle itself. Each of these can be taken away
   * or replaced, and all of it counts again on a tier that includes it.
   */
  async holdTier(tier: PlanTier): Promise<void> {
    if (tier === this.#options.tier) return;
    await this.#change('control_plane', async () => {
      this.#options = { ...this.#options, tier };
      this.#overlays.holdTier(tier);
      const base = await compileAgain(this.#base, this.#options);
      const orgs = await compileOrgs(this.#overlays, base, this.#options);
      return this.#swap({ base, orgs, folder: this.#folder });
    });
  }

  /** What does not load, and for which org everything is denied therefore; without an org: for all of them. */
  notLoaded(): readonly { readonly org_id?: string; readonly problems: readonly ErrorDetail[] }[] {
    return this.#orgs.notLoaded();
  }

  /** Why what is in the folder now was not taken, so that the bundle before it runs on; undefined: it was. */
  get folderProblem(): unknown {
    return this.#reads.problem;
  }

  /** The texts that the requests of an org are judged by here; of one that lays nothing over the bundle those of the bundle. */
  texts(orgId: string): Omit<PolicyInput, 'tier'> {
    return textsOfOrg(this.#base, this.#base.isNone === true ? undefined : this.#overlays.layers(orgId));
  }

  /** What a policy is held against that may let nothing pass. */
  get passage(): PassageOptions {
    return this.#options.passage ?? {};
  }

  /** The overlays that were put for an org, for all nodes. */
  overlays(orgId: string): readonly OrgOverlay[] {
    return this.#overlays.list(orgId);
  }

  /** The rules that an org has because it has credentials, as YAML; undefined when there are none. */
  autoRules(orgId: string): string | undefined {
    return this.#overlays.autoRules(orgId)?.text;
  }

  /**
   * Allows an org the providers that it has credentials for, in the commit that stores those, and no others from then on.
   * @param commit stores what it is given, with whatever belongs to it
   * @throws what `commit` does; then nothing has changed
   */
  async changeAutoRules(
    orgId: string,
    connectorIds: readonly string[],
    commit: (effects: readonly Effect[]) => Promise<void>,
  ): Promise<void> {
    const auto: AutoAllowed = { org_id: orgId, connector_ids: [...new Set(connectorIds)].sort() };
    const at = { space: AUTO_ALLOWED, key: orgId };
    await this.#change('put', async () => {
      const layers = this.#overlays.layers(orgId, { auto });
      const compiled = layers && (await orgPolicy(orgId, this.#base, layers, this.#options));
      await commit([auto.connector_ids.length === 0 ? { op: 'delete', ...at } : { op: 'put', ...at, value: auto }]);
      await this.#overlays.refreshAuto(orgId);
      return this.#put(orgId, compiled);
    });
  }

  /** What an org has switched. */
  addons(orgId: string): OrgAddons {
    return this.#overlays.addons(orgId);
  }

  /** The folders that the policy's files are in. */
  folders(): readonly string[] {
    return this.#options.managedRemotely ? [] : foldersOf(this.#options.dir, this.#folder);
  }

  /**
   * Hot-loads a bundle under the overlays of the folder; it survives restarts until a reload or until the folder's content changes (decisions 5.1, 5.5, 5.6).
   * @param accept told of what runs before that is changed, and what the change does; throws when it is not what its caller means
   * @throws GatewayError `invalid_policy` with every mistake in `details`; `record_store_unavailable`. The running bundle stays.
   */
  async put(
    bundleYaml: string,
    commit: Commit = commitAlone(this.#options.store),
    accept: (before: ActivePolicy, weighed: Weighed) => void = () => undefined,
  ): Promise<ActivePolicy> {
    return this.#change('put', async () => {
      const { put, base, weighed, told } = await tryBundle(bundleYaml, { folder: this.#folder, base: this.#base }, this.#options);
      accept(this.#base.active, weighed);
      const orgs = await compileOrgs(this.#overlays, base, this.#options);
      await commit(base.active.bundle_id, [{ op: 'put', ...PUT_BUNDLE, value: put }], [], [], told);
      this.#reads.setAside(put.folder_hash);
      return this.#swap({ base, orgs, folder: this.#folder });
    });
  }

  /** What {@link put} would do, and refuse. Changes nothing. */
  tryBundle(bundleYaml: string): Promise<TriedBundle> {
    return this.#inTurn(() => tryBundle(bundleYaml, { folder: this.#folder, base: this.#base }, this.#options));
  }

  /**
   * Takes a bundle of the control plane whose signature holds: it is compiled with what orgs lay over it, then stored, and then in force.
   * @param store what makes it durable, with what an entry tells of it, which is found out when asked for; not asked when it does not load
   * @throws GatewayError `invalid_policy` with every mistake in `details`; what `store` throws. The running bundle stays.
   */
  takeFetched(bundle: FetchedBundle, store: (told: () => Promise<ToldChanges>) => Promise<void>): Promise<ActivePolicy> {
    return this.#change('control_plane', async () => {
      const base = await compileFetched(bundle, this.#options);
      const orgs = await compileOrgs(this.#overlays, base, this.#options);
      await store(() => toldOfBundle(this.#base, base, this.#options));
      return this.#swap({ base, orgs, folder: undefined });
    });
  }

  /**
   * Lays an overlay over the bundle, for the requests of one org, from the next one on; it survives restarts and reloads. An empty text takes away what was there.
   * @param accept told of what is there before that is changed, and what the change does; throws when it is not what its caller means
   * @returns what the org is judged by with it, on the node that it is for
   * @throws GatewayError `invalid_policy` with every mistake in `details`, among them layers that the tier does not include; `record_store_unavailable`, `conflict`. What is wrong elsewhere
   *   keeps nobody from this change: it goes on denying
   */
  async putOverlay(
    place: OverlayPlace,
    text: OverlayText,
    accept: (before: readonly OrgOverlay[], tried: TriedOverlay) => void,
    commit: Commit = commitAlone(this.#options.store),
  ): Promise<ActivePolicy> {
    const { org_id: orgId } = place;
    let judged: ActivePolicy | undefined;
    await this.#change('put', async () => {
      const one = await this.#try(place, text);
      accept(this.overlays(orgId), one);
      const at = { space: OVERLAYS, key: overlayKey(place) };
      if (!(await unlessConflict(commit(orgId, [overlayEffect(one.overlay)], [{ ...at, version: one.version }], [], one.told))))
        throw new GatewayError('conflict', 'Somebody else has changed this overlay at the same moment: read it again.');
      await this.#overlays.refresh(orgId, place);
      judged = one.judged;
      return one.countsHere ? this.#put(orgId, one.judged) : this.current(orgId);
    });
    return judged ?? this.#base.active;
  }

  /** What {@link putOverlay} would do, and refuse. Changes nothing. @throws GatewayError `invalid_policy` */
  tryOverlay(place: OverlayPlace, text: OverlayText): Promise<TriedOverlay> {
    return this.#inTurn(() => this.#try(place, text));
  }

  #try(place: OverlayPlace, text: OverlayText): Promise<TriedOverlay> {
    return tryOverlay(this.#ground(), place, text);
  }

  #ground(): TrialGround {
    return { base: this.#base, overlays: this.#overlays, options: this.#options };
  }

  /** These are all overlays of an org from now on, in one commit. One that does not load denies its requests. */
  async replaceOverlays(orgId: string, overlays: readonly OrgOverlay[], commit: Commit): Promise<void> {
    await this.#change('control_plane', async () => {
      await commit(undefined, this.#overlays.replacing(orgId, overlays));
      await this.#overlays.refreshAll(orgId, overlays);
      const layers = this.#overlays.layers(orgId);
      return this.#put(orgId, layers && (await orgPolicy(orgId, this.#base, layers, this.#options)));
    });
  }

  /**
   * Changes what an org has switched, and with it, in one commit, the rules that come of it.
   * @param change what is switched from now on, of what is; asked again when somebody else was faster
   * @param mayDeny a preset that does not load is taken all the same, and denies
   * @throws GatewayError `invalid_policy` for a preset whose layer the tier does not include; `conflict` when others were faster too often
   */
  async switchAddons(
    orgId: string,
    object: string,
    change: (before: OrgAddons) => OrgAddons,
    commit: Commit = commitAlone(this.#options.store),
    mayDeny = false,
  ): Promise<OrgAddons> {
    await this.#change('put', async () => {
      for (let attempt = 1; ; attempt++) {
        const switched = await this.#trySwitch(orgId, object, change, commit, mayDeny);
        if (switched !== undefined) return switched;
        if (attempt === SWITCH_ATTEMPTS) throw new GatewayError('conflict', 'Others change the add-ons of this org at the same moment.');
      }
    });
    return this.addons(orgId);
  }

  /** Undefined: somebody else was faster. */
  async #trySwitch(
    orgId: string,
    object: string,
    change: (before: OrgAddons) => OrgAddons,
    commit: Commit,
    mayDeny: boolean,
  ): Promise<ActivePolicy | undefined> {
    const at = { space: ADDONS, key: orgId };
    const entity = await this.#options.store.entity(ADDONS, orgId);
    const before = (entity?.value as OrgAddons | undefined) ?? { org_id: orgId, providers: {}, presets: {} };
    const addons = change(before);
    const added = Object.entries(addons.presets).filter(([id, { enabled }]) => enabled && before.presets[id]?.enabled !== true);
    const files = new Set(mayDeny ? [] : added.map(([id]) => presetFile(id)));
    const compiled = await this.#compiled(orgId, this.#overlays.layers(orgId, { addons }), (file) => files.has(file ?? ''));
    if (!(await unlessConflict(commit(object, [{ op: 'put', ...at, value: addons }], [{ ...at, version: entity?.version }]))))
      return undefined;
    await this.#overlays.refresh(orgId);
    return this.#put(orgId, compiled);
  }

  /**
   * Reads the folder again and takes it in the place of whatever runs.
   * @throws GatewayError as {@link put}; `invalid_request` in control-plane mode (specification, "Gateway admin API")
   */
  async reload(commit?: Commit): Promise<ActivePolicy> {
    if (this.#options.managedRemotely) throw new GatewayError('invalid_request', NOTHING_TO_RELOAD);
    return this.#change('reload', async () => this.#take(await this.#reads.read(), commit));
  }

  /**
   * As {@link reload}, when the folder's content is another than the last time. A content that does not load is logged with every mistake, once, and the
   * running bundle stays. Never rejects.
   */
  async follow(): Promise<void> {
    if (this.#options.managedRemotely) return;
    const change = async () => {
      const folder = await this.#reads.read();
      return this.#reads.isSeen(folder) ? undefined : this.#take(folder, this.#options.followBy);
    };
    await this.#reads.following(this.#options.log, () => this.#change('watch', change));
  }

  #take(folder: PolicyFolder, commit: Commit = commitAlone(this.#options.store)): Promise<ActivePolicy> {
    return this.#reads.taking(folder, async () => {
      const base = await compileFolder(folder, this.#options);
      const orgs = await compileOrgs(this.#overlays, base, this.#options);
      await commit(base.active.bundle_id, [{ op: 'delete', ...PUT_BUNDLE }], [], [], await toldOfBundle(this.#base, base, this.#options));
      return this.#swap({ base, orgs, folder });
    });
  }

  /** All of it at once: no request is judged by the bundle of one moment and the overlay of another. */
  #swap({ base, orgs, folder }: Opened): ActivePolicy {
    this.#base = base;
    this.#orgs = orgs;
    this.#folder = folder;
    logLoaded(this.#options, base.active, folder);
    return base.active;
  }

  /** Takes what another writer of the store has laid over the bundle for an org; nothing, when it is what runs. */
  async #follow(orgId: string): Promise<void> {
    try {
      await this.#change('watch', async () => {
        const layers = this.#overlays.layers(orgId);
        const hash = layers && orgHash(this.#base, layers);
        if (this.#orgs.own(orgId)?.content_hash === hash) return undefined;
        return this.#put(orgId, layers && (await orgPolicy(orgId, this.#base, layers, this.#options)));
      });
    } catch (error) {
      this.#options.log.error({ err: error, org_id: orgId }, 'what another node has laid over the policy of an org could not be taken');
    }
  }

  /** @throws GatewayError `invalid_policy` for mistakes in what is changed */
  async #compiled(
    orgId: string,
    layers: OrgLayers | undefined,
    isChanged: (file: string | undefined) => boolean,
  ): Promise<ActivePolicy | undefined> {
    return layers && orgPolicyUnless(isChanged, orgId, this.#base, layers, this.#options);
  }

  #put(orgId: string, compiled: ActivePolicy | undefined): ActivePolicy {
    this.#orgs = this.#orgs.with(orgId, compiled);
    return this.current(orgId);
  }

  #change<T extends ActivePolicy | undefined>(trigger: PolicyLoadEvent['trigger'], change: () => Promise<T>): Promise<T> {
    const { events } = this.#options;
    const result = this.#changes.then(change);
    this.#changes = result.then(
      (active) => active && events.emit('policyLoad', { bundle: 'active', trigger, result: 'loaded' }),
      () => events.emit('policyLoad', { bundle: 'active', trigger, result: 'refused' }),
    );
    return result;
  }
}
