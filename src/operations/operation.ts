/*
 * What one entry of the table is: something that a person or a machine can ask of the gateway. Surfaces are faces of
 * the table: the routes, the OpenAPI document and the reference page are made from it.
 */
import { z } from 'zod';
import type { Cookie } from '../base/lib/cookie.ts';
import type { GatewayError } from '../base/lib/gateway-error.ts';
import type { ArrivalHead } from '../base/model/arrival.ts';
import type { ErrorCode } from '../base/model/error-codes.ts';
import type { Principal, Scope } from '../base/model/principal.ts';
import type { Asking, AuditTrail } from '../services/orgs/audit-trail.ts';
import type { Commit } from '../services/registers/commit.ts';
import { readUntil } from '../services/registers/read-until.ts';
import { removesOne, type Trial, trialOf, withDryRun } from './dry-run.ts';
import { etagOf, preconditionOf } from './etag.ts';
import { type HandOn, handOnFor, ownedElsewhere, requireOwnPrincipal } from './hand-on.ts';
import { optional } from './members.ts';
import { type Issue, NO_QUERY, readBody, readParams, readQuery } from './read-input.ts';
import type { OperationServices } from './services.ts';

/** What a caller may assume before it asks. */
export interface Annotations {
  readonly readOnly: boolean;
  /** Something that was there can be gone, or count no longer. */
  readonly destructive: boolean;
  /** To ask twice does what asking once does. */
  readonly idempotent: boolean;
}

export const READS: Annotations = { readOnly: true, destructive: false, idempotent: true };
export const ADDS: Annotations = { readOnly: false, destructive: false, idempotent: false };
export const REPLACES: Annotations = { readOnly: false, destructive: true, idempotent: true };
/** The second time there is nothing left (404). */
export const REMOVES: Annotations = { readOnly: false, destructive: true, idempotent: false };

/** Values of a schema as services give them: nothing that an operation answers is written to. */
export type Shown<T> = T extends readonly (infer U)[]
  ? readonly Shown<U>[]
  : T extends object
    ? { readonly [K in keyof T]: Shown<T[K]> }
    : T;

/** Something made, before a face has put it into an answer. */
export type OperationOutcome<T> =
  /**
   * `status`: one of the answer's `otherStatuses`. `tagged`: what its `ETag` is of, where that is more than a page of
   * it.
   */
  | {
      readonly json: Shown<T>;
      readonly headers?: readonly string[];
      readonly status?: 200 | 503;
      readonly tagged?: unknown;
      readonly cookies?: readonly Cookie[];
    }
  | { readonly text: string }
  | { readonly bytes: Uint8Array; readonly contentType?: string }
  /** Text that may be long, each part made when there is room for it. `headers`: flat name, value list. */
  | { readonly parts: AsyncIterable<string>; readonly headers?: readonly string[]; readonly contentType?: string }
  /** Nothing to say; `status`: one of the answer's `otherStatuses`. */
  | { readonly status?: 204; readonly cookies?: readonly Cookie[] };

/** What the operations of a program stand on at least. */
export interface OperationGround {
  readonly audit: Pick<AuditTrail, 'commitFor'>;
}

/** What is true of an entry wherever it is served. */
export interface OperationFacts {
  /** `workloads.put`; stable, unique. */
  readonly id: string;
  readonly method: 'GET' | 'PUT' | 'POST' | 'PATCH' | 'DELETE';
  /** Segments; `{name}` takes one whole segment. */
  readonly path: string;
  /** One line for people. */
  readonly summary: string;
  readonly scope: Scope;
  /** Also served by the ambient port (decision 3.2). */
  readonly ambient?: boolean;
  readonly annotations: Annotations;
  /** Beside those that follow from scope and input. */
  readonly errors?: readonly ErrorCode[];
  /**
   * The answer shows one thing that several people may change: it has an `ETag`, and whoever changes it may show that
   * as `If-Match` (RFC 9110 §13.1.1).
   */
  readonly versioned?: true;
  /**
   * It writes what a control plane owns where there is one: there it is handed on, or `managed_remotely`, on every face
   * (decisions 13.10, 13.12).
   */
  readonly ownedRemotely?: true;
  /** It answers when something happens, perhaps minutes later, and is bounded by itself: it takes no turn of others. */
  readonly waits?: true;
  /** Of a body that may be longer than most. */
  readonly maxBodyBytes?: number;
  /** A body that is not JSON is the text of this member. */
  readonly textMember?: string;
  /** How it is offered to assistants (specification, "MCP server"); absent: it is not. */
  readonly tools?: readonly ToolFacts[];
}

/**
 * What a tool has that its operation does not say. Its arguments are the operation's parameters and members, by the
 * same names.
 */
