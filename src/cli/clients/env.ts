import { dirname } from 'node:path';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { isLoopbackHost } from '../../base/lib/host.ts';
import { terminalOutput } from '../../base/lib/shown-text.ts';
import { badValue, parseOptions } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK } from '../command.ts';
import { settingsOf } from '../settings-of.ts';
import { terminalText } from '../terminal-text.ts';
import { callerProblem } from './caller-problem.ts';
import { CLIENT_VARIABLES, type ClientVariables, clientVariables } from './client-variables.ts';
import { withCertificates } from './gateway-certificates.ts';
import { GATEWAY_OPTIONS, GATEWAY_USAGE, givenCaller, givenPort } from './given-gateway.ts';
import { undoneVariables } from './undone-variables.ts';
import { heldBy, VARIABLE_FORMATS } from './variable-formats.ts';

const SHELLS = Object.keys(VARIABLE_FORMATS);

const OPTIONS = {
  ...GATEWAY_OPTIONS,
  shell: { type: 'string' },
  java: { type: 'boolean' },
  unset: { type: 'boolean' },
  json: { type: 'boolean' },
} as const;

/** Prints the variables with which programs use a gateway that runs with the same settings. */
export const env: Command = {
  name: 'env',
  usage: `[--shell ${SHELLS.join('|')}] ${GATEWAY_USAGE} [--java] [--unset] [--json]`,
  summary: 'Prints proxy and CA variables for a running gateway: eval "$(gw env)"; --unset: what takes them back.',
  help: `
  --shell      sh (default): eval "$(gw env)"; fish: gw env --shell fish | source;
               powershell: gw env --shell powershell | Out-String | Invoke-Expression;
               github-actions for "$GITHUB_ENV", gitlab for a dotenv report, dotenv for docker run --env-file; json, as --json
  --workload   who calls; the token comes from --token-file or from GW_WORKLOAD_TOKEN, never from the command line
  --ambient    the port for unattended programs
  --port       of a gateway that runs elsewhere than its settings say, or of another one that was started on this machine
  --java       JAVA_TOOL_OPTIONS, too, of which each JVM prints a line
  --unset      what takes the variables of this shell back: eval "$(gw env --unset)", with the --port that they were made with
`,
  run: printVariables,
};

async function printVariables(args: readonly string[], io: CliIo): Promise<number> {
  const options = parseOptions(args, OPTIONS);
  const { shell = options.json === true ? 'json' : 'sh' } = options;
  const format = Object.hasOwn(VARIABLE_FORMATS, shell) ? VARIABLE_FORMATS[shell] : undefined;
  if (format === undefined) throw badValue('--shell', SHELLS.join(', '), shell);
  const config = settingsOf(io, { port: options.port });
  if (options.unset === true) {
    const undone = undoneVariables(config, io.env, options.port === undefined ? undefined : givenPort(options, config));
    io.stdout(format.text(heldBy(format, undone)));
    return EXIT_OK;
  }
  const port = givenPort(options, config);
  const caller = await givenCaller(options, io);
  let made: ClientVariables;
  try {
    const trusting = await withCertificates(config, io);
    made = await clientVariables(trusting, { port, caller, java: options.java === true }, io.env);
  } catch (error) {
    // The gateway, and not the command line, is not as it would have to be.
    io.stderr(`gw env: ${terminalOutput(messageOf(error))}\n`);
    return EXIT_NO;
  }
  const refused = await callerProblem({ config, variables: made.variables, caller }, io);
  const far = format.elsewhere === true ? [farProblem(made.variables), folderProblem(made.variables)] : [];
  const problems = [...made.problems, refused, ...far];
  for (const problem of problems) if (problem !== undefined) io.stderr(`gw env: ${terminalText(problem)}\n`);
  io.stdout(format.text(heldBy(format, made.variables)));
  return EXIT_OK;
}

/** What of them means another machine where they are read elsewhere. */
function farProblem(variables: ClientVariables['variables']): string | undefined {
  const proxy = variables.find(([name]) => name === 'HTTPS_PROXY')?.[1];
  const host = proxy === undefined ? undefined : new URL(proxy).hostname.replace(/^\[|\]$/g, '');
  return host === undefined || !isLoopbackHost(host)
    ? undefined
    : `HTTPS_PROXY names ${host}, which in a container or on another machine is that one itself: put a name there by which the gateway is reached from it (docs/guides/clients/ci.md)`;
}

/**
 * Merged certificates lie below the cache of this user, elsewhere than those of the gateway: a program that does not
 * find what it is to trust makes no connection at all.
 */
function folderProblem(variables: ClientVariables['variables']): string {
  const files = variables.filter(([name]) =>
    CLIENT_VARIABLES.some(([one, source]) => one === name && (source === 'root' || source === 'bundle')),
  );
  const folders = [...new Set(files.map(([, file]) => dirname(file)))];
  return `the files that are named are in ${folders.join(' and ')}: they have to be at the same place there, in a container by --volume`;
}
