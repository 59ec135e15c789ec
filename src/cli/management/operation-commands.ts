import { isJsonObject } from '../../base/json/json-object.ts';
import { systemClock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { entryOf, type GatewayOperation } from '../../operations/operation.ts';
import { takenNames } from '../../operations/operation-request.ts';
import { OPERATIONS } from '../../operations/operation-table.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from '../command.ts';
import { asTyped, linesAsTyped } from '../program-name.ts';
import { printJson, printJsonText, terminalText } from '../terminal-text.ts';
import { answerText, listText, mapText, type TextFacts } from './answer-text.ts';
import { askManagement } from './ask-management.ts';
import { ELSEWHERE, LISTS, REPORT_VIEWS, SAYS_COMMANDS, TEXTS } from './command-tables.ts';
import { callHelp, callUsage, type GivenCall, givenCall } from './given-call.ts';
import type { ManagementClient } from './management-client.ts';
import { type OperationInput, operationInput } from './operation-options.ts';
import { askingFirst, writesPolicy } from './policy-write.ts';
import { removalText } from './removal-text.ts';
import { textByShortId } from './short-ids.ts';

const PREFIX = 'mgmt.';

/** A command for each operation of the management API: its name is the id, its options are the input. */
export function operationCommands(operations: readonly GatewayOperation[] = OPERATIONS): Command[] {
  const managed = operations.filter(({ id }) => id.startsWith(PREFIX));
  return managed.map((operation) => {
    const command = commandOf(operation, operations);
    return writesPolicy(operation) ? askingFirst(command, operation) : command;
  });
}

function commandOf(operation: GatewayOperation, operations: readonly GatewayOperation[]): Command {
  const { id, summary, annotations, versioned } = operation;
  const input = withElsewhere(operationInput(operation), ELSEWHERE[id]);
  const views = REPORT_VIEWS[id] ?? {};
  const facts = { versioned: versioned === true && !annotations.readOnly, views: Object.keys(views), tables: annotations.readOnly };
  return {
    name: id.slice(PREFIX.length).replaceAll('.', ' ').replaceAll('_', '-'),
    usage: callUsage(input, facts),
    summary,
    help: callHelp(input),
    async run(args, io) {
      const call = await givenCall(args, input, facts, io);
      const scopes = annotations.readOnly ? (['read'] as const) : (['read', 'write'] as const);
      try {
        const view = call.by === undefined ? undefined : views[call.by];
        await askManagement(call, scopes, io, (client) =>
          view === undefined
            ? answer(operation, input, call, { client, operations, io })
            : report(entryOf(operations, view.operation), view.member, call, client, io),
        );
      } catch (error) {
        // Arguments that make no request are a mistake of whoever typed them.
        if (error instanceof GatewayError) throw new UsageError(error.message, { cause: error });
        throw error;
      }
      return EXIT_OK;
    },
  };
}

function withElsewhere(input: OperationInput, told: Readonly<Record<string, string>> = {}): OperationInput {
  const options = input.options.map((option) => {
    const elsewhere = told[option.name];
    return elsewhere === undefined ? option : { ...option, elsewhere };
  });
  return { ...input, options };
}

/** Who is asked, what there is to ask, and where the answer goes. */
interface Ground {
  readonly client: ManagementClient;
  readonly operations: readonly GatewayOperation[];
  readonly io: CliIo;
}

async function answer(
  operation: GatewayOperation,
  input: OperationInput,
  call: GivenCall,
  { client, operations, io }: Ground,
): Promise<void> {
  const facts = answerFacts(operation, call, io);
  if (call.all) {
    await answerAll(operation, call, client, io);
    return;
  }
  const text = await textByShortId(operation, call.args, call.headers, { client, operations, io });
  // As it is, to the byte.
  if (call.args['format'] === 'csv') {
    io.stdout(text);
    return;
  }
  if (call.json) {
    printJsonText(text, io);
    return;
  }
  const value: unknown = text === '' ? {} : JSON.parse(text);
  const shown = removalText(value, call.wide ? undefined : io.columns) ?? ownText(operation, value, call, io) ?? answerText(value, facts);
  io.stdout(SAYS_COMMANDS.has(operation.id) ? asTyped(shown, io.program) : linesAsTyped(shown, io.program));
  if (input.paged && isJsonObject(value) && typeof value['next_cursor'] === 'string')
    io.stderr(`There are more: --all shows them, --cursor=${terminalText(value['next_cursor'])} the next.\n`);
}

/** The form of its own that an answer has; undefined: none, or columns are asked for. */
function ownText({ id }: GatewayOperation, value: unknown, { args, wide, columns }: GivenCall, io: CliIo): string | undefined {
  return columns === undefined ? TEXTS[id]?.(value, wide ? undefined : io.columns, args) : undefined;
}

/** Every page: as JSON an item a line, as it comes. */
async function answerAll(operation: GatewayOperation, call: GivenCall, client: ManagementClient, io: CliIo): Promise<void> {
  const { args, json } = call;
  const items: unknown[] = [];
  for await (const page of client.pages(operation, { limit: 500, ...args })) {
    if (json) for (const item of page) printJson(item, io);
    else items.push(...page);
    await io.written?.();
  }
  if (!json) io.stdout(ownText(operation, { data: items }, call, io) ?? listText(items, answerFacts(operation, call, io)));
}

/** The figures of a report by one thing. */
async function report(operation: GatewayOperation, member: string, call: GivenCall, client: ManagementClient, io: CliIo): Promise<void> {
  const { by = '', args, json } = call;
  const { query } = takenNames(operation);
  const strange = Object.keys(args).filter((name) => !query.has(name));
  if (strange.length > 0) throw new UsageError(`${strange.map((name) => `--${name}`).join(' and ')} cannot be given beside --by ${by}`);
  const text = await client.text(operation, args);
  if (json) {
    printJsonText(text, io);
    return;
  }
  const value: unknown = JSON.parse(text);
  const map = isJsonObject(value) ? value[member] : undefined;
  io.stdout(mapText(isJsonObject(map) ? map : {}, by, answerFacts(operation, call, io)));
}

function answerFacts({ id }: GatewayOperation, { wide, columns }: GivenCall, { columns: width }: CliIo): TextFacts {
  const things = id.slice(PREFIX.length).split('.').slice(0, -1).join(' ').replaceAll('_', ' ');
  return { things, ...LISTS[id], view: { width, wide, columns, now: systemClock.now() } };
}
