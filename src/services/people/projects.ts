import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Project, ProjectState } from '../../base/model/project.ts';
import type { Entity, Expectation, Store } from '../../storage/contract/store.ts';
import { type Commit, commitAlone, unlessConflict } from '../registers/commit.ts';
import { WatchedSpace } from '../registers/watched-space.ts';

export const PROJECTS = 'project';

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
  /** Asked when it becomes archived: what is expected of the store then; undefined when it is in use and must not be. */
  readonly mayArchive: (orgId: string, projectId: string) => Promise<Expectation | undefined>;
  /** Asked, with the project as it is, before it is changed; throws when it should not be. */
  readonly expectShown?: (project: Project) => void;
  readonly commit?: Commit;
}

/**
 * The registered projects of every org (specification, "Project"; decision 6.12), in memory, also as other writers of the store change them. The path of a request asks
 * for those alone that are archived.
 */
export class ProjectService {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #projects: WatchedSpace<Project>;
  readonly #archived: ReadonlySet<string>;

  private constructor(store: Store, clock: Clock, projects: WatchedSpace<Project>, archived: ReadonlySet<string>) {
    this.#store = store;
    this.#clock = clock;
    this.#projects = projects;
    this.#archived = archived;
  }

  static async open(store: Store, clock: Clock): Promise<ProjectService> {
    const archived = new Set<string>();
    const projects = await WatchedSpace.open(store, PROJECTS, {
      read: (value) => value as Project,
      orgOf: (project) => project.org_id,
      changed: (key, project) => {
        if (project?.status === 'archived') archived.add(key);
        else archived.delete(key);
      },
    });
    return new ProjectService(store, clock, projects, archived);
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
  async create(orgId: string, projectId: string, texts: ProjectTexts, commit: Commit = commitAlone(this.#store)): Promise<Project> {
    const key = keyOf(orgId, projectId);
    const project: Project = {
      project_id: projectId,
      org_id: orgId,
      display_name: texts.display_name ?? projectId,
      description: texts.description ?? '',
      status: 'active',
      created_at: timestamp(this.#clock.now()),
    };
    const made = commit(projectId, [{ op: 'put', space: PROJECTS, key, value: project }], [{ space: PROJECTS, key, version: undefined }]);
    if (!(await unlessConflict(made))) throw new GatewayError('conflict', `There is a project ${projectId} already.`);
    await this.#projects.refresh(key);
    return project;
  }

  /**
   * Changes what is given and leaves the rest, whoever changes something else at the same time.
   * @returns undefined when there is no such project
   * @throws GatewayError `conflict` when it is in use as the default of its org
   */
  async update(
    orgId: string,
    projectId: string,
    change: ProjectChange,
    { mayArchive, expectShown, commit = commitAlone(this.#store) }: ProjectChanging,
  ): Promise<Project | undefined> {
    const key = keyOf(orgId, projectId);
    for (;;) {
      const found = await this.#store.entity(PROJECTS, key);
      if (found === undefined) return undefined;
      expectShown?.(found.value as Project);
      const project = changed(found.value as Project, change);
      const expect: Expectation[] = [{ space: PROJECTS, key, version: found.version }];
      if (change.status === 'archived') {
        const free = await mayArchive(orgId, projectId);
        if (free === undefined) {
          throw new GatewayError('conflict', `${projectId} is the default project of its org: calls that name none would be denied.`);
        }
        expect.push(free);
      }
      if (!(await unlessConflict(commit(projectId, [{ op: 'put', space: PROJECTS, key, value: project }], expect)))) continue;
      await this.#projects.refresh(key);
      return project;
    }
  }

  /** From then on its id is a name like any other. False when there is none. */
  async remove(orgId: string, projectId: string, commit: Commit = commitAlone(this.#store)): Promise<boolean> {
    const key = keyOf(orgId, projectId);
    if (!this.#projects.has(key)) return false;
    await commit(projectId, [{ op: 'delete', space: PROJECTS, key }]);
    await this.#projects.refresh(key);
    return true;
  }
}

/** What must stay as it is for a project to be one that can be charged. @throws GatewayError `conflict` for an archived one */
export async function chargeable(store: Pick<Store, 'entity'>, orgId: string, projectId: string): Promise<Expectation> {
  const key = keyOf(orgId, projectId);
  const found: Entity | undefined = await store.entity(PROJECTS, key);
  if ((found?.value as Project | undefined)?.status === 'archived') {
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

/** Ids that are registered are visible ASCII (decision 4.7), and an org's holds no space: whatever a caller names his project, it is no other's key. */
function keyOf(orgId: string, projectId: string): string {
  return `${orgId} ${projectId}`;
}
