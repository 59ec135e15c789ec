import { type Config, ConfigError, loadConfig } from '../../base/config/config.ts';
import { parsePort } from '../../base/lib/host.ts';
import { messageOf } from '../../base/lib/thrown.ts';
import { badValue } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, EXIT_USAGE } from '../command.ts';
import { parseOptions } from '../parse-options.ts';
import { type ClientVariables, clientVariables, missingCertificates } from './client-variables.ts';

/** How each shell sets a variable for the programs that it starts. */
const SHELLS: Readonly<Record<string, (name: string, value: string) => string>> = {
  sh: (name, value) => `export ${name}='${value.replaceAll("'", `'\\''`)}'`,
  fish: (name, value) => `set -gx ${name} '${value.replace(/[\\']/g, '\\$&')}'`,
  powershell: (name, value) => `$env:${name} = '${value.replaceAll("'", "''")}'`,
};

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
  const missing = missingCertificates(config);
  if (missing.length > 0) {
    io.stderr(
      `gw env: there is no ${missing.join(' and no ')}: start the gateway first, and run this in its folder or with its GW_CA_DIR\n`,
    );
    return EXIT_NO;
  }
  let made: ClientVariables;
  try {
    made = await clientVariables(config, port, io.env);
  } catch (error) {
    io.stderr(`gw env: ${messageOf(error)}\n`);
    return EXIT_NO;
  }
  for (const problem of made.problems) io.stderr(`gw env: ${problem}\n`);
  for (const [name, value] of made.variables) io.stdout(`${options.assign(name, value)}\n`);
  return EXIT_OK;
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
