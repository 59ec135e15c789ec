import { z } from 'zod';
import { timestamp } from '../base/lib/clock.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { unusedFilesMessage } from '../decide/policy/lint.ts';
import { type ActivePolicy, POLICY_SOURCES } from '../services/policy/active-policy.ts';
import type { PolicyService } from '../services/policy/policies.ts';
import { doubtsOf } from '../services/policy/policy-doubts.ts';
import { emptiedWarnings, notLoadedPieces } from '../services/policy/policy-warnings.ts';
import type { ShadowPolicy } from '../services/policy/shadow-policy.ts';
import type { Weighed } from '../services/policy/weigh-policy.ts';
import type { Commit } from '../services/registers/commit.ts';
import { members } from './members.ts';
import { type GatewayOperation, operation, READS, REMOVES, REPLACES, type Shown } from './operation.ts';
import { acceptChange, CHANGE, CHANGE_MEMBERS, type ChangeShown, shownChange, shownTrial } from './policy-change-shapes.ts';
import type { Issue } from './read-input.ts';
import type { OperationServices } from './services.ts';
import { time } from './shapes.ts';

/**
 * Longest bundle that is put, in characters: some thousand rules. Compiling what was read takes about a second for each
 * million, in which no other request is served.
 */
export const MAX_PUT_LENGTH = 524_288;

const BUNDLE_BODY = members({
  bundle_yaml: z.string('must be text').max(MAX_PUT_LENGTH, {
    error: ({ input }) =>
      `The bundle has ${typeof input === 'string' ? input.length : 0} characters and one that is put at most ${MAX_PUT_LENGTH}: more is not read by this way. Write it into the policies folder, in several files under files:, and reload.`,
  }),
  dry_run: CHANGE_MEMBERS.dry_run,
  confirm: CHANGE_MEMBERS.confirm,
});

/** A body without a bundle is told so, whatever else it has. */
function bundleRefusal(issues: readonly Issue[]): GatewayError {
  if (issues.some(({ code, path }) => code === 'invalid_type' && (path[0] ?? 'bundle_yaml') === 'bundle_yaml'))
    return new GatewayError('invalid_request', 'The body needs bundle_yaml.', {
      details: [{ path: 'bundle_yaml', message: 'must be text' }],
    });
  const unknown = issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys' ? issue.keys.map((path) => ({ path, message: issue.message })) : [],
  );
  if (unknown.length > 0)
    return new GatewayError('invalid_request', 'The body has members that do not belong there.', { details: unknown });
  const bad = issues.filter(({ path }) => path[0] !== 'bundle_yaml').map(({ path, message }) => ({ path: path.join('.'), message }));
  if (bad.length > 0) return new GatewayError('invalid_request', `The body has ${bad.length} bad member(s).`, { details: bad });
  return new GatewayError('body_too_large', issues[0]?.message ?? '');
}

/** What is probably not meant, and what does not load. */
export const POLICY_WARNINGS: z.ZodArray<
  z.ZodObject<{ path: z.ZodString; code: z.ZodString; message: z.ZodString; files: z.ZodArray<z.ZodString> }>
> = z.array(z.object({ path: z.string(), code: z.string(), message: z.string(), files: z.array(z.string()) }));

export const POLICY = z.object({
  bundle_id: z.string(),
  version: z.string().meta({ description: 'Of one from a control plane: as it was signed there' }),
  sequence: z.int().optional().meta({ description: 'Of one from a control plane' }),
  kid: z.string().optional().meta({ description: 'The key that has signed it' }),
  source: z.enum(POLICY_SOURCES),
  loaded_at: time,
  warnings: POLICY_WARNINGS.optional(),
  shadow: z
    .object({ bundle_id: z.string().optional(), version: z.string().optional(), error: z.string().optional(), loaded_at: time.optional() })
    .optional()
    .meta({ description: 'The shadow bundle, if there is one' }),
});

/** How a bundle is called: as the control plane that has signed it calls it, where one has (decision 13.9). */
export function namesOf({ bundle_id, version, signed }: ActivePolicy): {
  readonly bundle_id: string;
  readonly version: string;
  readonly sequence?: number;
  readonly kid?: string;
} {
  return { bundle_id, version, ...signed };
}

function shown(active: ActivePolicy, policies: PolicyService, shadow: ShadowPolicy | undefined) {
  const { source, loaded_at, policy } = active;
  const warnings = [
    ...(policy.unusedFiles.length === 0 ? [] : [unusedFiles(policy.unusedFiles)]),
    ...emptiedWarnings(policy),
    ...doubtsOf(policy, policies.passage),
    ...policies.notLoaded().flatMap(notLoaded),
  ];
  return {
    ...namesOf(active),
    source,
    loaded_at: timestamp(loaded_at),
    ...(warnings.length === 0 ? {} : { warnings }),
    ...(shadow === undefined ? {} : { shadow: shownShadow(shadow) }),
  };
}

