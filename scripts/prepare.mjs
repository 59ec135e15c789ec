/*
 * npm runs it after `npm install` in a clone, and before the first `npx gw`: compiles, so that `gw` is there. `npm
 * start` and its like compile by themselves, after an installation of their own; where the compiler is not installed
 * there is nothing to do.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { compileClone, projectRoot, SET_UP_RUNS } from './setup.mjs';

if (process.env[SET_UP_RUNS] === undefined && existsSync(join(projectRoot, 'node_modules', 'typescript'))) {
  await compileClone().catch((error) => {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  });
}
