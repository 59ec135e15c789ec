// A whole gateway that starts beside its control plane has what is registered there, and takes no changes of it.
import { join } from 'node:path';
import t from 'tap';
import { runControlPlane } from '../support/control-plane.ts';
import { startTestGateway } from '../support/gateway.ts';
import { tempDir } from '../support/temp-dir.ts';

t.test('a gateway has what its control plane has for it from its first request on, and changes nothing of it', async (t) => {
  const { plane, commit } = await runControlPlane(t);
  const { state } = plane;
  await state.orgs.put('acme', {}, commit);
  await state.entities.put('acme', 'workloads', 'batch', { name: 'Batch' }, commit);
  await state.entities.put('acme', 'credentials', 'wide', { connector_id: 'openai', mode: 'alias', secret_ref: 'sk-of-a-test' }, commit);
  const { token } = await state.tokens.issue('acme', 3_600, commit);
  const gateway = await startTestGateway(t, {
    env: {
      GW_CP_ADDR: `localhost:${plane.grpcPort}`,
      GW_ORG_ID: 'acme',
      GW_NODE_ID: 'node-1',
      GW_BOOTSTRAP_TOKEN: token,
      GW_KEY_DIR: join(tempDir(t), 'keys'),
    },
  });
  t.match(await gateway.admin('GET', '/v1/admin/workloads'), {
    status: 200,
    body: { workloads: [{ workload_id: 'batch', org_id: 'acme' }, { workload_id: 'default' }] },
  });
  t.match(await gateway.admin('GET', '/v1/admin/credentials'), {
    body: { credentials: [{ credential_id: 'wide', secret_source: 'stored' }] },
  });
  await state.orgs.put('acme', { gateway_writes: 'deny' }, commit);
  t.match(await gateway.admin('PUT', '/v1/admin/workloads', { workload_id: 'mine' }), {
    status: 409,
    body: { error: { code: 'managed_remotely' } },
  });
  t.match(await gateway.admin('POST', '/v1/admin/workloads/batch/token'), { status: 200 });
});
