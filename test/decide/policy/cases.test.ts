import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../../src/base/lib/package-root.ts';
import { readSuite } from '../../../src/decide/policy/suite.ts';
import { inputOf, mismatches } from '../../../src/decide/policy/suite-case.ts';
import { compileAll } from './policy-facts.ts';

/*
 * The rule language as data: test/cases/policy/*.yaml. What is expected was worked out from the language's rules, never
 * copied from an output.
 */
const FOLDER = join(packageRoot(), 'test', 'cases', 'policy');

for (const file of readdirSync(FOLDER).filter((name) => name.endsWith('.yaml'))) {
  t.test(file, async (t) => {
    const { suite, errors } = readSuite({ text: readFileSync(join(FOLDER, file), 'utf8'), file });
    t.same(errors, undefined, 'the suite loads');
    for (const one of suite?.cases ?? []) {
      const { bundle, ...input } = inputOf(one);
      const compiled = compileAll({ text: bundle.text, ...input }, { allowUnsupported: one.unsupported ?? true });
      t.strictSame(mismatches(one, compiled), [], one.name);
    }
  });
}
