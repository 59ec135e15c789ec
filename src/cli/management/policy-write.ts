/* Commands that change policy show what would change, and ask, before they do it (decision 5.10). */
import { isJsonObject } from '../../base/json/json-object.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { terminalOutput } from '../../base/lib/shown-text.ts';
import type { GatewayOperation } from '../../operations/operation.ts';
import { UNCONFIRMED_WAYS } from '../../operations/policy-change-shapes.ts';
import { agrees } from '../agreement.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, GatewayRefusal, UsageError } from '../command.ts';
import { printJsonText } from '../terminal-text.ts';
import { askManagement } from './ask-management.ts';
import { changeText } from './change-text.ts';
import { type CommandFacts, callHelp, callUsage, type GivenCall, givenCall } from './given-call.ts';
import type { ManagementClient } from './management-client.ts';
import { type OperationInput, operationInput } from './operation-options.ts';

const WHOLE = 'mgmt.policies.put';
const WRITES: ReadonlySet<string> = new Set([WHOLE, 'mgmt.policies.rules.put', 'mgmt.policies.rules.remove']);
const YES = '--yes';
const YES_HELP = `  ${YES}\n      does it without asking, also when rules are lost, a layer becomes an allow-list or nothing is allowed any more\n`;
/** Said for a person by `--yes`, and by his answer. */
const SAID_OTHERWISE: ReadonlySet<string> = new Set(['confirm', 'if_match']);
const FROM_FILE = '--bundle-yaml-from';

export function writesPolicy({ id }: Pick<GatewayOperation, 'id'>): boolean {
  return WRITES.has(id);
}

/** The command of such an operation. `gw policies put FILE` takes the overlay from a file. */
export function askingFirst(command: Command, operation: GatewayOperation): Command {
  const isWhole = operation.id === WHOLE;
  const input = askedInput(operation);
  const facts = { versioned: true, views: [] };
  const shown = { ...input, options: input.options.map((option) => (isWhole ? { ...option, required: false } : option)) };
  return {
    ...command,
    usage: `${isWhole ? '[FILE|-] ' : ''}${callUsage(shown, facts)} [${YES}]`,
    help: `${callHelp(input)}${YES_HELP}`,
    async run(args, io) {
      const { typed, ...how } = agreementIn(args, io);
      const [first] = typed;
      const fromFile = isWhole && first !== undefined && (first === '-' || !first.startsWith('-'));
      const call = await givenCall(fromFile ? [FROM_FILE, ...typed] : typed, input, facts, io);
      try {
        return await askManagement(call, ['read', 'write'], io, (client) => write(operation, call, how, client, io));
      } catch (error) {
        // Arguments that make no request are a mistake of whoever typed them.
        if (error instanceof GatewayError) throw new UsageError(error.message, { cause: error });
        return refusedUnconfirmed(error, command.name, io);
      }
    },
  };
}

/** Whether an operation asks to be told that its change of policy is meant. */
export function asksToConfirm(operation: Pick<GatewayOperation, 'inputs'>): boolean {
  return operationInput(operation).options.some(({ path }) => path.join('.') === 'confirm');
}

/** What such an operation takes, but for what `--yes` and the answer of a person say. */
function askedInput(operation: Pick<GatewayOperation, 'inputs'>): OperationInput {
  const all = operationInput(operation);
  return { ...all, options: all.options.filter(({ path }) => !SAID_OTHERWISE.has(path.join('.'))) };
}

/** `--yes`, and whether there is somebody to ask. */
function agreementIn(args: readonly string[], io: CliIo): Agreement & { readonly typed: readonly string[] } {
  const typed = args.filter((arg) => arg !== YES);
  return { typed, yes: args.includes(YES), mayAsk: io.columns !== undefined && !typed.includes('-') };
}

/**
 * The command of an operation of a control plane that changes policy.
 * @param send asks for it; what is refused as unconfirmed is said as of every such command
 */
export function askingFirstOf(
  command: Command,
  operation: Pick<GatewayOperation, 'inputs'>,
  facts: CommandFacts,
  send: (call: GivenCall, io: CliIo) => Promise<(more: Readonly<Record<string, unknown>>) => Promise<string>>,
): Command {
  const input = askedInput(operation);
  return {
    ...command,
    usage: `${wholeText(input) ? usageWithFile(input, facts) : callUsage(input, facts)} [${YES}]`,
    help: `${callHelp(input)}${YES_HELP}`,
    async run(args, io) {
      const { typed, ...how } = agreementIn(args, io);
      const call = await givenCall(wholeText(input) ? fileBehindWords(typed, input.words.length) : typed, input, facts, io);
      const ask = await send(call, io);
      try {
        return await changeOnce(ask, { ...how, json: call.json, isDry: call.args['dry_run'] === true }, io);
      } catch (error) {
        if (error instanceof GatewayError) throw new UsageError(error.message, { cause: error });
        return refusedUnconfirmed(error, command.name, io);
      }
    },
  };
}

