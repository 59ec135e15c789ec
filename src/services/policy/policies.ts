import { isDeepStrictEqual } from 'node:util';
import type { Events } from '../../base/events/bus.ts';
import type { PolicyLoadEvent } from '../../base/events/events.ts';
import { type ErrorDetail, GatewayError } from '../../base/lib/gateway-error.ts';
import type { Maybe } from '../../base/lib/maybe.ts';
import type { OrgAddons, PlanTier } from '../../base/model/org.ts';
import type { PolicyInput } from '../../decide/policy/compile.ts';
import type { PassageOptions } from '../../decide/policy/refuses-all.ts';
import type { Effect } from '../../storage/contract/store.ts';
import type { Commit, ToldChanges } from '../registers/commit.ts';
import { type Along, REMOVED, Register } from '../registers/register.ts';
import {
  type ActivePolicy,
  type Base,
  compileAgain,
  compileFetched,
  compileFolder,
  compilePut,
  type FetchedBundle,
  orgHash,
  orgPolicy,
  orgPolicyUnless,
  type PutBundle,
  readPut,
  textsOfOrg,
} from './active-policy.ts';
import type { AutoAllowed } from './auto-rules.ts';
import { type TriedBundle, toldOfBundle, tryBundle } from './bundle-trial.ts';
import { firstBase, logLoaded, NOTHING_TO_RELOAD, type PolicyPlace, PUT_KEY, PUT_SPACE } from './first-policy.ts';
import { FolderReads } from './folder-reads.ts';
import { type OrgOverlay, OrgOverlays, type OverlayPlace, presetFile } from './org-overlays.ts';
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

/** Everything that is in force together. */
interface Opened {
  /** Undefined: the bundle comes from the control plane. */
  readonly folder: PolicyFolder | undefined;
  readonly base: Base;
  readonly orgs: OrgPolicies;
  /** The bundle that was put and runs; undefined: the folder, or the control plane. */
  readonly put: PutBundle | undefined;
}

/**
 * Holds the active policy snapshot: one reference, swapped when a bundle has compiled and, if it came by API, is
 * stored. A bundle that does not load leaves the running one in place. An org that has laid something over the bundle
 * (decisions 5.6, 5.7) has a snapshot of its own; all others share one.
 */
export class PolicyService {
  /** With the tier that holds now. */
  #options: PolicyServiceOptions;
  readonly #overlays: OrgOverlays;
  readonly drafts: PolicyDrafts = new PolicyDrafts(
    () => this.#ground(),
    () => this.#folder?.dir,
  );
  readonly #bundles: Register<PutBundle>;
  #running: PutBundle | undefined;
  #folder: PolicyFolder | undefined;
  #base: Base;
  #orgs: OrgPolicies;
  readonly #reads: FolderReads;
  /** Changes run one after the other. */
  #changes: Promise<unknown> = Promise.resolve();

  private constructor(options: PolicyServiceOptions, bundles: Register<PutBundle>, overlays: OrgOverlays, opened: Opened) {
    this.#options = options;
    this.#bundles = bundles;
    this.#overlays = overlays;
    this.#running = opened.put;
    this.#folder = opened.folder;
    this.#base = opened.base;
    this.#orgs = opened.orgs;
    this.#reads = new FolderReads(options.dir, opened.folder?.hash);
  }

  /**
   * Loads the folder, or the bundle that was put since its content last changed; nothing of both where the control
   * plane gives the bundle.
   * @throws GatewayError `invalid_policy`: no folder, no bundle, or mistakes, all of which are in the message, one a
   * line
   */
  static async open(options: PolicyServiceOptions): Promise<PolicyService> {
    let followPut = (): unknown => undefined;
    const bundles = await Register.open(options.store, PUT_SPACE, { read: readPut, changed: () => void followPut() });
    const { folder, base, put } = await firstBase(options, bundles);
    const early = new Set<string>();
    let changed = (orgId: string): unknown => early.add(orgId);
    const overlays = await OrgOverlays.open(options, (orgId) => void changed(orgId));
    const orgs = await compileOrgs(overlays, base, options);
    if (base.isNone !== true) logLoaded(options, base.active, folder);
    const service = new PolicyService(options, bundles, overlays, { folder, base, orgs, put });
    changed = (orgId) => service.#follow(orgId);
    followPut = () => service.#followPut();
    // What came while the others were compiled.
    for (const orgId of early) void service.#follow(orgId);
    if (!isDeepStrictEqual(bundles.get(PUT_KEY), put)) void service.#followPut();
    return service;
  }

  /** From now on what the watch of the folder takes is stored by this commit, which has an entry of the audit trail. */
  followBy(commit: Commit): void {
    this.#options = { ...this.#options, followBy: commit };
  }

  /**
   * The snapshot of this moment: that of an org, where it is compiled ({@link ready}), or the one of all that lay
   * nothing over the bundle.
   */
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