/** As `gw policy check` says it. */
function unusedFiles(files: readonly string[]) {
  return { path: 'files', code: 'files_do_not_count', message: unusedFilesMessage(files), files };
}

function notLoaded({ org_id: orgId, problems }: ReturnType<PolicyService['notLoaded']>[number]) {
  const whose = orgId === undefined ? '' : `${orgId}: `;
  return notLoadedPieces(problems).map(({ piece, problems: of, take_away: how }) => ({
    path: orgId === undefined ? piece : `orgs.${orgId}`,
    code: 'not_loaded',
    message: `${whose}${of.map(({ message }) => message).join('; ')} (${how})`,
    files: [piece],
  }));
}

function shownShadow(shadow: ShadowPolicy) {
  const { loaded_at, ...state } = shadow.state();
  return { ...state, ...(loaded_at === undefined ? {} : { loaded_at: timestamp(loaded_at) }) };
}

/** Reads the policies folder again, and the shadow bundle. */
export async function reloadPolicy({ policies, shadow }: OperationServices, commit: Commit): Promise<Shown<z.output<typeof POLICY>>> {
  const active = await policies.reload(commit);
  await shadow?.load('reload');
  return shown(active, policies, shadow);
}

/** The active policy bundle (specification, "Gateway admin API"; decisions 5.1, 5.2, 5.5). */
export const POLICY_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'policies.active',
    method: 'GET',
    path: '/v1/admin/policies',
    scope: 'admin',
    summary: 'The active bundle: id, version, source, time of loading; and the shadow bundle, if there is one.',
    annotations: READS,
    versioned: true,
    output: { status: 200, schema: POLICY },
    handle: (_call, { policies, shadow }) => ({ json: shown(policies.current(), policies, shadow) }),
  }),
  operation({
    id: 'policies.put',
    method: 'PUT',
    path: '/v1/admin/policies',
    scope: 'admin',
    summary:
      'Hot-loads a bundle from `bundle_yaml`, at most 524,288 characters; one that does not load changes nothing. `change` of the answer says what it does; `dry_run` only says it.',
    annotations: REPLACES,
    ownedRemotely: true,
    errors: ['invalid_policy', 'confirmation_needed', 'precondition_failed'],
    versioned: true,
    input: { body: { schema: () => BUNDLE_BODY, what: 'The body', refusal: bundleRefusal } },
    output: { status: 200, schema: POLICY.extend({ change: CHANGE }) },
    handle: async ({ body, commit, expectShown }, services) => {
      const { policies, shadow } = services;
      let change: ChangeShown | undefined;
      const accept = (before: ActivePolicy, weighed: Weighed): void => {
        const is = shown(before, policies, shadow);
        expectShown(is);
        acceptChange(body, is, weighed);
        change = shownChange(weighed, false);
      };
      if (body.dry_run === true) {
        const { weighed } = await policies.tryBundle(body.bundle_yaml);
        const is = shown(policies.current(), policies, shadow);
        return { json: { ...is, change: await shownTrial(weighed, undefined, services) }, tagged: is };
      }
      const is = shown(await policies.put(body.bundle_yaml, commit, accept), policies, shadow);
      if (change === undefined) throw new TypeError('a change that was made has been weighed');
      return { json: { ...is, change }, tagged: is };
    },
  }),
  operation({
    id: 'policies.reload',
    method: 'POST',
    path: '/v1/admin/policies/reload',
    scope: 'admin',
    summary:
      'Reads bundle, rule files, add-ons and overlays from the policies folder again, and the shadow bundle; 400 in control-plane mode.',
    annotations: REPLACES,
    errors: ['invalid_policy', 'invalid_request'],
    output: { status: 200, schema: POLICY },
    handle: async ({ commit }, services) => ({ json: await reloadPolicy(services, commit) }),
  }),
  operation({
    id: 'policy_cache.clear',
    method: 'DELETE',
    path: '/v1/admin/policy/cache',
    scope: 'admin',
    summary:
      'Forgets the kept bundle of the control plane; what runs runs on, and a start fetches it anew. Without a control plane there is none.',
    annotations: { ...REMOVES, idempotent: true },
    output: { status: 200, otherStatuses: [204], schema: z.object({ status: z.literal('no_cache') }) },
    handle: async ({ commit }, { policyCache }) => {
      if (policyCache === undefined) return { json: { status: 'no_cache' as const } };
      await policyCache.clear(commit);
      return { status: 204 as const };
    },
  }),
];
