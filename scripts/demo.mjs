/* `npm run demo`: sets the clone up when needed, then runs `gw demo` in the place of this process. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { projectRoot, setUp } from './setup.mjs';

try {
  await setUp({ typeCheck: false });
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
}
process.argv.splice(2, 0, 'demo');
await import(pathToFileURL(join(projectRoot, 'build', 'src', 'main.js')).href);
