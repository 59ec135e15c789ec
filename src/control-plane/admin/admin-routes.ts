import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Route } from '../../surfaces/http/route.ts';
import { type AdminOperation, type AdminServices, maxBodyOf } from './admin-operation.ts';

/** Told of each answer: the id of the operation and the status. */
export type AdminAnswered = (operation: string, status: number) => void;

/** The face of the table on the port: a route for each entry. */
export function adminRoutes(operations: readonly AdminOperation[], services: AdminServices, answered: AdminAnswered): readonly Route[] {
  return operations.map((operation) => {
    const { id, method, path, scope, summary, bind } = operation;
    const ask = bind(services);
    return {
      method,
      path,
      auth: scope,
      summary,
      query: 'read' as const,
      maxBodyBytes: maxBodyOf(operation),
      handle: async (request) => {
        try {
          const answer = await ask(request);
          answered(id, answer.status);
          return answer;
        } catch (error) {
          answered(id, error instanceof GatewayError ? error.status : 500);
          throw error;
        }
      },
    };
  });
}
