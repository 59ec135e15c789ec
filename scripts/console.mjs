/*
 * Builds the web console: src/console, for browsers, into build/console, as the package ships it: names with hashes,
 * compressed forms beside them, and a list of what was bundled with its licences. Nothing of it is built or fetched
 * where the gateway runs.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';

const TARGETS = ['chrome123', 'firefox121', 'safari17.5'];
const COMPRESSED = /\.(js|css|svg|html)$/;

/** @param root of the project. Throws an Error that says which line of which file is wrong */
export async function buildConsole(root) {
  const { build, formatMessages } = await import('esbuild');
  const from = join(root, 'src', 'console');
  const to = join(root, 'build', 'console');
  let result;
  try {
    result = await build({
      entryPoints: { main: join(from, 'main.tsx'), style: join(from, 'style.css') },
      outdir: join(to, 'assets'),
      entryNames: '[name]-[hash]',
      chunkNames: '[name]-[hash]',
      bundle: true,
      splitting: true,
      format: 'esm',
      minify: true,
      target: TARGETS,
      jsx: 'automatic',
      jsxImportSource: 'preact',
      legalComments: 'none',
      metafile: true,
      write: false,
      logLevel: 'silent',
      absWorkingDir: root,
    });
  } catch (error) {
    const lines = await formatMessages(error.errors ?? [], { kind: 'error' });
    throw new Error(`the console does not build:\n${lines.join('\n')}`, { cause: error });
  }
  const files = new Map(result.outputFiles.map(({ path, contents }) => [path.slice(to.length + 1), Buffer.from(contents)]));
  const icon = readFileSync(join(from, 'icon.svg'));
  const iconName = `assets/icon-${createHash('sha256').update(icon).digest('hex').slice(0, 8)}.svg`;
  files.set(iconName, icon);
  files.set('index.html', Buffer.from(pageOf(readFileSync(join(from, 'index.html'), 'utf8'), result.metafile, iconName, 'build/console/')));
  rmSync(to, { recursive: true, force: true });
  mkdirSync(join(to, 'assets'), { recursive: true });
  for (const [name, bytes] of files) {
    writeFileSync(join(to, name), bytes);
    if (COMPRESSED.test(name)) writeFileSync(join(to, `${name}.br`), packed(bytes));
  }
  return { inputs: Object.keys(result.metafile.inputs), files };
}

/** The document, with the names that the files have now. */
function pageOf(text, { outputs }, icon, prefix) {
  let page = text.replace('"assets/icon.svg"', `"${icon}"`);
  for (const [path, { entryPoint }] of Object.entries(outputs)) {
    if (entryPoint === 'src/console/main.tsx') page = page.replace('"assets/main.js"', `"${path.slice(prefix.length)}"`);
    if (entryPoint === 'src/console/style.css') page = page.replace('"assets/style.css"', `"${path.slice(prefix.length)}"`);
  }
  if (/"assets\/(main\.js|style\.css|icon\.svg)"/.test(page)) throw new Error('the page of the console names a file that was not built');
  return page;
}

function packed(bytes) {
  return brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } });
}
