import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { CatalogueInForce } from '../base/catalogue/catalogue-in-force.ts';
import { folderError, inFolder } from '../base/lib/file-system.ts';
import { codeOf, type ErrorDetail, GatewayError } from '../base/lib/gateway-error.ts';
import { canonicalHost } from '../base/lib/host.ts';
import type { Logger } from '../base/lib/log.ts';
import type { ParsedYaml, YamlNode } from '../base/lib/yaml.ts';
import { readYaml } from '../base/lib/yaml-thread.ts';
import { parseCredential } from '../operations/credential-body.ts';
import type { CredentialBodyContext } from '../operations/services.ts';
import type { CredentialChange, CredentialService } from '../services/people/credentials.ts';
import type { CustomConnectorService } from '../services/policy/custom-connectors.ts';
import { memberChange } from '../services/registers/audit-changes.ts';
import type { Commit } from '../services/registers/commit.ts';
import { credentialKey } from '../services/registers/org-key.ts';

/** A credential of a file, and where it stands there. */
interface FileCredential {
  readonly change: CredentialChange;
  readonly file: string;
  readonly node: YamlNode;
}

/**
 * Upserts the credentials of every `*.yaml` in a folder (decision 6.6: one Credential map, or a list of them under
 * `credentials`). All of it is read and checked before anything is stored, and stored in one write. A folder that does
 * not exist holds none.
 * @returns the ids, in the order of the files
 * @throws GatewayError `invalid_request` that names file, line and member of every mistake, never a secret
 */
export async function loadCredentialFiles(
  dir: string,
  service: CredentialService,
  context: CredentialBodyContext,
  log: Logger,
  commit?: Commit,
): Promise<readonly string[]> {
  const changes = await readCredentialFiles(dir, service, context, log);
  await service.putAll(changes, commit && naming(changes, commit));
  return changes.map(({ credential_id: id }) => id);
}

/** Files have many credentials: the entry of the audit trail says which ones. */
function naming(changes: readonly CredentialChange[], commit: Commit): Commit {
  const ids = changes.map(({ credential_id: id }) => memberChange('credential', 'credential_id', { before: id, after: id }));
  return (object, effects, expect, also) => commit(object, effects, expect, also, () => ids);
}

/** What these files hold, read and checked; nothing is stored. @throws GatewayError as {@link loadCredentialFiles} */
export async function readCredentialFiles(
  dir: string,
  service: Pick<CredentialService, 'check'>,
  context: CredentialBodyContext,
  log: Logger,
): Promise<readonly CredentialChange[]> {
  const problems: ErrorDetail[] = [];
  const found: FileCredential[] = [];
  for (const { name, parsed } of await parsedFiles(dir)) {
    const file = join(dir, name);
    const read = readParsed(parsed, name, context, problems);
    if (read.some(({ change }) => holdsSecret(change)) && (await isOpenToOthers(file)))
      log.warn({ file }, 'this file holds a provider key, and every user of this machine can read or change it: chmod 600');
    found.push(...read);
  }
  const places = new Map<string, string>();
  for (const { change, file, node } of found) {
    const id = change.credential_id;
    const key = credentialKey(change);
    const other = places.get(key);
    if (other !== undefined) problems.push({ path: 'credential_id', message: `${id} stands in ${other}, too`, ...at(file, node) });
    places.set(key, `${file}:${node.line}`);
    problems.push(...mistakesOf(() => service.check(change), file, node));
  }
  if (problems.length > 0)
    throw new GatewayError('invalid_request', `The credential files have ${problems.length} mistake(s).`, {
      details: problems,
      verbose: true,
    });
  return found.map(({ change }) => change);
}

/** Where a control plane owns the credentials files count for nothing; whoever has some is told. */
export async function passOverCredentialFiles(dir: string, log: Logger): Promise<void> {
  const files = await yamlFiles(dir);
  if (files.length > 0)
    log.warn({ dir, files }, 'these credential files are not read: the credentials of this gateway come from its control plane');
}

function holdsSecret({ secret_ref: ref }: CredentialChange): boolean {
  return ref !== undefined && !ref.startsWith('env:');
}

