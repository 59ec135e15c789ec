import { packageCommit, packageVersion } from '../base/lib/package-root.ts';
import { terminalOutput } from '../base/lib/shown-text.ts';
import { parseOptions, parseWithWords } from './checked-arguments.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, EXIT_USAGE, GatewayRefusal, Unusable, UsageError } from './command.ts';
import { completions } from './completion.ts';
import { type Found, findCommand, inGroup } from './find-command.ts';
import { commandHelp, groupHelp, overview, usageText } from './help-overview.ts';
import { asTyped } from './program-name.ts';
import { OutputLost } from './standard-output.ts';
import { JSON_OPTION, printJson, printJsonDocument, terminalText } from './terminal-text.ts';

/** What comes here has arguments: without any the program itself starts (main.ts). */
const start: Command = {
  name: 'start',
  usage: '',
  summary: 'Starts the gateway; also what `gw` alone does.',
  run: () => Promise.reject(new UsageError('it takes no arguments: its settings are GW_* variables')),
};

const versionCommand: Command = {
  name: 'version',
  usage: '[--json]',
  summary: 'Prints the version, and the commit that it was made of.',
  run: version,
};

const helpCommand: Command = {
  name: 'help',
  usage: '[COMMAND] [--json]',
  summary: 'Prints what commands there are, or how one is used.',
  run: help,
};

/** Digits of a commit that a person reads; as git shows them. */
const SHOWN_COMMIT = 12;

/**
 * Commands that are written by hand, each loaded when a line begins with the first word of its name: a command does not
 * wait for what others need.
 */
