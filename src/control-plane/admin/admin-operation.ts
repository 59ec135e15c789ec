/*
 * What one entry of the control plane's own table is: something that an operator can ask of it (decision 13.6). Routes, commands and the reference page are faces of it.
 */
import { z } from 'zod';
import type { Clock } from '../../base/lib/clock.ts';
import type { ErrorCode } from '../../base/model/error-codes.ts';
import type { Inputs, Shown } from '../../operations/operation.ts';
import { NO_QUERY, readBody, readQuery } from '../../operations/read-input.ts';
import type { AuditTrail } from '../../services/orgs/audit-trail.ts';
import type { Commit } from '../../services/registers/commit.ts';
import type { RouteAnswer, RouteRequest } from '../../surfaces/http/route.ts';
import type { ControlPlaneState } from '../state/control-plane-state.ts';

/** Bodies other than bundles are small. */
const MAX_BODY_BYTES = 1024 * 1024;

/** How the control plane is. */
export interface AdminHealth {
  /** `draining`: it is about to end, and takes nothing new. */
  readonly status: 'ok' | 'draining';
  readonly version: string;
  /** Gateways whose certificate counts. */
  readonly enrolled_nodes: number;
  /** Streams of updates that are open. */
  readonly open_streams: number;
  /** Hashes of all orgs that are under no root yet. */
  readonly pending_hashes: number;
  /** When the certificate of the gRPC port ends, RFC 3339. */
  readonly certificate_expires_at: string;
}

/** What the operations stand on. */
export interface AdminServices {
  readonly state: ControlPlaneState;
  readonly audit: Pick<AuditTrail, 'commitFor' | 'page'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly health: () => AdminHealth;
}

export interface AdminOperationFacts {
  /** `org.put`; stable, unique. The command is called so, and the entry of the audit trail. */
  readonly id: string;
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  readonly path: string;
  /** One line for people. */
  readonly summary: string;
  /** Whether the admin token is needed. */
  readonly scope: 'admin' | 'none';
  readonly changes: boolean;
  /** Beside 401 and, of what takes input, 400. */
  readonly errors?: readonly ErrorCode[];
  /** Bytes; default 1 MiB. */
  readonly maxBodyBytes?: number;
  /** A body that is no JSON is the text of this member. */
  readonly textMember?: string;
}

/** The answer of an operation before a face has put it into one. */
export type AdminOutcome<T> = { readonly json: Shown<T>; readonly status?: 503 } | { readonly text: string };

export interface AdminCall<P extends z.ZodObject, Q extends z.ZodObject, B extends z.ZodObject> {
  readonly params: z.output<P>;
  readonly query: z.output<Q>;
  readonly body: z.output<B>;
  /** Stores what is changed with its entry in the audit trail, in one commit. */
  readonly commit: Commit;
}

interface BodyOf<B extends z.ZodObject> {
  readonly schema: (services: Pick<AdminServices, 'clock'>) => B;
  /** The subject of a refusal, such as `The org`. */
  readonly what: string;
  /** It may be left out altogether. */
  readonly optional?: true;
  /** The schema tells the members; what is wrong with them is said by what stores them, which knows more. */
  readonly toldOnly?: true;
}

export interface AdminEntry<P extends z.ZodObject, Q extends z.ZodObject, B extends z.ZodObject, O extends z.ZodType>
  extends AdminOperationFacts {
  readonly input?: { readonly params?: P; readonly query?: Q; readonly body?: BodyOf<B> };
  readonly output: { readonly status: 200 | 201; readonly contentType?: string; readonly schema?: O };
  readonly handle: (call: AdminCall<P, Q, B>, services: AdminServices) => AdminOutcome<z.output<O>> | Promise<AdminOutcome<z.output<O>>>;
}

