import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Attribution } from '../../base/model/action-request.ts';
import type { Effect, Expectation, Store } from '../../storage/contract/store.ts';
import type { Commit } from '../registers/commit.ts';
import { workloadKey } from '../registers/org-key.ts';
import { type Along, Register } from '../registers/register.ts';
import { chargeable } from './projects.ts';

export const ORG_DEFAULTS = 'org_defaults';
const WORKLOADS = 'workload';
/** Stands for what those do not say that have defaults of their own, and for all other orgs. */
export const ANY_ORG = '*';

/** What is stored of an org; what it does not say is not there. */
interface StoredDefaults {
  readonly org_id?: string;
  readonly workload_id?: string;
  readonly project_id?: string;
  readonly updated_at?: string;
}

interface Known extends StoredDefaults {
  /** Made once, and not by each call; undefined: no project. */
  readonly attribution: Attribution | undefined;
}

/** The defaults of an org that are in force (specification, "Org defaults"). */
export interface OrgDefaults {
  readonly org_id: string;
  readonly workload_id: string | null;
  /** null: what nobody attributes has no project. */
  readonly project_id: string | null;
  /** null: the org has never said any. */
  readonly updated_at: string | null;
}

/** `null` takes back what the org has said; what is left out stays. */
export interface OrgDefaultsChange {
  readonly workload_id?: string | null | undefined;
  readonly project_id?: string | null | undefined;
}

interface DefaultsChanging {
  readonly clock: Clock;
  /** Asked, with the defaults as they are, before they are changed; throws when they should not be. */
  readonly expectShown?: (defaults: OrgDefaults) => void;
  readonly commit?: Commit;
}

/**
 * What an org gives to traffic that names none of it (decisions 4.4, 6.11, 6.13), in memory, also as other writers of
 * the store change it.
 */
export class OrgDefaultsService {
  readonly #store: Store;
  readonly #defaults: Register<Known, StoredDefaults>;

  private constructor(store: Store, defaults: Register<Known, StoredDefaults>) {
    this.#store = store;
    this.#defaults = defaults;
  }

  static async open(store: Store): Promise<OrgDefaultsService> {
    return new OrgDefaultsService(store, await Register.openSealed(store, ORG_DEFAULTS, { stored, opened: known }));
  }

  /** What a fresh store says for every org. */
  static ofAll(defaults: StoredDefaults): Effect {
    return { op: 'put', space: ORG_DEFAULTS, key: ANY_ORG, value: defaults };
  }

  /** Of proxied traffic that names none; undefined when nothing is said. */
  workloadId(orgId: string): string | undefined {
    return this.#defaults.get(orgId)?.workload_id ?? this.#defaults.get(ANY_ORG)?.workload_id;
  }

  /** What is charged where neither caller, workload nor policy says it; undefined when the org says nothing either. */
  attribution(orgId: string): Attribution | undefined {
    return this.#defaults.get(orgId)?.attribution ?? this.#defaults.get(ANY_ORG)?.attribution;
  }

  get(orgId: string): OrgDefaults {
    return this.#shown(orgId, this.#defaults.get(orgId));
  }

  #shown(orgId: string, own: StoredDefaults | undefined): OrgDefaults {
    const others = this.#defaults.get(ANY_ORG);
    return {
      org_id: orgId,
      workload_id: own?.workload_id ?? others?.workload_id ?? null,
      project_id: own?.project_id ?? others?.project_id ?? null,
      updated_at: own?.updated_at ?? null,
    };
  }

  /**
   * Counts from the next call on. What others change meanwhile is kept.
   * @throws GatewayError `conflict` for a project that is archived, `invalid_request` for a workload that the org has
   * not
   */
  async change(
    orgId: string,
    { workload_id: workloadId, project_id: projectId }: OrgDefaultsChange,
    { clock, expectShown, commit }: DefaultsChanging,
  ): Promise<OrgDefaults> {
    const next = async (found: StoredDefaults | undefined, { expect }: Along): Promise<StoredDefaults> => {
      expectShown?.(this.#shown(orgId, found));
      if (typeof workloadId === 'string') expect.push(await this.#usable(orgId, workloadId));
      if (typeof projectId === 'string') expect.push(await chargeable(this.#store, orgId, projectId));
      return {
        org_id: orgId,
        ...said('workload_id', workloadId === undefined ? found?.workload_id : workloadId),
        ...said('project_id', projectId === undefined ? found?.project_id : projectId),
        updated_at: timestamp(clock.now()),
      };
    };
    await this.#defaults.change(orgId, next, { commit });
    return this.get(orgId);
  }

  /** What must stay as it is for a project not to be the default of its org; undefined when it is. */
  async isNotDefault(orgId: string, projectId: string): Promise<Expectation | undefined> {
    const found = await this.#store.entity(ORG_DEFAULTS, orgId);
    const isDefault = stored(found?.value)?.project_id === projectId;
    return isDefault ? undefined : { space: ORG_DEFAULTS, key: orgId, version: found?.version };
  }

  /**
   * What must stay as it is for a workload to be usable: the own one of the org, else one that counts for every org.
   */
  async #usable(orgId: string, workloadId: string): Promise<Expectation> {
    for (const name of [{ org_id: orgId, workload_id: workloadId }, { workload_id: workloadId }]) {
      const key = workloadKey(name);
      const found = await this.#store.entity(WORKLOADS, key);
      if (found !== undefined) return { space: WORKLOADS, key, version: found.version };
    }
    const details = [{ path: 'workload_id', message: `there is no workload ${workloadId}` }];
    throw new GatewayError('invalid_request', 'The org defaults have 1 bad member(s).', { details });
  }
}

function said<K extends keyof StoredDefaults>(name: K, value: string | null | undefined): StoredDefaults {
  return value === undefined || value === null ? {} : { [name]: value };
}

function known(defaults: StoredDefaults): Known {
  const { project_id: projectId } = defaults;
  return { ...defaults, attribution: projectId === undefined ? undefined : { project_id: projectId } };
}

/** An empty text says nothing. */
function stored(value: unknown): StoredDefaults | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const textOf = (name: keyof StoredDefaults): string | undefined => {
    const text: unknown = Reflect.get(value, name);
    return typeof text === 'string' && text !== '' ? text : undefined;
  };
  return {
    ...said('workload_id', textOf('workload_id')),
    ...said('project_id', textOf('project_id')),
    ...said('updated_at', textOf('updated_at')),
  };
}