const OWN: readonly (readonly [name: string, load: () => Command | Promise<Command>])[] = [
  ['start', () => start],
  ['env', async () => (await import('./clients/env.ts')).env],
  ['run', async () => (await import('./clients/run-tool.ts')).runTool],
  ['demo', async () => (await import('./demo/demo-command.ts')).demo],
  ['init', async () => (await import('./init.ts')).init],
  ['logs', async () => (await import('./logs/logs-command.ts')).logs],
  ['console', async () => (await import('./console-command.ts')).consoleCommand],
  ['status', async () => (await import('./gateways/status-command.ts')).status],
  ['doctor', async () => (await import('./doctor/doctor.ts')).doctor],
  ['trust install', async () => (await import('./trust/trust-commands.ts')).installRoot],
  ['trust uninstall', async () => (await import('./trust/trust-commands.ts')).uninstallRoot],
  ['trust status', async () => (await import('./trust/trust-commands.ts')).trustStatus],
  ['ca status', async () => (await import('./ca/rotate-root.ts')).caStatus],
  ['ca rotate', async () => (await import('./ca/rotate-root.ts')).rotateRoot],
  ['replay', async () => (await import('./policy/decide-again.ts')).decideAgain],
  ['verify', async () => (await import('./verify/verify-command.ts')).verify],
  ['stop', async () => (await import('./stops/stop-commands.ts')).stopCalls],
  ['resume', async () => (await import('./stops/stop-commands.ts')).resumeCalls],
  ['stops list', async () => (await import('./stops/stop-commands.ts')).listStops],
  ['approvals list', async () => (await import('./approvals/list-approvals.ts')).listApprovals],
  ['approvals show', async () => (await import('./approvals/decide-approval.ts')).showApproval],
  ['approvals approve', async () => (await import('./approvals/decide-approval.ts')).approveApproval],
  ['approvals deny', async () => (await import('./approvals/decide-approval.ts')).denyApproval],
  ['audit list', async () => (await import('./audit.ts')).auditTrail],
  ['domains list', async () => (await import('./discovered-domains.ts')).discoveredDomains],
  ['api-keys create', async () => (await import('./api-key-commands.ts')).createApiKey],
  ['api-keys list', async () => (await import('./api-key-commands.ts')).listApiKeys],
  ['api-keys revoke', async () => (await import('./api-key-commands.ts')).revokeApiKey],
  ['delegate keygen', async () => (await import('./delegate/make-tokens.ts')).makeKey],
  ['delegate issue', async () => (await import('./delegate/make-tokens.ts')).issueToken],
  ['delegate attenuate', async () => (await import('./delegate/make-tokens.ts')).attenuateToken],
  ['delegate inspect', async () => (await import('./delegate/inspect-token.ts')).inspectToken],
  ['delegate revoke', async () => (await import('./delegate/revocations.ts')).revokeDelegation],
  ['delegate revoked', async () => (await import('./delegate/revocations.ts')).listRevoked],
  ['delegate restore', async () => (await import('./delegate/revocations.ts')).restoreDelegation],
  ['nodes forget', async () => (await import('./gateways/forget-node-command.ts')).forgetNodeCommand],
  ['secrets rotate', async () => (await import('./secrets/rotate.ts')).rotate],
  ['journal check', async () => (await import('./journal/journal-check-command.ts')).check],
  ['journal repair', async () => (await import('./journal/repair.ts')).repair],
  ['journal confirm-clock', async () => (await import('./journal/repair.ts')).confirmClock],
  ['storage status', async () => (await import('./storage/storage-status-command.ts')).storageStatusCommand],
  ['storage move', async () => (await import('./storage/storage-move-command.ts')).storageMoveCommand],
  ['policy check', async () => (await import('./policy/check-command.ts')).check],
  ['policy test', async () => (await import('./policy/test-suites.ts')).testSuites],
  ['policy explain', async () => (await import('./policy/explain-command.ts')).explainDecision],
  ['policy diff', async () => (await import('./policy/diff-command.ts')).diffPolicies],
  ['policy fmt', async () => (await import('./policy/fmt.ts')).format],
  ['risk replay', async () => (await import('./risk/replay-command.ts')).replayRisk],
  ['prices status', async () => (await import('./prices/price-status.ts')).priceListStatus],
  ['prices update', async () => (await import('./prices/price-update.ts')).updatePriceList],
  ['prices explain', async () => (await import('./prices/price-explain.ts')).explainPrice],
  ['prices diff', async () => (await import('./prices/price-update.ts')).diffPriceList],
  ['prices accept', async () => (await import('./prices/price-update.ts')).acceptPrices],
  ['telemetry preview', async () => (await import('./telemetry-preview.ts')).previewTelemetry],
  ['control-plane start', async () => (await import('./control-plane/start-control-plane-command.ts')).startControlPlaneCommand],
  ['control-plane secrets rotate', async () => (await import('./control-plane/rotate-plane-secrets-command.ts')).rotatePlaneSecretsCommand],
  ['control-plane restored', async () => (await import('./control-plane/declare-restore-command.ts')).declareRestoreCommand],
  ['control-plane demo', async () => (await import('./control-plane-demo/control-plane-demo-command.ts')).controlPlaneDemo],
  ['completion', async () => (await import('./completion.ts')).completion],
  ['version', () => versionCommand],
  ['help', () => helpCommand],
];

async function ownCommands(firstWord?: string): Promise<readonly Command[]> {
  const wanted = OWN.filter(([name]) => firstWord === undefined || name.split(' ', 1)[0] === firstWord);
  return await Promise.all(wanted.map(async ([, load]) => await load()));
}

async function version(args: readonly string[], io: CliIo): Promise<number> {
  const { json = false } = parseOptions(args, JSON_OPTION);
  const [number, commit] = [packageVersion(), packageCommit()];
  if (json) printJson({ version: number, commit }, io);
  else io.stdout(commit === undefined ? `${number}\n` : `${number} (commit ${commit.slice(0, SHOWN_COMMIT)})\n`);
  return EXIT_OK;
}

async function help(args: readonly string[], io: CliIo): Promise<number> {
  const { values, words } = parseWithWords(
    args.map((arg) => SYNONYMS[arg] ?? arg),
    JSON_OPTION,
  );
  const commands = await allCommands();
  const asked = words.length === 0 ? commands : namedBy(words, commands);
  if (values.json !== true || asked.length === 0)
    return words.length === 0 ? print(io, overview(commands, io)) : runLine([...words, '--help'], io);
  const told = asked.map(({ name, usage, summary }) => ({ name, usage, summary }));
  printJsonDocument(told, io);
  return EXIT_OK;
}

