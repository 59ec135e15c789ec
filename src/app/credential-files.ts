import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Catalogue } from '../base/catalogue/types.ts';
import { type ErrorDetail, GatewayError } from '../base/lib/gateway-error.ts';
import { canonicalHost } from '../base/lib/host.ts';
import { parseYaml, type YamlNode } from '../base/lib/yaml.ts';
import type { CredentialChange, CredentialService } from '../services/credentials.ts';
import { type CredentialBodyContext, parseCredential } from '../surfaces/admin/credential-body.ts';

/**
 * Upserts the credentials of every `*.yaml` in a folder (decision 6.6: one Credential map, or a list of them under `credentials`). All files are read and
 * checked before anything is stored. A folder that does not exist holds none.
 * @returns the ids, in the order of the files
 * @throws GatewayError `invalid_request` that names file, line and member of every mistake, never a secret
 */
export async function loadCredentialFiles(
  dir: string,
  service: CredentialService,
  context: CredentialBodyContext,
): Promise<readonly string[]> {
  const changes: CredentialChange[] = [];
  const problems: ErrorDetail[] = [];
  for (const name of await yamlFiles(dir)) readFileText(await readFile(join(dir, name), 'utf8'), name, context, { changes, problems });
  if (problems.length > 0)
    throw new GatewayError('invalid_request', `The credential files have ${problems.length} mistake(s).`, { details: problems });
  for (const change of changes) await service.put(change);
  return changes.map(({ credential_id: id }) => id);
}

function readFileText(
  text: string,
  file: string,
  context: CredentialBodyContext,
  found: { changes: CredentialChange[]; problems: ErrorDetail[] },
): void {
  const { root, errors } = parseYaml(text, file);
  found.problems.push(...errors);
  for (const node of errors.length > 0 ? [] : credentialNodes(root)) {
    try {
      found.changes.push(parseCredential(plain(node), context));
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      const { line, column } = node;
      found.problems.push(...(error.details ?? []).map((detail) => ({ ...detail, file, line, column })));
    }
  }
}

async function yamlFiles(dir: string): Promise<readonly string[]> {
  try {
    return (await readdir(dir)).filter((name) => name.endsWith('.yaml') && !name.startsWith('.')).sort();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

function credentialNodes(root: YamlNode): readonly YamlNode[] {
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

/** What a credential is checked against: a connector of the registry, and its hosts. */
export function credentialContext(catalogue: Catalogue): CredentialBodyContext {
  return {
    keyedConnector: (text) => catalogue.provider(text)?.id,
    coversHost: (connectorId, host) => canonicalHost(host) === host && catalogue.providerForHost(host)?.id === connectorId,
  };
}