  /**
   * One after the other with all changes: nothing that came meanwhile is lost, and the patterns of one policy at a time
   * are compiled.
   */
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
   * Holds another tier from now on. What it does not include denies: the requests of an org for what that lays over the
   * bundle, all for the bundle itself. Each of these can be taken away or replaced, and all of it counts again on a
   * tier that includes it.
   */
  async holdTier(tier: PlanTier): Promise<void> {
    if (tier === this.#options.tier) return;
    await this.#change('control_plane', async () => {
      this.#options = { ...this.#options, tier };
      this.#overlays.holdTier(tier);
      const base = await compileAgain(this.#base, this.#options);
      const orgs = await compileOrgs(this.#overlays, base, this.#options);
      return this.#swap({ base, orgs, folder: this.#folder, put: this.#running });
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

  /**
   * The texts that the requests of an org are judged by here; of one that lays nothing over the bundle those of the
   * bundle.
   */
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
   * Allows an org the providers that it has credentials for, in the commit that stores those, and no others from then
   * on.
   * @param commit stores what it is given, with whatever belongs to it
   * @throws what `commit` does; then nothing has changed
   */
  async changeAutoRules(
    orgId: string,
    connectorIds: readonly string[],
    commit: (effects: readonly Effect[]) => Promise<void>,
  ): Promise<void> {
    const auto: AutoAllowed = { org_id: orgId, connector_ids: [...new Set(connectorIds)].sort() };
    await this.#change('put', async () => {
      const layers = this.#overlays.layers(orgId, { auto });
      const compiled = layers && (await orgPolicy(orgId, this.#base, layers, this.#options));
      await this.#overlays.allow(auto, commit);
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
   * Hot-loads a bundle under the overlays of the folder; it survives restarts until a reload or until the folder's
   * content changes (decisions 5.1, 5.5, 5.6).
   * @param accept told of what runs before that is changed, and what the change does; throws when it is not what its
   * caller means
   * @throws GatewayError `invalid_policy` with every mistake in `details`; `record_store_unavailable`. The running
   * bundle stays.
   */
  async put(
    bundleYaml: string,
    commit?: Commit,
    accept: (before: ActivePolicy, weighed: Weighed) => void = () => undefined,
  ): Promise<ActivePolicy> {
    return this.#change('put', async () => {
      const { put, base, weighed, told } = await tryBundle(bundleYaml, { folder: this.#folder, base: this.#base }, this.#options);
      accept(this.#base.active, weighed);
      const orgs = await compileOrgs(this.#overlays, base, this.#options);
      await this.#storePut(put, base, told, commit);
      this.#reads.setAside(put.folder_hash);
      return this.#swap({ base, orgs, folder: this.#folder, put });
    });
  }

  async #storePut(next: PutBundle | typeof REMOVED, { active }: Base, told: ToldChanges, commit: Commit | undefined): Promise<void> {
    const change = (_stored: PutBundle | undefined, along: Along): PutBundle | typeof REMOVED => {
      along.told = told;
      return next;
    };
    await this.#bundles.change(PUT_KEY, change, { commit, object: active.bundle_id });
  }

  /** What {@link put} would do, and refuse. Changes nothing. */
  tryBundle(bundleYaml: string): Promise<TriedBundle> {
    return this.#inTurn(() => tryBundle(bundleYaml, { folder: this.#folder, base: this.#base }, this.#options));
  }

  /**
   * Takes a bundle of the control plane whose signature holds: it is compiled with what orgs lay over it, then stored,
   * and then in force.
   * @param store what makes it durable, with what an entry tells of it, which is found out when asked for; not asked
   * when it does not load
   * @throws GatewayError `invalid_policy` with every mistake in `details`; what `store` throws. The running bundle
   * stays.
   */
  takeFetched(bundle: FetchedBundle, store: (told: () => Promise<ToldChanges>) => Promise<void>): Promise<ActivePolicy> {
    return this.#change('control_plane', async () => {
      const base = await compileFetched(bundle, this.#options);
      const orgs = await compileOrgs(this.#overlays, base, this.#options);
      await store(() => toldOfBundle(this.#base, base, this.#options));
      return this.#swap({ base, orgs, folder: undefined, put: undefined });
    });
  }

  /**
   * Lays an overlay over the bundle, for the requests of one org, from the next one on; it survives restarts and
   * reloads. An empty text takes away what was there.
   * @param accept told of what is there before that is changed, and what the change does; throws when it is not what
   * its caller means
   * @returns what the org is judged by with it, on the node that it is for
   * @throws GatewayError `invalid_policy` with every mistake in `details`, among them layers that the tier does not
   * include; `record_store_unavailable`, `conflict`. What is wrong elsewhere keeps nobody from this change: it goes on
   * denying
   */
  async putOverlay(
    place: OverlayPlace,
    text: OverlayText,
    accept: (before: readonly OrgOverlay[], tried: TriedOverlay) => void,
    commit?: Commit,
  ): Promise<ActivePolicy> {
    const { org_id: orgId } = place;
    let judged: ActivePolicy | undefined;
    await this.#change('put', async () => {
      let countsHere = false;
      const next = async (stored: OrgOverlay | undefined): Promise<TriedOverlay> => {
        const one = await tryOverlay(this.#ground(), place, text, stored);
        accept(this.overlays(orgId), one);
        ({ judged, countsHere } = one);
        return one;
      };
      await this.#overlays.put(place, next, commit);
      return countsHere ? this.#put(orgId, judged) : this.current(orgId);
    });
    return judged ?? this.#base.active;
  }

  /** What {@link putOverlay} would do, and refuse. Changes nothing. @throws GatewayError `invalid_policy` */
  tryOverlay(place: OverlayPlace, text: OverlayText): Promise<TriedOverlay> {
    return this.#inTurn(() => tryOverlay(this.#ground(), place, text, this.#overlays.get(place)));
  }

  #ground(): TrialGround {
    return { base: this.#base, overlays: this.#overlays, options: this.#options };
  }

  /** These are all overlays of an org from now on, in one commit. One that does not load denies its requests. */
  async replaceOverlays(orgId: string, overlays: readonly OrgOverlay[], commit: Commit): Promise<void> {
    await this.#change('control_plane', async () => {
      await this.#overlays.replace(orgId, overlays, commit);
      const layers = this.#overlays.layers(orgId);
      return this.#put(orgId, layers && (await orgPolicy(orgId, this.#base, layers, this.#options)));
    });
  }

  /**
   * Changes what an org has switched, and with it, in one commit, the rules that come of it.
   * @param change what is switched from now on, of what is; asked again when somebody else was faster
   * @param mayDeny a preset that does not load is taken all the same, and denies
   * @throws GatewayError `invalid_policy` for a preset whose layer the tier does not include; `conflict` when others
   * were faster too often
   */
  async switchAddons(
    orgId: string,
    object: string,
    change: (before: OrgAddons) => OrgAddons,
    commit?: Commit,
    mayDeny = false,
  ): Promise<OrgAddons> {
    await this.#change('put', async () => {
      let compiled: ActivePolicy | undefined;
      const next = async (before: OrgAddons): Promise<OrgAddons> => {
        const addons = change(before);
        const added = Object.entries(addons.presets).filter(([id, { enabled }]) => enabled && before.presets[id]?.enabled !== true);
        const files = new Set(mayDeny ? [] : added.map(([id]) => presetFile(id)));
        const layers = this.#overlays.layers(orgId, { addons });
        compiled = layers && (await orgPolicyUnless((file) => files.has(file ?? ''), orgId, this.#base, layers, this.#options));
        return addons;
      };
      await this.#overlays.switch(orgId, next, { commit, object });
      return this.#put(orgId, compiled);
    });
    return this.addons(orgId);
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
   * As {@link reload}, when the folder's content is another than the last time. A content that does not load is logged
   * with every mistake, once, and the running bundle stays. Never rejects.
   */
  async follow(): Promise<void> {
    if (this.#options.managedRemotely) return;
    const change = async () => {
      const folder = await this.#reads.read();
      return this.#reads.isSeen(folder) ? undefined : this.#take(folder, this.#options.followBy);
    };
    await this.#reads.following(this.#options.log, () => this.#change('watch', change));
  }

  #take(folder: PolicyFolder, commit?: Commit): Promise<ActivePolicy> {
    return this.#reads.taking(folder, async () => {
      const base = await compileFolder(folder, this.#options);
      const orgs = await compileOrgs(this.#overlays, base, this.#options);
      await this.#storePut(REMOVED, base, await toldOfBundle(this.#base, base, this.#options), commit);
      return this.#swap({ base, orgs, folder, put: undefined });
    });
  }

  /**
   * Takes the bundle that another writer of the store has put, or, where one was taken away, what is in the folder;
   * nothing, when it is what runs.
   */
  async #followPut(): Promise<void> {
    try {
      await this.#change('watch', async () => {
        const put = this.#bundles.get(PUT_KEY);
        if (isDeepStrictEqual(put, this.#running) || this.#folder === undefined) return undefined;
        const folder = await this.#reads.read();
        if (put === undefined) return this.#takeFollowed({ folder, put, base: await compileFolder(folder, this.#options) });
        // Decision 5.5: a bundle counts beside the content of the folder that it was put over.
        if (put.folder_hash !== folder.hash) {
          this.#options.log.warn(
            { dir: folder.dir },
            'another node has put a policy bundle; the policies folder here has another content, and counts',
          );
          return undefined;
        }
        const base = await compilePut(put, folder, this.#options, 'The policy bundle that another node has put does not load');
        return this.#takeFollowed({ folder, put, base });
      });
    } catch (error) {
      this.#options.log.error({ err: error }, 'the policy bundle that another node has put or taken away could not be followed');
    }
  }

  async #takeFollowed(next: Omit<Opened, 'orgs'> & { readonly folder: PolicyFolder }): Promise<ActivePolicy> {
    const orgs = await compileOrgs(this.#overlays, next.base, this.#options);
    this.#reads.setAside(next.folder.hash);
    return this.#swap({ ...next, orgs });
  }

  /** All of it at once: no request is judged by the bundle of one moment and the overlay of another. */
  #swap({ base, orgs, folder, put }: Opened): ActivePolicy {
    this.#running = put;
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
