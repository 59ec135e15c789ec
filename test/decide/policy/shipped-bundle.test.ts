import { join } from 'node:path';
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { canonicalConnectorId } from '../../../src/base/catalogue/connector-id.ts';
import { packageRoot } from '../../../src/base/lib/package-root.ts';
import { compilePolicy } from '../../../src/decide/policy/compile.ts';
import { decide } from '../../../src/decide/policy/evaluate.ts';
import { readPolicyFolder } from '../../../src/services/policy/policy-folder.ts';
import { someFacts } from './policy-facts.ts';

const catalogue = loadCatalogue();
const folder = await readPolicyFolder(join(packageRoot(), 'policies'));
const { policy, errors } = compilePolicy({ ...folder, tier: 'starter' }, { connectorId: (id) => canonicalConnectorId(catalogue, id) });

t.test('the shipped bundle loads on every tier and uses nothing that is not enforced', async (t) => {
  t.same(errors, undefined);
  t.match(policy, { bundle_id: 'default', version: '1' });
});

t.test('it lets every provider of the registry through, and nothing else', async (t) => {
  if (policy === undefined) throw new Error('the bundle does not load');
  for (const { id, hosts } of catalogue.providers) {
    const verdict = decide(policy, someFacts({ connector_id: id, target_host: hosts[0] ?? 'per-customer.example' }));
    t.equal(verdict.decision, 'allow', id);
  }
  for (const connector of ['generic_http', 'custom:mine', undefined]) {
    const verdict = decide(policy, someFacts({ connector_id: connector, target_host: 'example.com' }));
    t.match(verdict, { decision: 'deny', reason_codes: ['connector_not_allowed'] }, String(connector));
  }
});
