#!/usr/bin/env node
/* The command `gw`: the compiled program. Plain Node, since a clone is compiled only by its first set-up. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const main = new URL('../build/src/main.js', import.meta.url);
if (existsSync(main)) await import(main.href);
else {
  const folder = fileURLToPath(new URL('..', import.meta.url));
  process.stderr.write(
    `gw: it is not compiled yet. In ${folder} "npm start" compiles it and starts the gateway, "npm run build" compiles it alone.\n`,
  );
  process.exitCode = 2;
}
