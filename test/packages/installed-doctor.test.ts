// `gw doctor` of the package as a user installs it, in folders that are not the gateway's.
import t from 'tap';
import { skipWithout } from '../support/peers.ts';
import { testInstalled } from './test-installed.ts';

const missing = skipWithout(['npm']);
if (missing !== false) t.test('the package', { skip: missing }, () => undefined);
else {
  await testInstalled(() => import('../cli/doctor.test.ts'));
}
