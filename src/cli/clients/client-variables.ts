import { accessSync, constants } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Config } from '../../base/config/config.ts';
import type { Environment } from '../../base/config/settings-reader.ts';
import { shellVariable } from '../../base/config/settings-reader.ts';
import { packageRoot } from '../../base/lib/package-root.ts';
import { ownOriginHere } from '../gateway-address.ts';
import { javaStoreOf, mergeCertificates } from './merged-certificates.ts';
import { entriesOf, entryPastGateway, mergedNoProxy, NO_PROXY } from './no-proxy.ts';

export type VariableSource = 'proxy' | 'noProxy' | 'one' | 'preload' | 'root' | 'bundle' | 'java';

/**
 * What the runtimes read. Variables that add to the trust store get the root alone, those that replace it get the
 * system's roots and ours; what they name already is kept beside that. curl ignores `HTTP_PROXY` in capitals, so both
 * spellings are set, and what one of them holds is kept in both. On Windows names have no case, and setting one twice
 * is harmless.
 */
export const CLIENT_VARIABLES: readonly (readonly [name: string, source: VariableSource])[] = [
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
  ['GIT_PROXY_SSL_CAINFO', 'bundle'],
  ['CARGO_HTTP_CAINFO', 'bundle'],
  ['AWS_CA_BUNDLE', 'bundle'],
  ['CODEX_CA_CERTIFICATE', 'bundle'],
  ['JAVA_TOOL_OPTIONS', 'java'],
];

/** In whose name programs call. */
export interface ClientCaller {
  readonly workload: string;
  /** Of the workload, or an API key; absent: the workload has none. */
  readonly token?: string | undefined;
}

export interface ClientOptions {
  /** Of the gateway that is running. */
  readonly port: number;
  readonly caller?: ClientCaller | undefined;
  /** Java is told, too: each JVM then says so on its standard error, which is why a whole shell is not told unasked. */
  readonly java?: boolean;
}

/** With what programs use a gateway. */
export interface ClientVariables {
  /** In the order of the table; what cannot be set here is left out. */
  readonly variables: readonly (readonly [name: string, value: string])[];
  /** What of the shell could not be kept, for a person; each once. */
  readonly problems: readonly string[];
}

/**
 * Proxy and CA variables for programs that use the gateway of these settings. What they are set to already is kept
 * where both fit.
 * @param env what is set already
 * @throws Error when certificates cannot be kept beside ours: of half of the variables a program would be worse off
 * than of none
 */
export async function clientVariables(config: Config, options: ClientOptions, env?: Environment): Promise<ClientVariables> {
  const values = await variableValues(config, options, env);
  const problems = new Set<string>(config.tlsCertFile === undefined ? [] : [PROXY_BY_TLS]);
  const variables: [string, string][] = [];
  for (const [name, source] of CLIENT_VARIABLES) {
    const { value, problem } = await keeping(name, source, values, config, env);
    if (problem !== undefined) problems.add(problem);
    if (value !== undefined) variables.push([name, value]);
  }
  return { variables, problems: [...problems] };
}

/**
 * Certificate files that the variables name and that cannot be read: the gateway has not been started with these
 * settings yet, or its folder is another user's.
 */
export function missingCertificates(config: Config): readonly string[] {
  const { root, bundle } = certificateFiles(config);
  return [root, bundle].filter((file) => file !== undefined).filter((file) => !isReadable(file));
}

