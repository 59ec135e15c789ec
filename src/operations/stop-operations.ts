import { z } from 'zod';
import { canonicalConnectorId } from '../base/catalogue/connector-id.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { newestFirst } from '../base/lib/ids.ts';
import type { Principal } from '../base/model/principal.ts';
import type { StopScope } from '../base/model/stop.ts';
import { CURSOR_QUERY, cursorPage, dataPage, pageInMemory } from './management/cursor-pages.ts';
import { orgOf } from './management/org-of.ts';
import { ALSO_WHEN_WRONG, id, members, optional, textThere } from './members.ts';
import { ADDS, type Call, type GatewayOperation, operation, READS, REMOVES } from './operation.ts';
import type { OperationServices } from './services.ts';
import { PRINCIPAL, time, timeToCome } from './shapes.ts';

/** What `confirm` must be, and a person types. */
export const STOP_WORD = 'stop';
const CONFIRM_RULE = `must be "${STOP_WORD}": it ends calls that are under way`;
const ONE_RULE = 'name a stop_id or a scope, not both';

type Ground = Pick<OperationServices, 'trust'>;

function placeOf({ trust }: Ground) {
  const known = (name: string): boolean => canonicalConnectorId(trust.catalogues.current(), name) !== undefined;
  return {
    workload: id.optional(),
    provider: textThere
      .refine(known, 'is no provider: an id, neutral name or alias, or custom:<id>')
      .optional()
      .meta({ description: 'Id, neutral name or alias of a provider, or custom:<id>' }),
    model: textThere
      .optional()
      .meta({ description: 'Any spelling of its name; its dated, regional and fine-tuned forms are stopped with it' }),
  };
}

const MEANT = 'Calls that have all of these; {} means all calls';
const orgScope = (ground: Ground) => members(placeOf(ground)).meta({ description: `${MEANT} of the org` });
const anyScope = (ground: Ground) => members({ org: id.optional(), ...placeOf(ground) }).meta({ description: MEANT });

function stopMembers({ stops }: Pick<OperationServices, 'stops'>) {
  return {
    reason: textThere.meta({ description: 'Callers are shown it' }),
    until: timeToCome(() => stops.clock.now())
      .optional()
      .meta({ description: 'When the stop ends by itself. Left out: it stands until it is ended' }),
    confirm: z.literal(STOP_WORD, CONFIRM_RULE).meta({ description: `"${STOP_WORD}": it is meant` }),
  };
}

interface Which {
  readonly stop_id?: string | undefined;
  readonly scope?: unknown;
}

/** The one thing that is named. */
function isOne({ stop_id: one, scope }: Which): boolean {
  return (one === undefined) !== (scope === undefined);
}

const WHICH_STOP = { stop_id: id.optional().meta({ description: 'Of one stop' }) };
const OF_SCOPE = 'All stops of exactly this scope';
const resumeOf = <S extends ReturnType<typeof orgScope> | ReturnType<typeof anyScope>>(scope: S) =>
  members({ ...WHICH_STOP, scope: scope.optional().meta({ description: OF_SCOPE }) }).refine(isOne, {
    error: ONE_RULE,
    ...ALSO_WHEN_WRONG,
  });
const resumeAny = (ground: Ground) => resumeOf(anyScope(ground));
const resumeOwn = (ground: Ground) => resumeOf(orgScope(ground));

export const STOP = z.object({
  stop_id: z.string(),
  org_id: z.string().optional().meta({ description: 'That of the scope; absent where it names none' }),
  scope: z.object({
    org: z.string().optional(),
    workload: z.string().optional(),
    provider: z.string().optional(),
    model: z.string().optional(),
  }),
  reason: z.string(),
  created_at: time,
  created_by: z.string().meta({ description: 'The name of the key, else its id; `admin` for the admin token' }),
  created_by_principal: PRINCIPAL,
  by_org: z.literal(true).optional().meta({ description: 'A key of the org has made it, and may end it; absent: the operator has' }),
  until: z.string().optional().meta({ description: 'When it ends by itself' }),
});
const STOPS = z.object({ stops: z.array(STOP) });
const RESUMED = z.object({ resumed: z.array(STOP) });

/**
 * Calls that are stopped, whatever policy says of them. That it is meant is for a person to say: assistants are
 * told by health that one stands, and make and end none.
 */
