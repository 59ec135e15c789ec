// What the README shows, typed with the package as a user installs it.
import t from 'tap';
import { skipWithout } from '../support/peers.ts';
import { testInstalled } from './test-installed.ts';

const missing = skipWithout(['npm']);
if (missing !== false) t.test('the package', { skip: missing }, () => undefined);
else {
  // The part of the names of pages that is typed.
  process.argv[2] = 'README';
  await testInstalled(() => import('../e2e/typed-guides.test.ts'));
}