function isReadable(file: string): boolean {
  try {
    accessSync(file, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

const ANOTHER_PROXY =
  'this shell named another proxy; where the internet is reached through that one only, start the gateway with it as GW_UPSTREAM_PROXY';

/** Of none of these does a variable say what it trusts as a proxy, or can it. */
const PROXY_BY_TLS =
  "the ports speak TLS: curl takes the proxy's certificate by --proxy-cacert alone, or from the system's store; Java, Python's urllib and extensions of editors cannot use such a proxy (docs/guides/tls.md)";

type Values = Readonly<Record<VariableSource, string | undefined>>;

interface Kept {
  readonly value: string | undefined;
  readonly problem?: string;
}

/** What a variable is set to, so that what the shell has in it is not lost, unless that is another proxy. */
async function keeping(name: string, source: VariableSource, values: Values, config: Config, env?: Environment): Promise<Kept> {
  const value = values[source];
  const own = shellVariable(name, env) ?? '';
  if (source === 'noProxy') return keepNoProxy(mergedNoProxy(own, otherSpelling(name, env)));
  // Who calls stands in one spelling of the proxy's variable, and programs read either.
  const existing = own === '' && source === 'proxy' ? otherSpelling(name, env) : own;
  if (value === undefined || existing === '') return { value };
  switch (source) {
    case 'one':
      return { value };
    case 'proxy':
      return keepProxy(value, existing, config);
    case 'java':
      return keepJava(value, existing);
    case 'preload':
      return { value: existing.includes(value) ? existing : `${existing} ${value}` };
    default:
      return keepCertificates(name, value, existing, values.root ?? value, env);
  }
}

/** What the shell passes by is kept, and said where it takes calls to an AI provider away. */
function keepNoProxy(value: string): Kept {
  const problem = entryPastGateway(entriesOf(value));
  return problem === undefined ? { value } : { value, problem: `${problem}; take it out where they are to be decided` };
}

/** What a variable of a proxy is set to in its other spelling; '' where that is unset. */
export function otherSpelling(name: string, env?: Environment): string {
  const lower = name.toLowerCase();
  return shellVariable(name === lower ? name.toUpperCase() : lower, env) ?? '';
}

/** The same proxy may be named with a workload and its token; another one has to be told to the gateway. */
function keepProxy(value: string, existing: string, { upstreamProxy }: Config): Kept {
  const given = URL.canParse(existing) ? new URL(existing) : undefined;
  const own = new URL(value);
  if (given?.host === own.host) return { value: own.username === '' ? existing : value };
  if (upstreamProxy !== undefined) return { value };
  return { value, problem: ANOTHER_PROXY };
}

/** The last of two options of one name counts, so that those of the shell win. */
function keepJava(own: string, existing: string): Kept {
  if (existing.includes(own)) return { value: existing };
  const kept = `${own} ${existing}`;
  if (!/-Djavax\.net\.ssl\.trustStore=|-Dhttps\.proxyHost=/.test(existing)) return { value: kept };
  return { value: kept, problem: 'JAVA_TOOL_OPTIONS: it names a trust store or a proxy already, which Java keeps to' };
}

async function keepCertificates(name: string, own: string, existing: string, rootFile: string, env?: Environment): Promise<Kept> {
  const { file, problem } = await mergeCertificates(existing, own, rootFile, trustFolder(env));
  return problem === undefined ? { value: file } : { value: file, problem: `${name}: ${problem}, so that it is not kept` };
}

/** Where files are kept that are made for variables. */
export function trustFolder(env?: Environment): string {
  return join(shellVariable('XDG_CACHE_HOME', env) ?? join(homedir(), '.cache'), 'ai-request-gateway');
}

async function variableValues(config: Config, { port, caller, java = false }: ClientOptions, env?: Environment): Promise<Values> {
  const files = await withOwnCertificate(certificateFiles(config), config, env);
  return {
    proxy: proxyUrl(config, port, caller),
    noProxy: NO_PROXY,
    one: '1',
    preload: nodePreload(),
    ...files,
    // It cannot speak TLS to a proxy.
    java: java && config.tlsCertFile === undefined ? await javaOptions(config, port, files.bundle, env) : undefined,
  };
}

/** What `NODE_OPTIONS` gets. */
export function nodePreload(): string {
  return `--require=${quotedOption(join(packageRoot(), 'preload', 'node20-proxy.cjs'))}`;
}

/** The gateway's address as programs of this machine name it, with who calls. */
export function proxyUrl(config: Config, port: number, caller?: ClientCaller): string {
  const { workload, token = '' } = caller ?? {};
  const who = workload === undefined ? '' : `${encodeURIComponent(workload)}:${encodeURIComponent(token)}@`;
  return ownOriginHere(config, port).replace('://', `://${who}`);
}

/** Java reads neither the variables nor the files of others, and cannot be told a user for its proxy. */
async function javaOptions(config: Config, port: number, bundle: string | undefined, env?: Environment): Promise<string> {
  const host = new URL(ownOriginHere(config, port)).hostname;
  const options = ['http', 'https'].flatMap((scheme) => [`-D${scheme}.proxyHost=${host}`, `-D${scheme}.proxyPort=${port}`]);
  if (bundle === undefined) return options.join(' ');
  const store = await javaStoreOf(bundle, trustFolder(env));
  return [...options, quotedOption(`-Djavax.net.ssl.trustStore=${store}`), '-Djavax.net.ssl.trustStoreType=PKCS12'].join(' ');
}

/**
 * Where the ports speak TLS (decision 12.1), programs must trust that certificate too: it stands in files of its own
 * with what they are to trust anyway.
 */
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
    const { file: merged, problem } = await mergeCertificates(file, '', tlsCertFile, trustFolder(env));
    if (problem !== undefined) throw new Error(problem);
    return merged;
  };
  return { root: await withOwn(root), bundle: await withOwn(bundle) };
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
