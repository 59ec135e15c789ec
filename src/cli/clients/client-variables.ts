import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Config, Environment } from '../../base/config/config.ts';
import { shellVariable } from '../../base/config/environment.ts';
import { packageRoot } from '../../base/lib/package-root.ts';
import { ownOriginHere } from '../gateway-address.ts';
import { mergeCertificates } from './merged-certificates.ts';

type VariableSource = 'proxy' | 'noProxy' | 'one' | 'preload' | 'root' | 'bundle';

/**
 * What the runtimes read. Variables that add to the trust store get the root alone, those that replace it get the system's roots and ours; what they name
 * already is kept beside that. curl ignores `HTTP_PROXY` in capitals, so both spellings are set. On Windows names have no case, and setting one twice is harmless.
 */
const VARIABLES: readonly (readonly [name: string, source: VariableSource])[] = [
  ['HTTPS_PROXY', 'proxy'],
  ['HTTP_PROXY', 'proxy'],
  ['https_proxy', 'proxy'],
  ['http_proxy', 'proxy'],
  ['NO_PROXY', 'noProxy'],
  ['no_proxy', 'noProxy'],
  ['NODE_USE_ENV_PROXY', 'one'],
  ['NODE_OPTIONS', 'preload'],
  ['NODE_EXTRA_CA_CERTS', 'root'],
  ['DENO_CERT', 'root'],
  ['SSL_CERT_FILE', 'bundle'],
  ['REQUESTS_CA_BUNDLE', 'bundle'],
  ['CURL_CA_BUNDLE', 'bundle'],
  ['PIP_CERT', 'bundle'],
  ['GIT_SSL_CAINFO', 'bundle'],
  ['CARGO_HTTP_CAINFO', 'bundle'],
  ['AWS_CA_BUNDLE', 'bundle'],
  ['CODEX_CA_CERTIFICATE', 'bundle'],
];

/** With what programs use a gateway. */
export interface ClientVariables {
  /** In the order of the table; what cannot be set here is left out. */
  readonly variables: readonly (readonly [name: string, value: string])[];
  /** What of the shell could not be kept, for a person; each once. */
  readonly problems: readonly string[];
}

/**
 * Proxy and CA variables for programs that use the gateway of these settings. What they are set to already is kept where both fit.
 * @param port of the gateway that is running
 * @param env what is set already
 * @throws Error when certificates cannot be kept beside ours: of half of the variables a program would be worse off than of none
 */
export async function clientVariables(config: Config, port: number, env?: Environment): Promise<ClientVariables> {
  const values = await variableValues(config, port, env);
  const problems = new Set<string>();
  const variables: [string, string][] = [];
  for (const [name, source] of VARIABLES) {
    const { value, problem } = await keeping(name, source, values, config, env);
    if (problem !== undefined) problems.add(problem);
    if (value !== undefined) variables.push([name, value]);
  }
  return { variables, problems: [...problems] };
}

/** Certificate files that the variables name and that are not there: the gateway has not been started with these settings yet. */
export function missingCertificates(config: Config): readonly string[] {
  const { root, bundle } = certificateFiles(config);
  return [root, bundle].filter((file) => file !== undefined).filter((file) => !existsSync(file));
}

const ANOTHER_PROXY =
  'this shell named another proxy; where the internet is reached through that one only, start the gateway with it as GW_UPSTREAM_PROXY';

type Values = Readonly<Record<VariableSource, string | undefined>>;

interface Kept {
  readonly value: string | undefined;
  readonly problem?: string;
}

/** What a variable is set to, so that what the shell has in it is not lost, unless that is another proxy. */
async function keeping(name: string, source: VariableSource, values: Values, config: Config, env?: Environment): Promise<Kept> {
  const value = values[source];
  const existing = shellVariable(name, env) ?? '';
  if (value === undefined || existing === '') return { value };
  switch (source) {
    case 'one':
      return { value };
    case 'proxy':
      return keepProxy(value, existing, config);
    case 'noProxy':
      return { value: mergeNoProxy(existing, value) };
    case 'preload':
      return { value: existing.includes(value) ? existing : `${existing} ${value}` };
    default:
      return keepCertificates(name, value, existing, values.root ?? value, env);
  }
}

/** The same proxy may be named with a workload and its token; another one has to be told to the gateway. */
function keepProxy(value: string, existing: string, { upstreamProxy }: Config): Kept {
  const given = URL.canParse(existing) ? new URL(existing) : undefined;
  if (given?.host === new URL(value).host) return { value: existing };
  if (upstreamProxy !== undefined) return { value };
  return { value, problem: ANOTHER_PROXY };
}

/** `*` would take everything past the gateway. */
function mergeNoProxy(existing: string, own: string): string {
  const entries = existing.split(',').map((entry) => entry.trim());
  return [...new Set([...entries.filter((entry) => entry !== '' && entry !== '*'), ...own.split(',')])].join(',');
}

async function keepCertificates(name: string, own: string, existing: string, rootFile: string, env?: Environment): Promise<Kept> {
  const { file, problem } = await mergeCertificates(existing, own, rootFile, cacheFolder(env));
  return problem === undefined ? { value: file } : { value: file, problem: `${name}: ${problem}, so that it is not kept` };
}

async function variableValues(config: Config, port: number, env?: Environment): Promise<Values> {
  return {
    proxy: ownOriginHere(config, port),
    noProxy: 'localhost,127.0.0.1,::1',
    one: '1',
    preload: `--require=${quotedOption(join(packageRoot(), 'preload', 'node20-proxy.cjs'))}`,
    ...(await withOwnCertificate(certificateFiles(config), config, env)),
  };
}

/** Where the ports speak TLS (decision 12.1), programs must trust that certificate too: it stands in files of its own with what they are to trust anyway. */
async function withOwnCertificate(
  files: Pick<Values, 'root' | 'bundle'>,
  { tlsCertFile }: Config,
  env?: Environment,
): Promise<Pick<Values, 'root' | 'bundle'>> {
  if (tlsCertFile === undefined) return files;
  const { root, bundle } = files;
  // Nothing is intercepted: what replaces a trust store is left alone.
  if (root === undefined || bundle === undefined) return { root: tlsCertFile, bundle };
  const withOwn = async (file: string): Promise<string> => {
    const { file: merged, problem } = await mergeCertificates(file, '', tlsCertFile, cacheFolder(env));
    if (problem !== undefined) throw new Error(problem);
    return merged;
  };
  return { root: await withOwn(root), bundle: await withOwn(bundle) };
}

function cacheFolder(env?: Environment): string {
  return join(shellVariable('XDG_CACHE_HOME', env) ?? join(homedir(), '.cache'), 'ai-request-gateway');
}

/** None where nothing is intercepted. */
function certificateFiles({ proxyEnabled, proxyMitmEnabled, caDir }: Config): Pick<Values, 'root' | 'bundle'> {
  if (!proxyEnabled || !proxyMitmEnabled) return { root: undefined, bundle: undefined };
  return { root: join(caDir, 'root-ca.pem'), bundle: join(caDir, 'ca-bundle.pem') };
}

/** As NODE_OPTIONS takes a path. */
function quotedOption(path: string): string {
  return /[\s"\\]/.test(path) ? `"${path.replace(/["\\]/g, '\\$&')}"` : path;
}
