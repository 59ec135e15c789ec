import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Project, ProjectState } from '../../base/model/org.ts';
import type { Expectation, Store } from '../../storage/contract/store.ts';
import type { Commit } from '../registers/commit.ts';
import { type Along, Register } from '../registers/register.ts';
import { entityWith } from '../registers/watched-space.ts';

export const PROJECTS = 'project';

const stored = entityWith<Project>('org_id', 'project_id');

/** What a person says of a project. */
export interface ProjectTexts {
  readonly display_name?: string | undefined;
  readonly description?: string | undefined;
}

export interface ProjectChange extends ProjectTexts {
  readonly status?: ProjectState | undefined;
}

/** How a project is changed. */
export interface ProjectChanging {
  /**
   * Asked when it becomes archived: what is expected of the store then; undefined when it is in use and must not be.
   */
  readonly mayArchive: (orgId: string, projectId: string) => Promise<Expectation | undefined>;
  /** Asked, with the project as it is, before it is changed; throws when it should not be. */
  readonly expectShown?: (project: Project) => void;
  readonly commit?: Commit;
}

/**
 * The registered projects of every org (specification, "Project"; decision 6.12), in memory, also as other writers of
 * the store change them. The path of a request asks for those alone that are archived.
 */
export class ProjectService {
  readonly #clock: Clock;
  readonly #projects: Register<Project>;
  readonly #archived: ReadonlySet<string>;

  private constructor(clock: Clock, projects: Register<Project>, archived: ReadonlySet<string>) {
    this.#clock = clock;
    this.#projects = projects;
    this.#archived = archived;
  }

  static async open(store: Store, clock: Clock): Promise<ProjectService> {
    const archived = new Set<string>();
    const projects = await Register.open(store, PROJECTS, {
      read: stored,
      orgOf: (project) => project.org_id,
      changed: (key, project) => {
        if (project?.status === 'archived') archived.add(key);
        else archived.delete(key);
      },
    });
    return new ProjectService(clock, projects, archived);
  }

  /** True when calls that would be charged to it are denied. */
  isArchived(orgId: string, projectId: string | undefined): boolean {
    return this.#archived.size > 0 && projectId !== undefined && this.#archived.has(keyOf(orgId, projectId));
  }

  /** Undefined when the org has registered none of this id. */
  get(orgId: string, projectId: string): Project | undefined {
    return this.#projects.get(keyOf(orgId, projectId));
  }

  /** Those of an org, in the order of their ids. */
  list(orgId: string, status?: ProjectState): readonly Project[] {
    return this.#projects
      .ofOrg(orgId)
      .filter((project) => status === undefined || project.status === status)
      .sort((a, b) => (a.project_id < b.project_id ? -1 : 1));
  }

  /** @throws GatewayError `conflict` when the org has one of this id */
  async create(orgId: string, projectId: string, texts: ProjectTexts, commit?: Commit): Promise<Project> {
    const project: Project = {
      project_id: projectId,
      org_id: orgId,
      display_name: texts.display_name ?? projectId,
      description: texts.description ?? '',
      status: 'active',
      created_at: timestamp(this.#clock.now()),
    };
    const conflict = (): GatewayError => new GatewayError('conflict', `There is a project ${projectId} already.`);
    await this.#projects.create(keyOf(orgId, projectId), project, { commit, object: projectId, conflict });
    return project;
  }

  /**
   * Changes what is given and leaves the rest, also when another writer changes something else at the same time.
   * @returns undefined when there is no such project
   * @throws GatewayError `conflict` when it is in use as the default of its org
   */
  update(
    orgId: string,
    projectId: string,
    change: ProjectChange,
    { mayArchive, expectShown, commit }: ProjectChanging,
  ): Promise<Project | undefined> {
    const next = async (project: Project | undefined, { expect }: Along): Promise<Project | undefined> => {
      if (project === undefined) return undefined;
      expectShown?.(project);
      if (change.status === 'archived') {
        const free = await mayArchive(orgId, projectId);
        if (free === undefined) {
          throw new GatewayError('conflict', `${projectId} is the default project of its org: calls that name none would be denied.`);
        }
        expect.push(free);
      }
      return changed(project, change);
    };
    return this.#projects.change(keyOf(orgId, projectId), next, { commit, object: projectId });
  }

  /** From then on its id is a name like any other. False when there is none. */
  remove(orgId: string, projectId: string, commit?: Commit): Promise<boolean> {
    return this.#projects.remove(keyOf(orgId, projectId), { commit, object: projectId });
  }
}

/**
 * What must stay as it is for a project to be one that can be charged.
 * @throws GatewayError `conflict` for an archived one
 */
export async function chargeable(store: Pick<Store, 'entity'>, orgId: string, projectId: string): Promise<Expectation> {
  const key = keyOf(orgId, projectId);
  const found = await store.entity(PROJECTS, key);
  if (stored(found?.value)?.status === 'archived') {
    throw new GatewayError('conflict', `The project ${projectId} is archived: calls that are charged to it are denied.`);
  }
  return { space: PROJECTS, key, version: found?.version };
}

function changed(project: Project, { display_name, description, status }: ProjectChange): Project {
  return {
    ...project,
    ...(display_name === undefined ? {} : { display_name }),
    ...(description === undefined ? {} : { description }),
    ...(status === undefined ? {} : { status }),
  };
}

/**
 * Ids that are registered are visible ASCII (decision 4.7), and an org's holds no space: whatever a caller names his
 * project, it is no other's key.
 */
function keyOf(orgId: string, projectId: string): string {
  return `${orgId} ${projectId}`;
}
