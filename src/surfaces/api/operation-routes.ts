import type { GatewayOperation } from '../../operations/operation.ts';
import type { OperationServices } from '../../operations/services.ts';
import type { Route } from '../http/route.ts';

/** The face of the operations table on the ports: a route for each entry. */
export function operationRoutes(operations: readonly GatewayOperation[], services: OperationServices): readonly Route[] {
  return operations.map(({ method, path, scope, summary, ambient = false, maxBodyBytes, output, bind }) => {
    const ask = bind(services);
    const base = { status: output.status, contentType: output.contentType ?? 'application/json' };
    return {
      method,
      path,
      auth: scope,
      summary,
      ambient,
      query: 'read' as const,
      ...(maxBodyBytes === undefined ? {} : { maxBodyBytes }),
      handle: async ({ principal, head: { headers }, from, params, query, json, signal }) => ({
        ...base,
        ...(await ask({ principal, params, query, headers, from, json, signal })),
      }),
    };
  });
}
