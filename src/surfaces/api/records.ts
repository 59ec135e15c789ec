/*
 * The api surface: what applications and anyone with the right token may ask: the structured API, records, verification, health, trust material.
 */
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { Route } from '../http/route.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const SHA256 = /^[0-9a-f]{64}$/;

/** Records and what can be proven about them (specification, "Gateway admin API"; decisions 3.6, 7.1). */
export function recordRoutes(store: Store): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/v1/records/{id}',
      auth: 'admin',
      summary: 'One execution record, byte for byte as it was hashed.',
      handle: async ({ params }) => {
        const id = (params['id'] ?? '').toLowerCase();
        const found = UUID.test(id) ? await store.recordById(id) : undefined;
        if (!found) throw new GatewayError('not_found', `There is no record ${id}.`);
        return { status: 200, text: found.text, contentType: 'application/json' };
      },
    },
    {
      method: 'GET',
      path: '/v1/verify/{record_hash}',
      auth: 'admin',
      summary: 'Whether a record hash is included in a signed root; `pending_inclusion` while no control plane is connected.',
      handle: async ({ params }) => {
        const hash = (params['record_hash'] ?? '').toLowerCase();
        const found = SHA256.test(hash) ? await store.recordByHash(hash) : undefined;
        if (!found) throw new GatewayError('not_found', 'No record has this hash.');
        return { status: 200, json: { status: 'pending_inclusion', record_hash: hash } };
      },
    },
  ];
}