export const STOP_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'stop',
    method: 'POST',
    path: '/v1/admin/stop',
    scope: 'admin',
    summary: 'Stops calls: from now on they are refused, and those that are under way end within a second, at all nodes.',
    annotations: { ...ADDS, destructive: true },
    errors: ['limit_reached'],
    input: { body: { schema: (services) => members({ scope: anyScope(services), ...stopMembers(services) }), what: 'The stop' } },
    output: { status: 201, schema: STOP },
    handle: async ({ body: { scope, reason, until }, principal, commit }, services) => {
      return { json: await services.stops.make({ scope: scopeOf(scope, services), reason, until, principal }, commit) };
    },
  }),
  operation({
    id: 'resume',
    method: 'POST',
    path: '/v1/admin/resume',
    scope: 'admin',
    summary: 'Ends a stop, or all stops of one scope: its calls go on from the next one on.',
    annotations: { ...REMOVES, idempotent: false },
    errors: ['not_found'],
    input: { body: { schema: resumeAny, what: 'The end of a stop' } },
    output: { status: 200, schema: RESUMED },
    handle: (call, services) => resumed(call, call.body.scope && scopeOf(call.body.scope, services), services),
  }),
  operation({
    id: 'stops.list',
    method: 'GET',
    path: '/v1/admin/stops',
    scope: 'admin',
    summary: 'The stops that stand, the newest first; `org_id` narrows them to those of one org.',
    annotations: READS,
    input: { query: { schema: () => z.strictObject({ org_id: id.optional() }) } },
    output: { status: 200, schema: STOPS },
    handle: ({ query }, { stops }) => ({ json: { stops: stops.list(query.org_id) } }),
  }),
  operation({
    id: 'mgmt.stop',
    method: 'POST',
    path: '/mgmt/v1/stop',
    scope: 'write',
    summary: 'Stops calls of the org: from now on they are refused, and those that are under way end within a second, at all nodes.',
    annotations: { ...ADDS, destructive: true },
    errors: ['limit_reached'],
    input: { body: { schema: (services) => members({ scope: orgScope(services), ...stopMembers(services) }), what: 'The stop' } },
    output: { status: 201, schema: STOP },
    handle: async ({ body: { scope, reason, until }, principal, commit }, services) => {
      return { json: await services.stops.make({ scope: ownScope(scope, principal, services), reason, until, principal }, commit) };
    },
  }),
  operation({
    id: 'mgmt.resume',
    method: 'POST',
    path: '/mgmt/v1/resume',
    scope: 'write',
    summary: 'Ends a stop of the org, or all of one scope, that its keys have made.',
    annotations: { ...REMOVES, idempotent: false },
    errors: ['not_found', 'forbidden'],
    input: { body: { schema: resumeOwn, what: 'The end of a stop' } },
    output: { status: 200, schema: RESUMED },
    handle: (call, services) => resumed(call, call.body.scope && ownScope(call.body.scope, call.principal, services), services),
  }),
  operation({
    id: 'mgmt.stops.list',
    method: 'GET',
    path: '/mgmt/v1/stops',
    scope: 'read',
    summary: 'The stops of the org that stand, the newest first, also those that the operator of the gateway has made for it.',
    annotations: READS,
    input: { query: { schema: () => CURSOR_QUERY } },
    output: { status: 200, schema: dataPage(STOP) },
    handle: ({ principal, query }, { stops }) => {
      const page = cursorPage('stops', query);
      return { json: pageInMemory(stops.list(orgOf(principal)), ({ stop_id }) => newestFirst(stop_id), page) };
    },
  }),
];

type GivenScope = { readonly [K in keyof StopScope]: StopScope[K] | undefined };

/** With the provider by its id. */
function scopeOf({ org, workload, provider, model }: Partial<GivenScope>, { trust }: Ground): StopScope {
  const connector = provider === undefined ? undefined : (canonicalConnectorId(trust.catalogues.current(), provider) ?? provider);
  return { ...optional('org', org), ...optional('workload', workload), ...optional('provider', connector), ...optional('model', model) };
}

function ownScope(scope: Partial<GivenScope>, principal: Principal, services: Ground): StopScope {
  return { org: orgOf(principal), ...scopeOf(scope, services) };
}

/** @throws GatewayError `not_found` */
async function resumed(
  { body, principal, commit }: Pick<Call<z.ZodObject, z.ZodObject, ReturnType<typeof resumeAny>>, 'body' | 'principal' | 'commit'>,
  scope: StopScope | undefined,
  { stops }: Pick<OperationServices, 'stops'>,
) {
  const { stop_id: one = '' } = body;
  const ended = await stops.end(scope === undefined ? { id: one } : { scope }, principal, commit);
  if (ended.length === 0)
    throw new GatewayError('not_found', scope === undefined ? `There is no stop ${one}.` : 'There is no stop of exactly this scope.');
  return { json: { resumed: ended } };
}