export interface ToolFacts {
  /** `list_workloads`; unique. */
  readonly name: string;
  /** For people: `List workloads`. */
  readonly title: string;
  /** Default: the summary. */
  readonly description?: string;
  /** What the names in the path are called as arguments: `{ id: 'workload_id' }`. */
  readonly ids?: Readonly<Record<string, string>>;
  /** The tool that says what the arguments of the same names mean; told in the description. */
  readonly like?: string;
  /** Arguments of a call that gives none: an assistant is asked first where a person's program is not. */
  readonly defaults?: Readonly<Record<string, unknown>>;
  /** It reaches somebody outside of the gateway. */
  readonly openWorld?: true;
  /** Of two tools of one operation: whether it only makes what is not there, or only changes what is. */
  readonly only?: 'create' | 'update';
}

export interface OperationAnswer<O extends z.ZodType = z.ZodType> {
  readonly status: 200 | 201 | 204 | 302;
  /** With which the same form of answer says that it is not so. */
  readonly otherStatuses?: readonly (204 | 503)[];
  /** Default: `application/json`. */
  readonly contentType?: string;
  /** Another form of the same answer that may be asked for. */
  readonly also?: string;
  /** Of the JSON; absent when it answers something else. */
  readonly schema?: O;
}

/** Schemas are made for services, because some rules need what is registered; their shape is the same for all. */
export interface QueryInput<Q extends z.ZodObject, S = OperationServices> {
  /** Parameters that it does not name are refused (decision 8.15). */
  readonly schema: (services: S) => Q;
  /** Default: `The query has N bad parameter(s).` */
  readonly refusal?: string;
}

export interface BodyInput<B extends z.ZodObject, S = OperationServices> {
  readonly schema: (services: S) => B;
  /** The subject of a refusal, such as `The workload`. */
  readonly what: string;
  /** It may be left out altogether: then no member is given. Default: it may not. */
  readonly optional?: boolean;
  /** A refusal in other words. */
  readonly refusal?: (issues: readonly Issue[]) => GatewayError;
  /** The schema tells the members; what is wrong with them is said by what stores them, which knows more. */
  readonly toldOnly?: true;
}

export interface Call<P extends z.ZodObject, Q extends z.ZodObject, B extends z.ZodObject> {
  readonly principal: Principal;
  readonly params: z.output<P>;
  readonly query: z.output<Q>;
  readonly body: z.output<B>;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Aborted when whoever asks has left; undefined where that is not seen. */
  readonly signal: AbortSignal | undefined;
  /** Stores what is changed, with its entry in the audit trail; of operations that are not read-only. */
  readonly commit: Commit;
  /** As it came over HTTP; undefined on other faces, such as MCP. */
  readonly head: ArrivalHead | undefined;
  /** Who asks by what, for services that tell of it themselves. */
  readonly asking: Asking;
  /**
   * Asked, before a thing is changed, with what is shown of it as it is; with undefined when there is none.
   * @throws GatewayError `precondition_failed` when that is not what the caller has said that it is (`If-Match`,
   * `If-None-Match: *`)
   */
  readonly expectShown: (shown: unknown) => void;
}

/** An operation on the services of any program. */
export interface PlainEntry<P extends z.ZodObject, Q extends z.ZodObject, B extends z.ZodObject, O extends z.ZodType, S>
  extends OperationFacts {
  readonly input?: { readonly params?: P; readonly query?: QueryInput<Q, S>; readonly body?: BodyInput<B, S> };
  readonly output: OperationAnswer<O>;
  readonly handle: (call: Call<P, Q, B>, services: S) => OperationOutcome<z.output<O>> | Promise<OperationOutcome<z.output<O>>>;
}

export interface OperationEntry<P extends z.ZodObject, Q extends z.ZodObject, B extends z.ZodObject, O extends z.ZodType>
  extends PlainEntry<P, Q, B, O, OperationServices> {
  /** @throws GatewayError `not_found` when it is switched off; asked before the input is read */
  readonly available?: (services: OperationServices) => void;
  /**
   * What is done in the place of `handle` where a control plane owns what it writes; absent: it is `managed_remotely`
   * there, before its input is read.
   */
  readonly handOn?: (
    call: Call<P, Q, B>,
    services: OperationServices,
    handOn: HandOn,
  ) => OperationOutcome<z.output<O>> | Promise<OperationOutcome<z.output<O>>>;
}

/** What a face hands over. */
export interface Asked {
  readonly principal: Principal;
  /** Values of the path's `{names}`, percent-decoded. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Address of who asks, without port. */
  readonly from: string;
  /** As it came over HTTP. */
  readonly head?: ArrivalHead;
  /** The body as JSON. `ifNone`: what stands for one that is empty. */
  readonly json: (ifNone?: unknown) => Promise<unknown>;
  /** The body as text, where a face takes any; for operations with `textMember`. */
  readonly text?: () => Promise<string>;
  /** Aborted when nobody waits for the answer any more; absent: somebody does. */
  readonly signal?: AbortSignal | undefined;
}

