import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Config, ConfigError, loadConfig } from '../base/config/config.ts';
import { bracketHost, parsePort } from '../base/lib/host.ts';
import { messageOf } from '../base/lib/thrown.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, EXIT_USAGE } from './command.ts';

/** How each shell sets a variable for the programs that it starts. */
const SHELLS: Readonly<Record<string, (name: string, value: string) => string>> = {
  sh: (name, value) => `export ${name}='${value.replaceAll("'", `'\\''`)}'`,
  fish: (name, value) => `set -gx ${name} '${value.replace(/[\\']/g, '\\$&')}'`,
  powershell: (name, value) => `$env:${name} = '${value.replaceAll("'", "''")}'`,
};

type VariableSource = 'proxy' | 'noProxy' | 'one' | 'root' | 'bundle';

/**
 * What the runtimes read. Variables that add to the trust store get the root alone, those that replace it get the system's roots and ours. curl ignores
 * `HTTP_PROXY` in capitals, so both spellings are set. On Windows names have no case, and setting one twice is harmless.
 */
const VARIABLES: readonly (readonly [name: string, source: VariableSource])[] = [
  ['HTTPS_PROXY', 'proxy'],
  ['HTTP_PROXY', 'proxy'],
  ['https_proxy', 'proxy'],
  ['http_proxy', 'proxy'],
  ['NO_PROXY', 'noProxy'],
  ['no_proxy', 'noProxy'],
  ['NODE_USE_ENV_PROXY', 'one'],
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
  run: (args, io) => Promise.resolve(printVariables(args, io)),
};

interface EnvOptions {
  readonly assign: (name: string, value: string) => string;
  readonly port: number | undefined;
  readonly ambient: boolean;
}

function printVariables(args: readonly string[], io: CliIo): number {
  const options = readOptions(args);
  if (typeof options === 'string') {
    io.stderr(`gw env: ${options}\nusage: gw env ${env.usage}\n`);
    return EXIT_USAGE;
  }
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
  for (const [name, source] of VARIABLES) {
    const value = values[source];
    if (value !== undefined) io.stdout(`${options.assign(name, value)}\n`);
  }
  return EXIT_OK;
}

function variableValues(config: Config, port: number): Readonly<Record<VariableSource, string | undefined>> {
  const intercepts = config.proxyEnabled && config.proxyMitmEnabled;
  return {
    proxy: `http://${bracketHost(reachable(config.host))}:${port}`,
    noProxy: 'localhost,127.0.0.1,::1',
    one: '1',
    root: intercepts ? join(config.caDir, 'root-ca.pem') : undefined,
    bundle: intercepts ? join(config.caDir, 'ca-bundle.pem') : undefined,
  };
}

/** An address that means "all of mine" to bind is no address to connect to. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}

/** The options, or what is wrong with them. */
function readOptions(args: readonly string[]): EnvOptions | string {
  let values: { shell?: string; port?: string; ambient?: boolean };
  try {
    const options = { shell: { type: 'string' }, port: { type: 'string' }, ambient: { type: 'boolean' } } as const;
    values = parseArgs({ args: [...args], options, strict: true, allowPositionals: false }).values;
  } catch (error) {
    return messageOf(error);
  }
  const assign = Object.hasOwn(SHELLS, values.shell ?? 'sh') ? SHELLS[values.shell ?? 'sh'] : undefined;
  if (assign === undefined) return `--shell takes ${Object.keys(SHELLS).join(', ')}`;
  const port = values.port === undefined ? undefined : parsePort(values.port);
  if (values.port !== undefined && port === undefined) return '--port takes a port from 1 to 65535';
  return { assign, port, ambient: values.ambient ?? false };
}
