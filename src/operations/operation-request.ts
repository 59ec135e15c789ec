/*
 * An operation and named arguments as what they are on the management API. Tools, `gw` and other programs that ask by
 * id ask through this.
 */
import { GatewayError } from '../base/lib/gateway-error.ts';
import type { GatewayOperation } from './operation.ts';

/** What of an operation its request is made of. */
type Asked = Pick<GatewayOperation, 'method' | 'path' | 'inputs'>;

import type { OperationServices } from './services.ts';

/** As it is sent. `path` has its query. */
export interface OperationRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** What named arguments ask an operation for. */
export interface OperationPlan<O extends Asked = GatewayOperation> {
  readonly operation: O;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string>>;
  /** Undefined: the operation takes none. */
  readonly body: unknown;
}

/** What an operation takes, by where it takes it; read once, since making schemas costs more than a call. */
export interface TakenNames {
  readonly path: readonly string[];
  readonly query: ReadonlySet<string>;
  /** Undefined: it takes no body. */
  readonly body: ReadonlySet<string> | undefined;
}

export interface PlanningOptions {
  /** What the names in the path are called as arguments. */
  readonly ids?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Shapes of schemas are the same whatever services they are made for. */
export const ANY_SERVICES = {} as OperationServices;

export function takenNames(operation: Asked): TakenNames {
  const { params, query, body } = operation.inputs(ANY_SERVICES);
  return {
    path: Object.keys(params?.shape ?? {}),
    query: new Set(Object.keys(query?.shape ?? {})),
    body: body && new Set(Object.keys(body.shape)),
  };
}

/**
 * Names of the path first, then parameters; everything else is a member of the body, whose schema says what does not
 * belong there.
 * @throws GatewayError `invalid_request`
 */
export function planOf<O extends Asked>(
  operation: O,
  names: TakenNames,
  args: Readonly<Record<string, unknown>>,
  { ids = {}, headers = {} }: PlanningOptions = {},
): OperationPlan<O> {
  const rest = new Map(Object.entries(args));
  const params = pathOf(names, ids, rest);
  const query = new URLSearchParams();
  for (const name of names.query) {
    const value = rest.get(name);
    if (value !== undefined) query.set(name, typeof value === 'string' ? value : JSON.stringify(value));
    rest.delete(name);
  }
  if (names.body === undefined && rest.size > 0) throw badArguments([...rest.keys()], 'is no argument of this tool');
  return { operation, params, query, headers, body: names.body === undefined ? undefined : Object.fromEntries(rest) };
}

/** Takes the names of the path out of the arguments. */
function pathOf(names: TakenNames, ids: NonNullable<PlanningOptions['ids']>, rest: Map<string, unknown>): Record<string, string> {
  const params: Record<string, string> = {};
  const missing: string[] = [];
  for (const name of names.path) {
    const argument = ids[name] ?? name;
    const value = rest.get(argument);
    if (typeof value === 'string' && value !== '') params[name] = value;
    else missing.push(argument);
    // A body may have a member of that name.
    if (names.body?.has(argument) !== true) rest.delete(argument);
  }
  if (missing.length > 0) throw badArguments(missing, 'is required: text that is not empty');
  return params;
}

export function requestOf({ operation, params, query, headers, body }: OperationPlan<Asked>): OperationRequest {
  const path = operation.path.replace(/\{(\w+)\}/g, (_whole, param: string) => encodeURIComponent(params[param] ?? ''));
  const asked = query.size === 0 ? path : `${path}?${query.toString()}`;
  return { method: operation.method, path: asked, headers, ...(body === undefined ? {} : { body }) };
}

/** @param message said of each */
export function badArguments(paths: readonly string[], message: string): GatewayError {
  return new GatewayError('invalid_request', `The call has ${paths.length} bad argument(s).`, {
    details: paths.map((path) => ({ path, message })),
  });
}
