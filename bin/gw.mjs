#!/usr/bin/env node
/* The command `gw`: the compiled program. Plain Node, since a clone is compiled only by its first set-up. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const main = new URL('../build/src/main.js', import.meta.url);
if (existsSync(main)) {
  try {
    await import(main.href);
  } catch (error) {
    // Node opens many modules at a time.
    if (error?.code !== 'EMFILE') throw error;
    process.stderr.write('gw: this shell allows too few open files to load the program: "ulimit -n 4096" before it allows more.\n');
    process.exitCode = 2;
  }
} else {
  const folder = fileURLToPath(new URL('..', import.meta.url));
  process.stderr.write(
    `gw: it is not compiled yet. In ${folder} "npm start" compiles it and starts the gateway, "npm run build" compiles it alone.\n`,
  );
  process.exitCode = 2;
}
