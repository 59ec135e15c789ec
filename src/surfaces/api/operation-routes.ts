import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Arrival } from '../../base/model/arrival.ts';
import type { WebOperation } from '../../operations/operation.ts';
import { EXECUTE } from '../../operations/served-elsewhere.ts';
import type { Route } from '../http/route.ts';

/** What a program that serves a table says of all its routes. */
export interface OperationRouteOptions {
  /** Bytes, where an operation says nothing else. Default: that of the router. */
  readonly maxBodyBytes?: number;
  /** Told of each answer: the id of the operation and the status. */
  readonly answered?: (operation: string, status: number) => void;
}

/** The face of a table of operations on a port: a route for each entry. */
export function operationRoutes<S>(
  operations: readonly WebOperation<S>[],
  services: S,
  { maxBodyBytes: most, answered }: OperationRouteOptions = {},
): readonly Route[] {
  return operations.map(({ id, method, path, scope, summary, ambient = false, maxBodyBytes = most, waits, output, bind }) => {
    const ask = bind(services);
    const base = { status: output.status, contentType: output.contentType ?? 'application/json' };
    const route = {
      method,
      path,
      auth: scope,
      summary,
      ambient,
      query: 'read' as const,
      ...(maxBodyBytes === undefined ? {} : { maxBodyBytes }),
      ...(waits && { waits }),
    };
    const handle: Handle = async ({ principal, head, from, params, query, json, text, signal }) => ({
      ...base,
      ...(await ask({ principal, params, query, headers: head.headers, head, from, json, text, signal })),
    });
    return { ...route, handle: answered === undefined ? handle : told(handle, (status) => answered(id, status)) };
  });
}

type Handle = Extract<Route, { handle: unknown }>['handle'];

function told(handle: Handle, answered: (status: number) => void): Handle {
  return async (request) => {
    try {
      const answer = await handle(request);
      answered(answer.status);
      return answer;
    } catch (error) {
      answered(error instanceof GatewayError ? error.status : 500);
      throw error;
    }
  };
}

/**
 * The structured API (specification, "Action execution"). The pipeline answers by itself, in an envelope or as an event
 * stream.
 */
export function actionRoutes(runDirect: (arrival: Arrival) => void): readonly Route[] {
  const { method, path, scope, summary } = EXECUTE;
  return [{ method, path, auth: scope, summary, take: runDirect }];
}