/** Whether it takes the whole text of an overlay, which people have in a file. */
function wholeText({ options }: OperationInput): boolean {
  return options.some(({ name, required }) => required && `--${name}-from` === FROM_FILE);
}

/** `ORG ID [FILE|-] [--bundle-yaml TEXT]`: one of both is needed. */
function usageWithFile({ words, ...input }: OperationInput, facts: CommandFacts): string {
  const options = input.options.map((option) => ({ ...option, required: false }));
  return `${words.map((word) => word.toUpperCase()).join(' ')} [FILE|-] ${callUsage({ ...input, words: [], options }, facts)}`;
}

/** `ORG ID FILE` is `ORG ID --bundle-yaml-from FILE`. @param words that the operation itself takes */
function fileBehindWords(typed: readonly string[], words: number): readonly string[] {
  const file = typed[words];
  const isFile = file !== undefined && (file === '-' || !file.startsWith('-')) && !typed.slice(0, words).some((arg) => arg.startsWith('-'));
  return isFile ? [...typed.slice(0, words), FROM_FILE, ...typed.slice(words)] : typed;
}

function write(
  operation: GatewayOperation,
  { args, headers, json }: GivenCall,
  how: Agreement,
  client: ManagementClient,
  io: CliIo,
): Promise<number> {
  const ask = (more: Readonly<Record<string, unknown>>): Promise<string> => client.text(operation, { ...args, ...more }, headers);
  return changeOnce(ask, { ...how, json, isDry: args['dry_run'] === true }, io);
}

/** Who has to agree to a change of policy. */
interface Agreement {
  readonly yes: boolean;
  /** There is a person at a terminal. */
  readonly mayAsk: boolean;
}

/**
 * Shows what a change of policy does, asks where somebody can be asked, and makes it.
 * @param ask asks for it with these members more (`dry_run`, `confirm`, `if_match`)
 * @param alsoShown what of the answer to a change is shown behind it
 */
export async function changeOnce(
  ask: (more: Readonly<Record<string, unknown>>) => Promise<string>,
  { yes, mayAsk, json, isDry }: Agreement & { readonly json: boolean; readonly isDry: boolean },
  io: CliIo,
  alsoShown: (answer: string) => string = () => '',
): Promise<number> {
  const show = (text: string): void =>
    json ? printJsonText(text, io) : io.stdout(changeText(changeIn(text), io.columns) + (isDry ? '' : alsoShown(text)));
  if (isDry || yes || !mayAsk) {
    show(await ask(isDry ? { dry_run: true } : { confirm: yes }));
    return EXIT_OK;
  }
  const tried = await ask({ dry_run: true });
  io.stdout(changeText(changeIn(tried), io.columns));
  if (!(await agrees('Do it?', io))) return EXIT_NO;
  // What was shown is what is changed.
  const done = await ask({ confirm: true, ...tagIn(tried) });
  if (json) printJsonText(done, io);
  else io.stdout(`Done.\n${alsoShown(done)}`);
  return EXIT_OK;
}

/** @throws what is no such refusal */
export function refusedUnconfirmed(error: unknown, name: string, io: CliIo): number {
  if (!(error instanceof GatewayRefusal && error.code === 'confirmation_needed')) throw error;
  // Below it stand the same things once more, one by one.
  const [said = ''] = error.message.replace(` ${UNCONFIRMED_WAYS}`, '').split('\n');
  io.stderr(`gw ${name}: ${terminalOutput(said)}\nHere ${YES} says so, and --dry-run shows everything.\n`);
  return EXIT_NO;
}

function changeIn(text: string): unknown {
  const answer: unknown = JSON.parse(text);
  return isJsonObject(answer) ? answer['change'] : undefined;
}

function tagIn(text: string): { readonly if_match?: string } {
  const answer: unknown = JSON.parse(text);
  const tag = isJsonObject(answer) ? answer['etag'] : undefined;
  return typeof tag === 'string' ? { if_match: tag } : {};
}
