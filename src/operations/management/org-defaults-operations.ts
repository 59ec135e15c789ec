import { z } from 'zod';
import { id, members, orNothing } from '../members.ts';
import { type GatewayOperation, operation, READS, REPLACES } from '../operation.ts';
import { time } from '../shapes.ts';
import { orgOf } from './org-of.ts';

const DEFAULTS = z.object({
  org_id: z.string(),
  workload_id: z.string().nullable().meta({ description: 'Of calls that name none' }),
  project_id: z.string().nullable().meta({ description: 'Charged where neither caller, workload nor policy names one; null: nobody is' }),
  updated_at: time.nullable().meta({ description: 'null: the org has set none of its own' }),
});

const TAKEN_BACK = 'null, or an empty text, takes it back';
const WORKLOAD_ID = orNothing(id).meta({ description: `Of calls that name none; ${TAKEN_BACK}` });
const PROJECT_ID = orNothing(id).meta({ description: `Charged where nothing names one; ${TAKEN_BACK}` });

/** What an org gives to calls that say nothing (specification, "Org defaults"; decision 6.13). */
export const ORG_DEFAULTS_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'mgmt.org_defaults.read',
    method: 'GET',
    path: '/mgmt/v1/org/defaults',
    scope: 'read',
    summary: 'The workload and the project of calls that name none.',
    annotations: READS,
    versioned: true,
    tools: [{ name: 'get_org_defaults', title: 'Get org defaults' }],
    output: { status: 200, schema: DEFAULTS },
    handle: ({ principal }, { workloads }) => ({ json: workloads.orgDefaults.get(orgOf(principal)) }),
  }),
  operation({
    id: 'mgmt.org_defaults.change',
    method: 'PATCH',
    path: '/mgmt/v1/org/defaults',
    scope: 'write',
    summary: 'Sets what is given of the org defaults, from the next call on; `null` takes it back, what is left out stays.',
    annotations: REPLACES,
    errors: ['conflict'],
    versioned: true,
    tools: [{ name: 'set_org_defaults', title: 'Set org defaults' }],
    input: {
      body: {
        schema: () => members({ workload_id: WORKLOAD_ID.optional(), project_id: PROJECT_ID.optional() }),
        what: 'The org defaults',
      },
    },
    output: { status: 200, schema: DEFAULTS },
    handle: async ({ principal, body, commit, expectShown }, { workloads, projects: { clock } }) => {
      return { json: await workloads.orgDefaults.change(orgOf(principal), body, { clock, expectShown, commit }) };
    },
  }),
];