export interface Inputs {
  /** The body may be left out. */
  readonly bodyOptional?: boolean;
  readonly params?: z.ZodObject;
  readonly query?: z.ZodObject;
  readonly body?: z.ZodObject;
}

/** An entry of a table: of the gateway's, or of its control plane's. */
export interface WebOperation<S> extends OperationFacts {
  readonly output: OperationAnswer;
  readonly inputs: (services: S) => Inputs;
  /**
   * How it is asked of these services. What it gives throws GatewayError, for bad input `invalid_request` that names
   * every mistake.
   */
  readonly bind: (services: S) => (asked: Asked) => Promise<OperationOutcome<unknown>>;
}

export type GatewayOperation = WebOperation<OperationServices>;

const CHANGES_NOTHING: Commit = () => Promise.reject(new TypeError('an operation that is read-only changes nothing'));

function tagged(outcome: OperationOutcome<unknown>): OperationOutcome<unknown> {
  if (!('json' in outcome)) return outcome;
  const { json, headers = [], tagged: whole = json } = outcome;
  return { json, headers: [...headers, 'ETag', etagOf(whole)] };
}

function commitOf({ annotations }: Pick<OperationFacts, 'annotations'>, asking: Asking, { audit }: OperationGround): Commit {
  return annotations.readOnly ? CHANGES_NOTHING : audit.commitFor(asking);
}

/** Services on which what only reads ends, between two pages, when nobody waits for it any more. */
function endingWith(signal: AbortSignal | undefined, services: OperationServices): OperationServices {
  if (signal === undefined) return services;
  signal.throwIfAborted();
  const { store, reports } = services;
  const ended: Pick<OperationServices, 'store' | 'reports'> = {
    store: readUntil(signal, store),
    reports: Object.assign(Object.create(reports) as typeof reports, { reports: reports.reports.until(signal) }),
  };
  return Object.assign(Object.create(services) as OperationServices, ended);
}

/**
 * The same operation on another surface: one handler, so that a rule stands once. In the audit trail it is called as
 * the first.
 */
export function alike(
  entry: GatewayOperation,
  facts: Pick<OperationFacts, 'id' | 'path' | 'scope'> &
    Partial<Pick<OperationFacts, 'method' | 'summary' | 'errors' | 'versioned' | 'tools'>>,
): GatewayOperation {
  return { ...entry, ...facts };
}

/** The entry with this id. @throws TypeError when there is none: a mistake in a table */
export function entryOf(entries: readonly GatewayOperation[], id: string): GatewayOperation {
  const found = entries.find((entry) => entry.id === id);
  if (found === undefined) throw new TypeError(`no operation is called ${id}`);
  return found;
}

/** What a typed entry answers, for rooms that have no schemas of their own. */
export type AnswerSchema = z.ZodType;
export type AnswerOf<O extends AnswerSchema> = z.output<O>;

/** An entry whose own schemas are known where it is used: who asks it by name is held to them. */
export interface TypedOperation<A, O extends z.ZodType> extends GatewayOperation {
  readonly output: OperationAnswer<O>;
  /** Never there; it carries the type of the arguments. */
  readonly takes?: A;
}

type Input<P extends z.ZodObject, Q extends z.ZodObject, B extends z.ZodObject, S> = NonNullable<
  PlainEntry<P, Q, B, z.ZodType, S>['input']
>;

/** Any object. */
const OPEN = z.looseObject({});

/**
 * Reads what is asked by the schemas, which are made once. A query without a schema has no parameter; a body without
 * one is read by nobody.
 */
function reader<P extends z.ZodObject, Q extends z.ZodObject, B extends z.ZodObject, S>(
  { scope, annotations, textMember }: OperationFacts,
  input: Input<P, Q, B, S>,
  services: S,
  schema: z.ZodObject = NO_QUERY,
) {
  const query = { refusal: input.query?.refusal, anybodys: scope === 'none' && annotations.readOnly };
  const { body } = input;
  const reading = body && { ...body, schema: body.toldOnly ? OPEN : body.schema(services) };
  const given = async ({ headers, json, text }: Asked): Promise<unknown> => {
    if (textMember !== undefined && text !== undefined && !isJsonType(headers['content-type'])) return { [textMember]: await text() };
    return json(reading?.optional === true ? {} : undefined);
  };
  return async (asked: Asked): Promise<Pick<Call<P, Q, B>, 'params' | 'query' | 'body'>> => ({
    params: (input.params === undefined ? {} : readParams(input.params, asked.params)) as z.output<P>,
    query: readQuery(schema, asked.query, query) as z.output<Q>,
    body: (reading ? readBody(reading, await given(asked)) : {}) as z.output<B>,
  });
}