/** An entry of the table. */
export interface AdminOperation extends AdminOperationFacts {
  readonly output: { readonly status: 200 | 201; readonly contentType?: string; readonly schema?: z.ZodType };
  /** What it takes, for faces that show it. */
  readonly inputs: () => Inputs;
  /** @returns what gives the answer, or throws GatewayError */
  readonly bind: (services: AdminServices) => (request: RouteRequest) => Promise<RouteAnswer>;
}

const CHANGES_NOTHING: Commit = () => Promise.reject(new TypeError('an operation that only reads changes nothing'));
/** Any object. */
const OPEN = z.looseObject({});
/** No rule of a schema is asked where only its members are read. */
const NO_CLOCK = { clock: { now: () => 0 } };

/** Makes an entry; the types of its schemas reach its handler. */
export function adminOperation<P extends z.ZodObject, Q extends z.ZodObject, B extends z.ZodObject, O extends z.ZodType>(
  entry: AdminEntry<P, Q, B, O>,
): AdminOperation {
  const { input = {}, handle, ...facts } = entry;
  const { params, query, body } = input;
  return {
    ...facts,
    inputs: () => ({
      ...(params === undefined ? {} : { params }),
      ...(query === undefined ? {} : { query }),
      ...(body === undefined ? {} : { body: body.schema(NO_CLOCK), bodyOptional: body.optional === true }),
    }),
    bind: (services) => {
      const read = reader(facts, input, services);
      return async (request) => {
        const { principal, from } = request;
        const commit = facts.changes ? services.audit.commitFor({ principal, operation: facts.id, from }) : CHANGES_NOTHING;
        return answerOf(facts.output, await handle({ ...(await read(request)), commit }, services));
      };
    },
  };
}

type AdminInput<P extends z.ZodObject, Q extends z.ZodObject, B extends z.ZodObject> = NonNullable<AdminEntry<P, Q, B, z.ZodType>['input']>;

/** Reads what is asked by the schemas, which are made once. A query without a schema has no parameter; a body without one is read by nobody. */
function reader<P extends z.ZodObject, Q extends z.ZodObject, B extends z.ZodObject>(
  facts: AdminOperationFacts,
  { params, query, body }: AdminInput<P, Q, B>,
  services: AdminServices,
) {
  const made = body && { ...body, schema: body.schema(services) };
  return async (request: RouteRequest): Promise<Omit<AdminCall<P, Q, B>, 'commit'>> => ({
    params: (params ? readBody({ schema: params, what: 'The path' }, request.params) : {}) as z.output<P>,
    query: readQuery(query ?? NO_QUERY, request.query, { anybodys: facts.scope === 'none' && !facts.changes }) as z.output<Q>,
    body: (made ? await bodyOf(facts, made, request) : {}) as z.output<B>,
  });
}

function answerOf({ status, contentType }: AdminOperation['output'], outcome: AdminOutcome<unknown>): RouteAnswer {
  if ('text' in outcome) return { status, text: outcome.text, ...(contentType === undefined ? {} : { contentType }) };
  return { status: outcome.status ?? status, json: outcome.json };
}

/** @throws GatewayError `invalid_request` */
async function bodyOf<B extends z.ZodObject>(
  { textMember }: AdminOperationFacts,
  { schema, what, optional, toldOnly }: Omit<BodyOf<B>, 'schema'> & { readonly schema: B },
  request: RouteRequest,
): Promise<unknown> {
  const isJson = /^application\/(?:[\w.-]+\+)?json\b/i.test(request.head.headers['content-type'] ?? 'application/json');
  const given = textMember === undefined || isJson ? await request.json(optional ? {} : undefined) : { [textMember]: await request.text() };
  if (toldOnly === true) return readBody({ schema: OPEN, what }, given);
  return readBody({ schema, what }, given);
}

/** The largest body that it takes, bytes. */
export function maxBodyOf({ maxBodyBytes = MAX_BODY_BYTES }: AdminOperationFacts): number {
  return maxBodyBytes;
}
