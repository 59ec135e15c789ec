import { packageCommit, packageVersion } from '../base/lib/package-root.ts';
import { terminalOutput } from '../base/lib/shown-text.ts';
import { createApiKey, listApiKeys, revokeApiKey } from './api-key-commands.ts';
import { approveApproval, denyApproval, showApproval } from './approvals/decide-approval.ts';
import { listApprovals } from './approvals/list-approvals.ts';
import { auditTrail } from './audit.ts';
import { caStatus, rotateRoot } from './ca/rotate-root.ts';
import { parseOptions, parseWithWords } from './checked-arguments.ts';
import { env } from './clients/env.ts';
import { runTool } from './clients/run-tool.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, EXIT_USAGE, Unusable, UsageError } from './command.ts';
import { completion, completions } from './completion.ts';
import { startControlPlaneCommand } from './control-plane/start-control-plane-command.ts';
import { controlPlaneDemo } from './control-plane-demo/control-plane-demo-command.ts';
import { inspectToken } from './delegate/inspect-token.ts';
import { attenuateToken, issueToken, makeKey } from './delegate/make-tokens.ts';
import { listRevoked, restoreDelegation, revokeDelegation } from './delegate/revocations.ts';
import { demo } from './demo/demo-command.ts';
import { discoveredDomains } from './discovered-domains.ts';
import { doctor } from './doctor/doctor.ts';
import { type Found, findCommand, inGroup } from './find-command.ts';
import { GatewayRefusal } from './gateway-client.ts';
import { status } from './gateways/status-command.ts';
import { commandHelp, groupHelp, overview, usageText } from './help-overview.ts';
import { init } from './init.ts';
import { check as journalCheck } from './journal/journal-check-command.ts';
import { confirmClock, repair as journalRepair } from './journal/repair.ts';
import { logs } from './logs/logs-command.ts';
import { check as policyCheck } from './policy/check-command.ts';
import { diffPolicies as policyDiff } from './policy/diff-command.ts';
import { explainDecision as policyExplain } from './policy/explain-command.ts';
import { format as policyFormat } from './policy/fmt.ts';
import { testSuites as policyTest } from './policy/test-suites.ts';
import { explainPrice } from './prices/price-explain.ts';
import { priceListStatus } from './prices/price-status.ts';
import { acceptPrices, diffPriceList, updatePriceList } from './prices/price-update.ts';
import { asTyped } from './program-name.ts';
import { replayRisk } from './risk/replay-command.ts';
import { rotate as secretsRotate } from './secrets/rotate.ts';
import { OutputLost } from './standard-output.ts';
import { previewTelemetry } from './telemetry-preview.ts';
import { JSON_OPTION, printJson, printJsonDocument, terminalText } from './terminal-text.ts';
import { installRoot, trustStatus, uninstallRoot } from './trust/trust-commands.ts';
import { verify } from './verify/verify-command.ts';

/** What comes here has arguments: without any the program itself starts (main.ts). */
const start: Command = {
  name: 'start',
  usage: '',
  summary: 'Starts the gateway; also what `gw` alone does.',
  run: () => Promise.reject(new UsageError('it takes no arguments: its settings are GW_* variables')),
};

/** Digits of a commit that a person reads; as git shows them. */
const SHOWN_COMMIT = 12;

/** Commands that are written by hand. */
const OWN: readonly Command[] = [
  start,
  env,
  runTool,
  demo,
  init,
  logs,
  status,
  doctor,
  installRoot,
  uninstallRoot,
  trustStatus,
  caStatus,
  rotateRoot,
  verify,
  listApprovals,
  showApproval,
  approveApproval,
  denyApproval,
  auditTrail,
  discoveredDomains,
  createApiKey,
  listApiKeys,
  revokeApiKey,
  makeKey,
  issueToken,
  attenuateToken,
  inspectToken,
  revokeDelegation,
  listRevoked,
  restoreDelegation,
  secretsRotate,
  journalCheck,
  journalRepair,
  confirmClock,
  policyCheck,
  policyTest,
  policyExplain,
  policyDiff,
  policyFormat,
  replayRisk,
  priceListStatus,
  updatePriceList,
  explainPrice,
  diffPriceList,
  acceptPrices,
  previewTelemetry,
  startControlPlaneCommand,
  controlPlaneDemo,
  completion,
  { name: 'version', usage: '[--json]', summary: 'Prints the version, and the commit that it was made of.', run: version },
  { name: 'help', usage: '[COMMAND] [--json]', summary: 'Prints what commands there are, or how one is used.', run: help },
];

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
  const names = new Set(OWN.map(({ name }) => name));
  return [...OWN, spend, dashboard, ...operationCommands().filter(({ name }) => !names.has(name)), ...controlPlaneCommands()];
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
  const own = findCommand(line, OWN);
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
 * disk: no fault of ours that a stack would explain.
 */
function isForPerson(error: unknown): error is Error {
  if (error instanceof UsageError || error instanceof Unusable || error instanceof GatewayRefusal) return true;
  return error instanceof Error && 'syscall' in error && 'code' in error;
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