function isJsonType(contentType = 'application/json'): boolean {
  return /^application\/(?:[\w.-]+\+)?json\b/i.test(contentType);
}

function inputsOf<P extends z.ZodObject, Q extends z.ZodObject, B extends z.ZodObject, S>(
  { params, body }: Input<P, Q, B, S>,
  services: S,
  query: z.ZodObject | undefined,
): Inputs {
  return {
    ...(params === undefined ? {} : { params }),
    ...optional('query', query),
    ...(body === undefined ? {} : { body: body.schema(services), bodyOptional: body.optional === true }),
  };
}

/** Makes an entry that is carried out as it stands: without a trial, and by nobody else. */
export function plainOperation<
  P extends z.ZodObject,
  Q extends z.ZodObject,
  B extends z.ZodObject,
  O extends z.ZodType,
  S extends OperationGround,
>(entry: PlainEntry<P, Q, B, O, S>): WebOperation<S> {
  const { input = {}, handle, ...facts } = entry;
  return {
    ...facts,
    inputs: (services) => inputsOf(input, services, input.query?.schema(services)),
    bind: (services) => {
      const read = reader(facts, input, services, input.query?.schema(services));
      return async (asked) => {
        const { principal, headers, from } = asked;
        const asking = { principal, operation: facts.id, from };
        const given = await read(asked);
        return handle(
          {
            ...given,
            principal,
            headers,
            signal: asked.signal,
            expectShown: preconditionOf(headers),
            commit: commitOf(facts, asking, services),
            head: asked.head,
            asking,
          },
          services,
        );
      };
    },
  };
}

/**
 * Whether a control plane owns what is written.
 * @param canHandOn whether it can be handed on to that
 * @throws GatewayError `managed_remotely` where it cannot
 */
function isOwnedElsewhere(
  { ownedRemotely }: Pick<OperationFacts, 'ownedRemotely'>,
  { managedRemotely, remoteWrites }: OperationServices,
  canHandOn: boolean,
): boolean {
  if (ownedRemotely !== true || !managedRemotely) return false;
  if (!canHandOn || remoteWrites === undefined) throw ownedElsewhere();
  return true;
}

/** How an operation is carried out. */
interface Way {
  readonly commit: Commit;
  readonly ground: OperationServices;
  readonly toHandOn: HandOn;
  readonly done: <T>(work: () => Promise<OperationOutcome<T>>) => Promise<OperationOutcome<unknown>>;
}

/** @param trial undefined: it is done and not only tried */
function wayOf(
  { annotations }: Pick<OperationFacts, 'annotations'>,
  asking: Asking,
  services: OperationServices,
  { trial, signal }: { readonly trial: Trial | undefined; readonly signal: AbortSignal | undefined },
): Way {
  if (trial !== undefined)
    return { commit: trial.commit, ground: trial.services, toHandOn: trial.handOn, done: (work) => trial.outcome(work) };
  return {
    commit: commitOf({ annotations }, asking, services),
    ground: endingWith(annotations.readOnly ? signal : undefined, services),
    toHandOn: handOnFor(asking, services),
    done: (work) => work(),
  };
}

/** Makes an entry; the types of its schemas reach its handler, and whoever uses the entry itself. */
export function operation<P extends z.ZodObject, Q extends z.ZodObject, B extends z.ZodObject, O extends z.ZodType>(
  entry: OperationEntry<P, Q, B, O>,
): TypedOperation<z.input<P> & z.input<Q> & z.input<B>, O> {
  const { input = {}, available, handle, handOn, ...facts } = entry;
  const queryOf = (services: OperationServices): z.ZodObject | undefined => {
    const own = input.query?.schema(services);
    return removesOne(facts) ? withDryRun(own) : own;
  };
  return {
    ...facts,
    inputs: (services) => inputsOf(input, services, queryOf(services)),
    bind: (services) => {
      const query = queryOf(services);
      const read = reader(facts, input, services, query);
      return async (asked) => {
        const isElsewhere = isOwnedElsewhere(facts, services, handOn !== undefined);
        available?.(services);
        const { principal, headers, from, signal } = asked;
        if (isElsewhere) requireOwnPrincipal(principal, services);
        const asking = { principal, operation: facts.id, from };
        const given = await read(asked);
        const { commit, ground, toHandOn, done } = wayOf(facts, asking, services, { trial: trialOf(query, given.query, services), signal });
        const call = { ...given, principal, headers, signal, expectShown: preconditionOf(headers), commit, head: asked.head, asking };
        const outcome = await done(async () => (isElsewhere && handOn ? handOn(call, ground, toHandOn) : handle(call, ground)));
        return facts.versioned === true ? tagged(outcome) : outcome;
      };
    },
  };
}
