import type { Events } from '../base/events/bus.ts';
import type { PolicyLoadEvent } from '../base/events/events.ts';
import type { Clock } from '../base/lib/clock.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import type { Logger } from '../base/lib/log.ts';
import { messageOf } from '../base/lib/thrown.ts';
import type { CompiledPolicy } from '../decide/policy/compiled.ts';
import { unusedFilesMessage } from '../decide/policy/lint.ts';
import type { Store } from '../storage/contract/store.ts';
import { type Commit, commitAlone } from './commit.ts';
import { type LanguageOptions, loadPolicy } from './load-policy.ts';
import { foldersOf, hashTexts, type PolicyFolder, readPolicyFolder } from './policy-folder.ts';

/** The snapshot that requests are decided by. A request keeps the one it started with. */
export interface ActivePolicy {
  readonly policy: CompiledPolicy;
  readonly bundle_id: string;
  readonly version: string;
  /** `file`: the policies folder; `api`: a bundle that was put. */
  readonly source: 'file' | 'api';
  /** Milliseconds since the epoch; of a bundle that was put: when that was. */
  readonly loaded_at: number;
  /** Lower-case hex SHA-256 over the texts that it was compiled from. */
  readonly content_hash: string;
}

export interface PolicyServiceOptions extends LanguageOptions {
  /** The policies folder. */
  readonly dir: string;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: Events;
  /** Control-plane mode: the bundle comes from the control plane, so the folder is not read again on request. */
  readonly managedRemotely: boolean;
}

const SPACE = 'policy';
const KEY = 'bundle';
const PUT_FILE = 'bundle_yaml';

/** A bundle that was put, as the store keeps it. */
interface PutBundle {
  readonly bundle_yaml: string;
  readonly put_at: number;
  /** Content of the policies folder at that moment: another content, and the folder counts again (decision 5.5). */
  readonly folder_hash: string;
}

/**
 * Holds the active policy snapshot: one reference, swapped when a bundle has compiled and, if it came by API, is stored. A bundle that does not load leaves
 * the running one in place.
 */
export class PolicyService {
  readonly #options: PolicyServiceOptions;
  #folder: PolicyFolder;
  #active: ActivePolicy;
  /** Content of the folder when it was last taken, refused, or set aside by a bundle that was put: another content is a change. */
  #seen: string;
  /** Why the folder cannot be read at the moment, so that it is told once. */
  #unreadable: string | undefined;
  /** Changes run one after the other. */
  #changes: Promise<unknown> = Promise.resolve();

  private constructor(options: PolicyServiceOptions, folder: PolicyFolder, active: ActivePolicy) {
    this.#options = options;
    this.#folder = folder;
    this.#active = active;
    this.#seen = folder.hash;
  }

  /**
   * Loads the folder, or the bundle that was put since its content last changed.
   * @throws GatewayError `invalid_policy`: no folder, no bundle, or mistakes, all of which are in the message, one a line
   */
  static async open(options: PolicyServiceOptions): Promise<PolicyService> {
    const { store, log } = options;
    const folder = await readPolicyFolder(options.dir);
    const fromFolder = await compileFolder(folder, options);
    const put = readPut(await store.get(SPACE, KEY));
    if (put === undefined) return PolicyService.#opened(options, folder, fromFolder);
    if (put.folder_hash === folder.hash) {
      const what = 'The policy bundle that was put by API no longer loads (a change in the policies folder drops it)';
      return PolicyService.#opened(options, folder, await compilePut(put, folder, options, what));
    }
    await store.commit(undefined, [{ op: 'delete', space: SPACE, key: KEY }]);
    log.warn({ dir: folder.dir, bundle_id: fromFolder.bundle_id }, 'the policies folder has changed and replaces the bundle that was put');
    return PolicyService.#opened(options, folder, fromFolder);
  }

