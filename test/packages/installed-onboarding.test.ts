// The first hour of the package as a user installs it, in folders that are not the gateway's.
import t from 'tap';
import { skipWithout } from '../support/peers.ts';
import { PROGRAM_VARIABLE } from '../support/program-under-test.ts';

const missing = skipWithout(['npm']);
if (missing !== false) t.test('the package', { skip: missing }, () => undefined);
else {
  // It is read when the first of the modules is.
  process.env[PROGRAM_VARIABLE] = 'installed';
  await import('../cli/onboarding.test.ts');
}