/** One command, or those of a group; none when there is no such name. */
function namedBy(words: readonly string[], commands: readonly Command[]): readonly Command[] {
  const found = findCommand([...words, '--help'], commands);
  if ('command' in found) return [found.command];
  return 'group' in found ? inGroup(found.group, commands) : [];
}

/** Spellings that people try first. */
const SYNONYMS: Readonly<Record<string, string>> = { '-h': 'help', '--help': 'help', '-v': 'version', '--version': 'version' };

/**
 * Every command. Those that are made of the operations tables are loaded here, so that the small commands do not wait
 * for it.
 */
export async function allCommands(): Promise<readonly Command[]> {
  const [{ operationCommands }, { controlPlaneCommands }, { spend }, { dashboard }] = await Promise.all([
    import('./management/operation-commands.ts'),
    import('./control-plane/control-plane-commands.ts'),
    import('./money/spend-command.ts'),
    import('./money/dashboard-command.ts'),
  ]);
  const own = await ownCommands();
  const names = new Set(own.map(({ name }) => name));
  return [...own, spend, dashboard, ...operationCommands().filter(({ name }) => !names.has(name)), ...controlPlaneCommands()];
}

/**
 * Runs one command.
 * @param argv the command's name and its arguments
 * @returns the exit code
 */
export async function runCli(argv: readonly string[], given: CliIo): Promise<number> {
  return runLine(argv, { ...given, stderr: (text) => given.stderr(asTyped(text, given.program)) });
}

async function runLine(argv: readonly string[], io: CliIo): Promise<number> {
  const [given = 'help', ...rest] = argv;
  const line = [SYNONYMS[given] ?? given, ...rest];
  if (given === 'complete') return complete(rest, io);
  const own = findCommand(line, await ownCommands(line[0]));
  const found: Found = 'command' in own ? own : findCommand(line, await allCommands());
  if ('command' in found) return runNamed(found.command, found.args, io);
  if ('group' in found) return print(io, groupHelp(found.group, await allCommands(), io));
  const { unknown, nearest } = found;
  io.stderr(
    `gw: there is no command "${terminalText(unknown)}"${nearest === undefined ? '.' : `; did you mean "${nearest}"?`} "gw help" lists them.\n`,
  );
  return EXIT_USAGE;
}

/** For the completion of a shell: one candidate a line. */
async function complete(words: readonly string[], io: CliIo): Promise<number> {
  return print(
    io,
    completions(words, await allCommands())
      .map((one) => `${one}\n`)
      .join(''),
  );
}

async function runNamed(command: Command, args: readonly string[], io: CliIo): Promise<number> {
  if (asksForHelp(command, args)) return print(io, commandHelp(command, io));
  try {
    return await command.run(args, io);
  } catch (error) {
    // Who prints knows why, and says it (standard-output.ts).
    if (error instanceof OutputLost) return EXIT_OK;
    if (!isForPerson(error)) throw error;
    io.stderr(`gw ${command.name}: ${terminalOutput(error.message)}\n`);
    if (error instanceof GatewayRefusal) return EXIT_NO;
    if (error instanceof UsageError) io.stderr(usageText(command, io));
    return EXIT_USAGE;
  }
}

/**
 * What a command says itself, and what the system says of a file that cannot be read or written, such as on a full
 * disk: no fault of ours that a stack would explain. Too few open files concern the whole program (bin/gw.mjs).
 */
function isForPerson(error: unknown): error is Error {
  if (error instanceof UsageError || error instanceof Unusable || error instanceof GatewayRefusal) return true;
  return error instanceof Error && 'syscall' in error && 'code' in error && error.code !== 'EMFILE';
}

function asksForHelp({ wraps }: Command, args: readonly string[]): boolean {
  const end = wraps === true ? args.findIndex((arg) => arg === '--' || !arg.startsWith('-')) : -1;
  const own = end < 0 ? args : args.slice(0, end);
  return own.includes('--help') || own.includes('-h');
}

function print(io: CliIo, text: string): Promise<number> {
  io.stdout(text);
  return Promise.resolve(EXIT_OK);
}
