import { isJsonObject } from '../../base/json/json-object.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { GatewayOperation } from '../../operations/operation.ts';
import { OPERATIONS } from '../../operations/operation-table.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from '../command.ts';
import { answerText, listText, mapText } from './answer-text.ts';
import { askManagement } from './ask-management.ts';
import { COLUMNS, REPORT_VIEWS } from './command-tables.ts';
import { callHelp, callUsage, type GivenCall, givenCall } from './given-call.ts';
import type { ManagementClient } from './management-client.ts';
import { type OperationInput, operationInput } from './operation-options.ts';

const PREFIX = 'mgmt.';

/** A command for each operation of the management API: its name is the id, its options are the input. */
export function operationCommands(operations: readonly GatewayOperation[] = OPERATIONS): Command[] {
  return operations.filter(({ id }) => id.startsWith(PREFIX)).map(commandOf);
}

function commandOf(operation: GatewayOperation): Command {
  const { id, summary, annotations, versioned } = operation;
  const input = operationInput(operation);
  const views = REPORT_VIEWS[id] ?? {};
  const facts = { versioned: versioned === true && !annotations.readOnly, views: Object.keys(views) };
  return {
    name: id.slice(PREFIX.length).replaceAll('.', ' ').replaceAll('_', '-'),
    usage: callUsage(input, facts),
    summary,
    help: callHelp(input),
    async run(args, io) {
      const call = await givenCall(args, input, facts, io);
      const scopes = annotations.readOnly ? (['read'] as const) : (['read', 'write'] as const);
      try {
        await askManagement(call, scopes, io, (client) => answer(operation, input, call, client, io));
      } catch (error) {
        // Arguments that make no request are a mistake of whoever typed them.
        if (error instanceof GatewayError) throw new UsageError(error.message, { cause: error });
        throw error;
      }
      return EXIT_OK;
    },
  };
}

async function answer(
  operation: GatewayOperation,
  input: OperationInput,
  call: GivenCall,
  client: ManagementClient,
  io: CliIo,
): Promise<void> {
  const facts = answerFacts(operation, io);
  if (call.all) {
    const items: unknown[] = [];
    for await (const page of client.pages(operation, { limit: 500, ...call.args })) {
      if (call.json) for (const item of page) io.stdout(`${JSON.stringify(item)}\n`);
      else items.push(...page);
    }
    if (!call.json) io.stdout(listText(items, facts));
    return;
  }
  const text = await client.text(operation, call.args, call.headers);
  if (call.json) {
    io.stdout(`${text.trimEnd()}\n`);
    return;
  }
  const value: unknown = text === '' ? {} : JSON.parse(text);
  if (call.by !== undefined) {
    const member = REPORT_VIEWS[operation.id]?.[call.by] ?? '';
    const map = isJsonObject(value) ? value[member] : undefined;
    io.stdout(mapText(isJsonObject(map) ? map : {}, call.by, facts));
    return;
  }
  io.stdout(answerText(value, facts));
  if (input.paged && isJsonObject(value) && typeof value['next_cursor'] === 'string')
    io.stderr(`There are more: --all shows them, --cursor=${value['next_cursor']} the next.\n`);
}

function answerFacts({ id }: GatewayOperation, { columns: width }: CliIo) {
  const things = id.slice(PREFIX.length).split('.').slice(0, -1).join(' ').replaceAll('_', ' ');
  const named = COLUMNS[id];
  return { things, width, ...(named === undefined ? {} : { columns: named }) };
}
