// A control plane in a process of its own, with one org and a token for it; says on one line where it is. Its folder is
// the argument.
import { startControlPlane } from '../../src/control-plane/app/control-plane.ts';

const plane = await startControlPlane({
  host: '127.0.0.1',
  grpcPort: 0,
  httpPort: 0,
  dataDir: process.argv[2] ?? '',
  adminToken: undefined,
  secretsKey: undefined,
  metricsToken: undefined,
  names: ['127.0.0.1'],
});
const commit = plane.state.audit.commitFor({ principal: { kind: 'admin', id: 'admin' }, operation: 'test', from: '127.0.0.1' });
await plane.state.orgs.put('acme', {}, commit);
const { token } = await plane.state.tokens.issue('acme', 3_600, commit);
process.stdout.write(`${JSON.stringify({ port: plane.grpcPort, ca: plane.state.caCertificate, token })}\n`);
process.once('SIGTERM', () => void plane.stop());
