import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { readRegularFile } from '../../base/lib/file-system.ts';
import { type ErrorDetail, GatewayError, isMissing, messageOf } from '../../base/lib/gateway-error.ts';
import { packageRoot } from '../../base/lib/package-root.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { decodeUtf8, NOT_UTF8, type Utf8Fault } from '../../base/lib/text.ts';
import { MAX_YAML_LENGTH } from '../../base/lib/yaml.ts';
import { readYaml } from '../../base/lib/yaml-thread.ts';
import { mayNameFiles, type PolicyText, ruleFileNamesIn } from '../../decide/policy/bundle.ts';
import { renderProblems } from '../../policy-tools/render-problem.ts';

/** Everything that a policies folder holds, read once. Names are relative to it. */
export interface PolicyFolder {
  readonly dir: string;
  readonly bundle: PolicyText;
  /** The rule files that the bundle names and that could be read. */
  readonly files: ReadonlyMap<string, string>;
  readonly addons: readonly PolicyText[];
  readonly overlays: { readonly org: PolicyText | undefined; readonly node: PolicyText | undefined };
  /** Lower-case hex SHA-256 over all names and texts: changes when the folder's content does (decision 5.5). */
  readonly hash: string;
}

/** What a text that is parsed has at most: three bytes are the most for a UTF-16 unit. */
export const MAX_BYTES = 3 * MAX_YAML_LENGTH;
const BUNDLE = 'bundle.yaml';
const ADDONS = 'addons';
const OVERLAYS = { org: 'overlays/org.yaml', node: 'overlays/node.yaml' };

/**
 * Reads `bundle.yaml`, the rule files it names, `addons/*.yaml`, `overlays/org.yaml` and `overlays/node.yaml`
 * (decisions, section 2 and 5.6).
 * @param path the folder, or a file in the place of its `bundle.yaml`
 * @param setting what a person sets to name another one
 * @throws GatewayError `invalid_policy` when the folder or the bundle is not there or a file cannot be read
 */
export async function readPolicyFolder(path: string, setting = 'GW_POLICIES_DIR'): Promise<PolicyFolder> {
  const isFile = await stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
  const [dir, bundleFile] = isFile ? [dirname(path), basename(path)] : [path, BUNDLE];
  const bundleText = await readText(dir, bundleFile, ` (${setting} names the folder)`);
  if (bundleText === undefined) {
    const missing = `There is no policy bundle: ${join(dir, bundleFile)} does not exist (${setting} names the folder).`;
    throw new GatewayError(
      'invalid_policy',
      `${missing} gw init makes one; that of the package is in ${join(packageRoot(), 'policies')}.`,
      {
        details: [{ path: '', file: bundleFile, code: 'missing_file', message: 'the file does not exist' }],
        verbose: true,
      },
    );
  }
  const bundle = { text: bundleText, file: bundleFile };
  const files = new Map<string, string>();
  for (const name of await namedBy(bundle)) {
    const text = await readText(dir, name);
    if (text !== undefined) files.set(name, text);
  }
  const addons: PolicyText[] = [];
  for (const name of await addonNames(dir)) {
    const text = await readText(dir, name);
    if (text !== undefined) addons.push({ text, file: name });
  }
  const overlays = { org: await readOverlay(dir, OVERLAYS.org), node: await readOverlay(dir, OVERLAYS.node) };
  const texts = [bundle, ...[...files].map(([file, text]) => ({ file, text })), ...addons, overlays.org, overlays.node];
  return { dir, bundle, files, addons, overlays, hash: hashTexts(texts) };
}

/** The rule files that a bundle names. */
async function namedBy(bundle: PolicyText): Promise<readonly string[]> {
  return mayNameFiles(bundle.text) ? (await readYaml([bundle])).flatMap(ruleFileNamesIn) : [];
}

/**
 * The folders in which a change can change what {@link readPolicyFolder} reads; `folder` is what was read last, if
 * anything could be.
 */
export function foldersOf(path: string, folder: PolicyFolder | undefined): readonly string[] {
  const dir = folder?.dir ?? path;
  const named = [...(folder?.files.keys() ?? [])].map((file) => join(dir, dirname(file)));
  return [...new Set([dir, join(dir, ADDONS), join(dir, dirname(OVERLAYS.org)), ...named])];
}

/** SHA-256 over names and texts, in the order given; absent ones count for nothing. */
export function hashTexts(texts: readonly (PolicyText | undefined)[]): string {
  return sha256Hex(JSON.stringify(texts.flatMap((text) => (text === undefined ? [] : [[text.file, text.text]]))));
}

async function readOverlay(dir: string, file: string): Promise<PolicyText | undefined> {
  const text = await readText(dir, file);
  return text === undefined ? undefined : { text, file };
}

/** In the order of their names, so that the content hash does not depend on the file system. */
async function addonNames(dir: string): Promise<readonly string[]> {
  try {
    const entries = await readdir(join(dir, ADDONS), { withFileTypes: true });
    const names = entries
      .filter((entry) => !entry.isDirectory() && /^[^.].*\.ya?ml$/.test(entry.name))
      .map((entry) => `${ADDONS}/${entry.name}`);
    return names.sort();
  } catch (error) {
    if (isMissing(error)) return [];
    throw unreadable(join(dir, ADDONS), error);
  }
}

/**
 * The text of a file, undefined when there is none.
 * @throws GatewayError `invalid_policy` for what cannot be read or is no text
 */
async function readText(dir: string, file: string, hint = ''): Promise<string | undefined> {
  let bytes: Uint8Array;
  try {
    bytes = await readRegularFile(join(dir, file), MAX_BYTES);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw unreadable(join(dir, file), error, hint);
  }
  const text = decodeUtf8(bytes);
  if (typeof text === 'string') return text;
  throw notText(dir, file, text);
}

function unreadable(file: string, cause: unknown, hint = ''): GatewayError {
  const message = `the file cannot be read (${messageOf(cause)})${hint}`;
  const detail: ErrorDetail = { path: '', file, code: 'unreadable', message };
  return new GatewayError('invalid_policy', `${file}: ${message}`, { details: [detail], cause, verbose: true });
}

function notText(dir: string, file: string, { line, column, text }: Utf8Fault): GatewayError {
  const detail: ErrorDetail = { path: '', file, line, column, code: 'unreadable', ...NOT_UTF8 };
  const path = join(dir, file);
  return new GatewayError('invalid_policy', renderProblems([{ ...detail, file: path }], new Map([[path, text]])), {
    details: [detail],
    verbose: true,
  });
}
