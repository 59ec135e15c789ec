import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { CredentialService } from '../../services/credentials.ts';
import type { Route } from '../http/route.ts';
import { type CredentialBodyContext, parseAssignment, parseCredential } from './credential-body.ts';

export interface CredentialRouteOptions extends CredentialBodyContext {
  readonly service: CredentialService;
  /** Reads the files of `GW_CREDENTIALS_DIR` and upserts each credential; returns their ids. */
  readonly reload: () => Promise<readonly string[]>;
}

function unknown(id: string): GatewayError {
  return new GatewayError('not_found', `There is no credential ${id}.`);
}

/** Stored credentials (specification, "Gateway admin API"; decisions 6.6, 8.11). No answer holds a secret. */
export function credentialRoutes(options: CredentialRouteOptions): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/v1/admin/credentials',
      auth: 'admin',
      summary: 'All stored credentials, without their secrets.',
      handle: () => ({ status: 200, json: { credentials: options.service.list() } }),
    },
    {
      method: 'PUT',
      path: '/v1/admin/credentials',
      auth: 'admin',
      summary: 'Creates or updates one credential; an update without `secret_ref` keeps the secret and what it leaves out.',
      handle: async (request) => ({ status: 200, json: await options.service.put(parseCredential(await request.json(), options)) }),
    },
    {
      method: 'DELETE',
      path: '/v1/admin/credentials/{id}',
      auth: 'admin',
      summary: 'Removes a credential and its secret.',
      handle: async ({ params }) => {
        const id = params['id'] ?? '';
        if (!(await options.service.remove(id))) throw unknown(id);
        return { status: 200, json: { credential_id: id, status: 'deleted' } };
      },
    },
    {
      method: 'PUT',
      path: '/v1/admin/credentials/{id}/nodes',
      auth: 'admin',
      summary: 'Assigns a `node_scoped` credential to nodes: `node_ids` replaces the list.',
      handle: async (request) => {
        const id = request.params['id'] ?? '';
        const assigned = await options.service.assign(id, parseAssignment(await request.json()));
        if (!assigned) throw unknown(id);
        return { status: 200, json: assigned };
      },
    },
    {
      method: 'POST',
      path: '/v1/admin/credentials/reload',
      auth: 'admin',
      summary: 'Reads every `*.yaml` of `GW_CREDENTIALS_DIR` again and upserts what it holds; a mistake in one changes nothing.',
      handle: async () => ({ status: 200, json: { credentials: await options.reload() } }),
    },
  ];
}