  static #opened(options: PolicyServiceOptions, folder: PolicyFolder, active: ActivePolicy): PolicyService {
    logLoaded(options.log, active, folder);
    return new PolicyService(options, folder, active);
  }

  /** The snapshot of this moment. */
  current(): ActivePolicy {
    return this.#active;
  }

  /** The folders that the policy's files are in. */
  folders(): readonly string[] {
    return foldersOf(this.#options.dir, this.#folder);
  }

  /**
   * Hot-loads a bundle under the overlays of the folder; it survives restarts until a reload or until the folder's content changes (decisions 5.1, 5.5, 5.6).
   * @throws GatewayError `invalid_policy` with every mistake in `details`; `record_store_unavailable`. The running bundle stays.
   */
  put(bundleYaml: string, commit: Commit = commitAlone(this.#options.store)): Promise<ActivePolicy> {
    return this.#change('put', async () => {
      const { clock } = this.#options;
      const onDisk = await readPolicyFolder(this.#options.dir).catch(() => this.#folder);
      // As in a file, a byte order mark is no part of the text.
      const put: PutBundle = { bundle_yaml: bundleYaml.replace(/^\ufeff/, ''), put_at: clock.now(), folder_hash: onDisk.hash };
      const active = await compilePut(put, this.#folder, this.#options, 'The policy bundle does not load');
      await commit(active.bundle_id, [{ op: 'put', space: SPACE, key: KEY, value: put }]);
      this.#seen = onDisk.hash;
      return this.#swap(active, this.#folder);
    });
  }

  /**
   * Reads the folder again and takes it in the place of whatever runs.
   * @throws GatewayError as {@link put}; `invalid_request` in control-plane mode (specification, "Gateway admin API")
   */
  async reload(commit?: Commit): Promise<ActivePolicy> {
    if (this.#options.managedRemotely) {
      throw new GatewayError(
        'invalid_request',
        'The policy of this gateway comes from its control plane: there is nothing to reload here.',
      );
    }
    return this.#change('reload', async () => this.#take(await readPolicyFolder(this.#options.dir), commit));
  }

  /**
   * As {@link reload}, when the folder's content is another than the last time. A content that does not load is logged with every mistake, once, and the
   * running bundle stays. Never rejects.
   */
  async follow(): Promise<void> {
    try {
      await this.#change('watch', async () => {
        const folder = await readPolicyFolder(this.#options.dir);
        this.#unreadable = undefined;
        return folder.hash === this.#seen ? undefined : this.#take(folder);
      });
    } catch (error) {
      const message = messageOf(error);
      if (message === this.#unreadable) return;
      this.#unreadable = message;
      this.#options.log.error({ dir: this.#options.dir }, message);
    }
  }

  async #take(folder: PolicyFolder, commit: Commit = commitAlone(this.#options.store)): Promise<ActivePolicy> {
    this.#seen = folder.hash;
    const active = await compileFolder(folder, this.#options);
    await commit(active.bundle_id, [{ op: 'delete', space: SPACE, key: KEY }]);
    return this.#swap(active, folder);
  }

  #swap(active: ActivePolicy, folder: PolicyFolder): ActivePolicy {
    this.#active = active;
    this.#folder = folder;
    logLoaded(this.#options.log, active, folder);
    return active;
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

function logLoaded(log: Logger, { bundle_id, version, source, content_hash, policy }: ActivePolicy, { dir, addons }: PolicyFolder): void {
  log.info({ bundle_id, version, source, content_hash, rules: policy.ruleCount }, 'policy bundle loaded');
  if (policy.unusedFiles.length > 0) log.warn({ dir, files: policy.unusedFiles }, unusedFilesMessage(policy.unusedFiles));
  const read = new Set(policy.layers.flatMap((layer) => layer.rules.map((rule) => rule.file)));
  if (source === 'api' || !addons.length || addons.some(({ file }) => read.has(file))) return;
  log.warn({ dir, addons: addons.map(({ file }) => file) }, 'addons/ does not count, since the bundle has inline_rules or files');
}

async function compileFolder(folder: PolicyFolder, options: PolicyServiceOptions): Promise<ActivePolicy> {
  const policy = await loadPolicy(folder, options, `The policy bundle in ${folder.dir} does not load`);
  return snapshot(policy, { source: 'file', loaded_at: options.clock.now(), content_hash: folder.hash });
}

async function compilePut(put: PutBundle, { overlays }: PolicyFolder, options: PolicyServiceOptions, what: string): Promise<ActivePolicy> {
  const bundle = { text: put.bundle_yaml, file: PUT_FILE };
  const policy = await loadPolicy({ bundle, overlays }, options, what);
  return snapshot(policy, { source: 'api', loaded_at: put.put_at, content_hash: hashTexts([bundle, overlays.org, overlays.node]) });
}

function snapshot(policy: CompiledPolicy, from: Pick<ActivePolicy, 'source' | 'loaded_at' | 'content_hash'>): ActivePolicy {
  return { policy, bundle_id: policy.bundle_id, version: policy.version, ...from };
}

function readPut(value: unknown): PutBundle | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (!('bundle_yaml' in value) || !('put_at' in value) || !('folder_hash' in value)) return undefined;
  const { bundle_yaml, put_at, folder_hash } = value;
  if (typeof bundle_yaml !== 'string' || typeof put_at !== 'number' || typeof folder_hash !== 'string') return undefined;
  return { bundle_yaml, put_at, folder_hash };
}
