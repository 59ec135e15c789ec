import type { Clock } from '../base/lib/clock.ts';
import { type ErrorDetail, GatewayError } from '../base/lib/gateway-error.ts';
import type { Logger } from '../base/lib/log.ts';
import { compilePolicy } from '../decide/policy/compile.ts';
import type { CompiledPolicy } from '../decide/policy/compiled.ts';
import type { PlanTier } from '../decide/policy/layers.ts';
import type { Store } from '../storage/contract/store.ts';
import { hashTexts, type PolicyFolder, readPolicyFolder } from './policy-folder.ts';

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

export interface PolicyServiceOptions {
  /** The policies folder. */
  readonly dir: string;
  readonly tier: PlanTier;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  /** Turns neutral names and aliases into canonical connector ids; undefined for an unknown one. Default: ids are taken as they are. */
  readonly connectorId?: ((text: string) => string | undefined) | undefined;
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
  /** Changes run one after the other. */
  #changes: Promise<unknown> = Promise.resolve();

  private constructor(options: PolicyServiceOptions, folder: PolicyFolder, active: ActivePolicy) {
    this.#options = options;
    this.#folder = folder;
    this.#active = active;
  }

  /**
   * Loads the folder, or the bundle that was put since its content last changed.
   * @throws GatewayError `invalid_policy`: no folder, no bundle, or mistakes, all of which are in the message, one a line
   */
  static async open(options: PolicyServiceOptions): Promise<PolicyService> {
    const { store, log } = options;
    const folder = await readPolicyFolder(options.dir);
    const fromFolder = compileFolder(folder, options);
    const put = readPut(await store.get(SPACE, KEY));
    if (put === undefined) return PolicyService.#opened(options, folder, fromFolder);
    if (put.folder_hash === folder.hash) {
      const what = 'The policy bundle that was put by API no longer loads (a change in the policies folder drops it)';
      return PolicyService.#opened(options, folder, compilePut(put, folder, options, what));
    }
    await store.commit(undefined, [{ op: 'delete', space: SPACE, key: KEY }]);
    log.warn({ dir: folder.dir, bundle_id: fromFolder.bundle_id }, 'the policies folder has changed and replaces the bundle that was put');
    return PolicyService.#opened(options, folder, fromFolder);
  }

  static #opened(options: PolicyServiceOptions, folder: PolicyFolder, active: ActivePolicy): PolicyService {
    logLoaded(options.log, active);
    return new PolicyService(options, folder, active);
  }

  /** The snapshot of this moment. */
  current(): ActivePolicy {
    return this.#active;
  }

  /**
   * Hot-loads a bundle under the overlays of the folder; it survives restarts until a reload or until the folder's content changes (decisions 5.1, 5.5, 5.6).
   * @throws GatewayError `invalid_policy` with every mistake in `details`; `record_store_unavailable`. The running bundle stays.
   */
  put(bundleYaml: string): Promise<ActivePolicy> {
    return this.#change(async () => {
      const { clock, store } = this.#options;
      const onDisk = await readPolicyFolder(this.#options.dir).catch(() => this.#folder);
      const put: PutBundle = { bundle_yaml: bundleYaml, put_at: clock.now(), folder_hash: onDisk.hash };
      const active = compilePut(put, this.#folder, this.#options, 'The policy bundle does not load');
      await store.commit(undefined, [{ op: 'put', space: SPACE, key: KEY, value: put }]);
      return this.#swap(active, this.#folder);
    });
  }

  /**
   * Reads the folder again and takes it in the place of whatever runs.
   * @throws GatewayError as {@link put}
   */
  reload(): Promise<ActivePolicy> {
    return this.#change(async () => {
      const folder = await readPolicyFolder(this.#options.dir);
      const active = compileFolder(folder, this.#options);
      await this.#options.store.commit(undefined, [{ op: 'delete', space: SPACE, key: KEY }]);
      return this.#swap(active, folder);
    });
  }

  #swap(active: ActivePolicy, folder: PolicyFolder): ActivePolicy {
    this.#active = active;
    this.#folder = folder;
    logLoaded(this.#options.log, active);
    return active;
  }

  #change(change: () => Promise<ActivePolicy>): Promise<ActivePolicy> {
    const result = this.#changes.then(change);
    this.#changes = result.catch(() => undefined);
    return result;
  }
}

function logLoaded(log: Logger, { bundle_id, version, source, content_hash, policy }: ActivePolicy): void {
  log.info({ bundle_id, version, source, content_hash, rules: policy.ruleCount }, 'policy bundle loaded');
}

function compileFolder(folder: PolicyFolder, { tier, clock, connectorId }: PolicyServiceOptions): ActivePolicy {
  const { bundle, files, addons, overlays } = folder;
  const { policy, errors } = compilePolicy({ bundle, files, addons, overlays, tier }, connectorId ? { connectorId } : {});
  if (errors !== undefined) throw invalidPolicy(`The policy bundle in ${folder.dir} does not load`, errors);
  return {
    policy,
    bundle_id: policy.bundle_id,
    version: policy.version,
    source: 'file',
    loaded_at: clock.now(),
    content_hash: folder.hash,
  };
}

function compilePut(put: PutBundle, { overlays }: PolicyFolder, { tier, connectorId }: PolicyServiceOptions, what: string): ActivePolicy {
  const bundle = { text: put.bundle_yaml, file: PUT_FILE };
  const { policy, errors } = compilePolicy({ bundle, overlays, tier }, connectorId ? { connectorId } : {});
  if (errors !== undefined) throw invalidPolicy(what, errors);
  const contentHash = hashTexts([bundle, overlays.org, overlays.node]);
  return { policy, bundle_id: policy.bundle_id, version: policy.version, source: 'api', loaded_at: put.put_at, content_hash: contentHash };
}

function invalidPolicy(what: string, details: readonly ErrorDetail[]): GatewayError {
  return new GatewayError('invalid_policy', `${what}:\n${details.map(mistakeLine).join('\n')}`, { details });
}

/** `bundle.yaml:12:5: message (hint)`, as editors and terminals link it. */
function mistakeLine({ file, line, column, message, hint, rule_id }: ErrorDetail): string {
  const where = [file, line, column].filter((part) => part !== undefined).join(':');
  return `  ${where}: ${rule_id === undefined ? '' : `rule "${rule_id}": `}${message}${hint === undefined ? '' : ` (${hint})`}`;
}

function readPut(value: unknown): PutBundle | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (!('bundle_yaml' in value) || !('put_at' in value) || !('folder_hash' in value)) return undefined;
  const { bundle_yaml, put_at, folder_hash } = value;
  if (typeof bundle_yaml !== 'string' || typeof put_at !== 'number' || typeof folder_hash !== 'string') return undefined;
  return { bundle_yaml, put_at, folder_hash };
}