/** Of the file itself, where a link leads to it. Windows has no such bits. */
async function isOpenToOthers(file: string): Promise<boolean> {
  return process.platform !== 'win32' && ((await stat(file)).mode & 0o006) !== 0;
}

function readParsed(
  { root, errors }: ParsedYaml,
  file: string,
  context: CredentialBodyContext,
  problems: ErrorDetail[],
): readonly FileCredential[] {
  problems.push(...errors);
  const found: FileCredential[] = [];
  for (const node of errors.length > 0 ? [] : credentialNodes(root)) {
    problems.push(...mistakesOf(() => found.push({ change: parseCredential(plain(node), context), file, node }), file, node));
  }
  return found;
}

/** What is thrown, as mistakes of a place in a file. */
function mistakesOf(check: () => unknown, file: string, node: YamlNode): readonly ErrorDetail[] {
  try {
    check();
    return [];
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    const details = error.details ?? [{ path: '', message: error.message }];
    return details.map((detail) => ({ ...detail, ...at(file, node) }));
  }
}

function at(file: string, { line, column }: YamlNode): Pick<ErrorDetail, 'file' | 'line' | 'column'> {
  return { file, line, column };
}

async function parsedFiles(dir: string): Promise<readonly { readonly name: string; readonly parsed: ParsedYaml }[]> {
  const texts: { file: string; text: string }[] = [];
  for (const file of await yamlFiles(dir))
    texts.push({ file, text: await inFolder('GW_CREDENTIALS_DIR', dir, () => readFile(join(dir, file), 'utf8')) });
  return (await readYaml(texts)).map((parsed, i) => ({ name: texts[i]?.file ?? '', parsed }));
}

async function yamlFiles(dir: string): Promise<readonly string[]> {
  try {
    const entries = await readdir(dir, { withFileTypes: true });
    const files = entries.filter((entry) => entry.name.endsWith('.yaml') && !entry.name.startsWith('.') && !entry.isDirectory());
    return files.map(({ name }) => name).sort();
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw folderError('GW_CREDENTIALS_DIR', dir, error);
  }
}

function credentialNodes(root: YamlNode): readonly YamlNode[] {
  if (root.kind === 'scalar' && root.source === '') return [];
  if (root.kind !== 'map') return [root];
  const list = root.entries.find(({ key }) => key.source === 'credentials');
  return list?.value.kind === 'seq' && root.entries.length === 1 ? list.value.items : [root];
}

/** Texts as they were written: an id such as `007` stays one. */
function plain(node: YamlNode): unknown {
  if (node.kind === 'scalar') return node.value === null ? undefined : node.source;
  if (node.kind === 'seq') return node.items.map(plain);
  return Object.fromEntries(node.entries.map(({ key, value }) => [key.source, plain(value)]));
}

/**
 * What a credential is checked against: a connector of the registry or one that an org has made, whether that is
 * switched on or not, and its hosts.
 */
export function credentialContext(catalogues: CatalogueInForce, custom: CustomConnectorService): CredentialBodyContext {
  const isHostOf = (connectorId: string, host: string): boolean =>
    custom.coversHost(connectorId, host) || catalogues.shipped().providerForHost(host)?.id === connectorId;
  return {
    keyedConnector: (text, orgId) => catalogues.shipped().provider(text)?.id ?? custom.connectorId(text, orgId),
    coversHost: (connectorId, host) => canonicalHost(host) === host && isHostOf(connectorId, host),
  };
}

const CUSTOM = /^custom:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * The same for files, which may name a custom connector that its org has removed: no start must fail for what an org
 * may do. Its key then goes nowhere.
 */
export function fileContext(catalogues: CatalogueInForce, custom: CustomConnectorService): CredentialBodyContext {
  const { keyedConnector, coversHost } = credentialContext(catalogues, custom);
  const isGone = (id: string): boolean => CUSTOM.test(id) && custom.connectorId(id) === undefined;
  return {
    keyedConnector: (text, orgId) => keyedConnector(text, orgId) ?? (isGone(text) ? text : undefined),
    coversHost: (id, host) => coversHost(id, host) || (isGone(id) && canonicalHost(host) === host),
  };
}
