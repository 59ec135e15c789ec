import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { type Config, ConfigError, type Environment, loadConfig } from '../base/config/config.ts';
import { shellVariable } from '../base/config/environment.ts';
import { bracketHost, parsePort } from '../base/lib/host.ts';
import { packageRoot } from '../base/lib/package-root.ts';
import { messageOf } from '../base/lib/thrown.ts';
import { badValue } from './checked-arguments.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, EXIT_USAGE } from './command.ts';
import { mergeCertificates } from './merged-certificates.ts';
import { parseOptions } from './parse-options.ts';

/** How each shell sets a variable for the programs that it starts. */
const SHELLS: Readonly<Record<string, (name: string, value: string) => string>> = {
  sh: (name, value) => `export ${name}='${value.replaceAll("'", `'\\''`)}'`,
  fish: (name, value) => `set -gx ${name} '${value.replace(/[\\']/g, '\\$&')}'`,
  powershell: (name, value) => `$env:${name} = '${value.replaceAll("'", "''")}'`,
};

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

/** Prints the variables with which programs use a gateway that runs with the same settings. */
export const env: Command = {
  name: 'env',
  usage: '[--shell sh|fish|powershell] [--ambient] [--port PORT]',
  summary: 'Prints proxy and CA variables for a running gateway: eval "$(gw env)".',
  run: printVariables,
};

const OPTIONS = { shell: { type: 'string' }, port: { type: 'string' }, ambient: { type: 'boolean' } } as const;

interface EnvOptions {
  readonly assign: (name: string, value: string) => string;
  readonly port: number | undefined;
  readonly ambient: boolean;
}

async function printVariables(args: readonly string[], io: CliIo): Promise<number> {
  const options = readOptions(args);
  let config: Config;
  try {
    config = loadConfig(io.env).config;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    io.stderr(`${error.message}\n`);
    return EXIT_USAGE;
  }
  const port = options.port ?? (options.ambient ? config.ambientPort : config.port);
  if (port === 0) {
    io.stderr('gw env: the port is 0, so the gateway picked one itself; give it with --port\n');
    return EXIT_USAGE;
  }
  const values = variableValues(config, port);
  const missing = [values.root, values.bundle].filter((file) => file !== undefined && !existsSync(file));
  if (missing.length > 0) {
    io.stderr(
      `gw env: there is no ${missing.join(' and no ')}: start the gateway first, and run this in its folder or with its GW_CA_DIR\n`,
    );
    return EXIT_NO;
  }
  let lines: readonly string[];
  try {
    lines = await assignments(options, values, config, io);
  } catch (error) {
    // Of half of the variables a shell would be worse off than of none.
    io.stderr(`gw env: ${messageOf(error)}\n`);
    return EXIT_NO;
  }
  for (const line of lines) io.stdout(line);
  return EXIT_OK;
}

/** One line for each variable. What of the shell could not be kept is said. @throws Error when certificates cannot be kept beside ours */
async function assignments({ assign }: EnvOptions, values: Values, config: Config, io: CliIo): Promise<string[]> {
  const said = new Set<string>();
  const lines: string[] = [];
  for (const [name, source] of VARIABLES) {
    const { value, problem } = await keeping(name, source, values, config, io.env);
    if (problem !== undefined) said.add(problem);
    if (value !== undefined) lines.push(`${assign(name, value)}\n`);
  }
  for (const problem of said) io.stderr(`gw env: ${problem}\n`);
  return lines;
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
  const cache = shellVariable('XDG_CACHE_HOME', env) ?? join(homedir(), '.cache');
  const { file, problem } = await mergeCertificates(existing, own, rootFile, join(cache, 'ai-request-gateway'));
  return problem === undefined ? { value: file } : { value: file, problem: `${name}: ${problem}, so that it is not kept` };
}

function variableValues(config: Config, port: number): Values {
  const intercepts = config.proxyEnabled && config.proxyMitmEnabled;
  return {
    proxy: `http://${bracketHost(reachable(config.host))}:${port}`,
    noProxy: 'localhost,127.0.0.1,::1',
    one: '1',
    preload: `--require=${quotedOption(join(packageRoot(), 'preload', 'node20-proxy.cjs'))}`,
    root: intercepts ? join(config.caDir, 'root-ca.pem') : undefined,
    bundle: intercepts ? join(config.caDir, 'ca-bundle.pem') : undefined,
  };
}

/** As NODE_OPTIONS takes a path. */
function quotedOption(path: string): string {
  return /[\s"\\]/.test(path) ? `"${path.replace(/["\\]/g, '\\$&')}"` : path;
}

/** An address that means "all of mine" to bind is no address to connect to. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}

/** @throws UsageError */
function readOptions(args: readonly string[]): EnvOptions {
  const { shell = 'sh', port: given, ambient = false } = parseOptions(args, OPTIONS);
  const assign = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined;
  if (assign === undefined) throw badValue('--shell', Object.keys(SHELLS).join(', '), shell);
  const port = given === undefined ? undefined : parsePort(given);
  if (given !== undefined && port === undefined) throw badValue('--port', 'a port from 1 to 65535', given);
  return { assign, port, ambient };
}
