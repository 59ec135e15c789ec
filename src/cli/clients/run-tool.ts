import type { Config } from '../../base/config/config.ts';
import type { Environment } from '../../base/config/settings-reader.ts';
import { wholeEnvironment } from '../../base/config/settings-reader.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { createLogger } from '../../base/lib/log.ts';
import { parseOptions } from '../checked-arguments.ts';
import { type CliIo, type Command, Unusable, UsageError } from '../command.ts';
import { GatewayAddress } from '../gateway-address.ts';
import { sendToGateway } from '../gateway-client.ts';
import { type GatewaySettings, settingsOf, shellSettings } from '../settings-of.ts';
import { terminalText } from '../terminal-text.ts';
import { callerProblem } from './caller-problem.ts';
import { runProgram } from './child-program.ts';
import { type ClientCaller, clientVariables, proxyUrl } from './client-variables.ts';
import { withCertificates } from './gateway-certificates.ts';
import { GATEWAY_OPTIONS, GATEWAY_USAGE, givenCaller, givenPort } from './given-gateway.ts';

/** What `env`, `timeout` and their like end with when they themselves fail. */
const EXIT_OURS = 125;
const HEALTH_LIMIT_MS = 3_000;

const OPTIONS = { ...GATEWAY_OPTIONS, start: { type: 'boolean' } } as const;
const WITH_VALUE = Object.entries(OPTIONS).flatMap(([name, { type }]) => (type === 'string' ? [`--${name}`] : []));

/** Runs a program whose AI calls go through a gateway. */
export const runTool: Command = {
  name: 'run',
  usage: `${GATEWAY_USAGE} [--start] [--] COMMAND [ARGUMENT…]`,
  summary: 'Runs a program with everything set to use the gateway; ends as the program ends.',
  help: `
  --workload   who calls; the token comes from --token-file or from GW_WORKLOAD_TOKEN, never from the command line
  --ambient    through the port for unattended programs
  --port       of a gateway that runs elsewhere than its settings say, or of another one that was started on this machine
  --start      starts a gateway with the settings of this shell for as long as the program runs

Node, Python, Go, Java, curl, git and what is made with them find proxy and root in their environment (gw env --json shows it).
Exit code: that of the program, 128 and the number of the signal that ended it, 127 when there is no such program, 126 when it
cannot be run, 125 when there is no gateway to use.
`,
  wraps: true,
  async run(args, io) {
    const { own, command, rest } = split(args);
    const options = parseOptions(own, OPTIONS);
    if (command === undefined) throw new UsageError('it takes the program to run');
    // One that is started here is of the settings of this shell alone.
    const config = options.start === true ? shellSettings(io) : settingsOf(io, { port: options.port });
    const caller = await givenCaller(options, io);
    const problem = (text: string) => io.stderr(`gw run: ${terminalText(text)}\n`);
    let gateway: Used;
    let env: Environment;
    try {
      gateway =
        options.start === true ? await started(config, options.ambient === true) : await running(givenPort(options, config), config, io);
      env = await environment(config, gateway.port, caller, io, problem);
    } catch (error) {
      if (error instanceof UsageError) throw error;
      problem(messageOf(error));
      return EXIT_OURS;
    }
    try {
      const end = await runProgram(command, rest, env);
      if (end.problem !== undefined) problem(end.problem);
      return end.code;
    } finally {
      await gateway.stop();
    }
  },
};

/** A gateway for the time of the program. */
interface Used {
  readonly port: number;
  stop(): Promise<void>;
}

interface Split {
  readonly own: readonly string[];
  readonly command: string | undefined;
  readonly rest: readonly string[];
}

/** Ours end at `--` or at the first word: what is behind it is the program's, whatever it looks like. */
function split(args: readonly string[]): Split {
  let at = 0;
  for (let arg = args[at]; arg?.startsWith('-') === true && arg !== '--'; arg = args[at]) at += WITH_VALUE.includes(arg) ? 2 : 1;
  const own = args.slice(0, at);
  const [command, ...rest] = args.slice(args[at] === '--' ? at + 1 : at);
  return { own, command, rest };
}

async function environment(
  config: GatewaySettings,
  port: number,
  caller: ClientCaller | undefined,
  io: CliIo,
  problem: (text: string) => void,
): Promise<Environment> {
  const trusting = await withCertificates(config, io);
  const made = await clientVariables(trusting, { port, caller, java: true }, io.env);
  const refused = await callerProblem({ config, variables: made.variables, caller }, io);
  for (const text of [...made.problems, ...(refused === undefined ? [] : [refused])]) problem(text);
  return { ...wholeEnvironment(io.env), ...Object.fromEntries(made.variables) };
}

async function started(config: Config, ambient: boolean): Promise<Used> {
  const [{ startGateway }, { withShippedPolicies }] = await Promise.all([
    import('../../app/gateway.ts'),
    import('../../app/shipped-policies.ts'),
  ]);
  // The program's own output is not mixed with lines of the gateway, unless something is wrong.
  const log = createLogger({ level: 'warn', format: 'pretty', destination: { write: (line) => void process.stderr.write(line) } });
  const gateway = await startGateway(withShippedPolicies(config).config, { log });
  return { port: ambient ? gateway.ambientPort : gateway.port, stop: () => gateway.stop() };
}

/** @throws Unusable when nobody who could be a gateway answers there */
async function running(port: number, config: Config, io: CliIo): Promise<Used> {
  try {
    const url = new GatewayAddress(proxyUrl(config, port), config, io.env);
    await sendToGateway(url, '/healthz', { method: 'GET', headers: {}, timeoutMs: HEALTH_LIMIT_MS });
  } catch (error) {
    throw new Unusable(`no gateway answers: ${messageOf(error)}; start one with gw start, or give --start`, { cause: error });
  }
  return { port, stop: () => Promise.resolve() };
}
