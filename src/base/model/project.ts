/** States of a project (specification, "Project"). What an archived one would be charged for is denied. */
export const PROJECT_STATES = ['active', 'archived'] as const;
export type ProjectState = (typeof PROJECT_STATES)[number];

/** A registered project of an org. A project needs no registration to be charged: one that is not registered is a name like any other. */
export interface Project {
  readonly project_id: string;
  readonly org_id: string;
  readonly display_name: string;
  readonly description: string;
  readonly status: ProjectState;
  readonly created_at: string;
}
