import { isJsonObject } from '../../base/json/json-object.ts';
import { systemClock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { AuditEntry } from '../../base/model/audit-entry.ts';
import type { AdminOperation } from '../../control-plane/admin/admin-operation.ts';
import { ADMIN_OPERATIONS } from '../../control-plane/admin/admin-operation-table.ts';
import { auditEntryText } from '../audit-text.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from '../command.ts';
import { answerText, listText } from '../management/answer-text.ts';
import { callHelp, callUsage, type GivenCall, givenCall } from '../management/given-call.ts';
import { operationInput } from '../management/operation-options.ts';
import { askingFirstOf, asksToConfirm } from '../management/policy-write.ts';
import { printJson, printJsonText } from '../terminal-text.ts';
import { CONTROL_PLANE_ASKING, ControlPlaneClient } from './control-plane-client.ts';
import { createBootstrapToken } from './create-bootstrap-token.ts';
import { putBundle, readBundle } from './org-bundle-commands.ts';
import { rotateSigningKeys } from './rotate-signing-keys.ts';

export const CONTROL_PLANE_GROUP = 'control-plane';

/** Columns of lists whose items have more than fits beside each other. */
const LIST_COLUMNS: Readonly<Record<string, readonly string[]>> = {
  'org.list': [
    'org: org_id',
    'status',
    'tier: plan_tier',
    'requests / month: monthly_request_limit',
    'when down: cp_down_policy',
    'grace: grace_seconds',
    'writes: gateway_writes',
    'why: suspended_reason',
  ],
  'node.list': [
    'node: node_id',
    'seen: last_seen_at',
    'certificate until: certificate_expires_at',
    'revoked: revoked_at',
    'version: gateway_version',
    'policy: policy_sequence',
    'signed by: policy_kid',
  ],
  'key.list': ['id', 'name', 'prefix: key_prefix', 'created: created_at', 'expires: expires_at', 'revoked: revoked_at'],
  'root.list': ['sequence', 'closed: closed_at', 'leaves: leaf_count', 'signed by: sig.kid', 'root: root_hash'],
  'checkpoint.list': ['sequence', 'published: published_at', 'cosigned: cosignatures'],
  'public_key.list': ['kid', 'use', 'state', 'from: not_before', 'to: not_after', 'public key: public_key'],
  'overlay.list': ['id', 'level', 'node: node_id', 'put: put_at', 'signed by: kid'],
  'audit.list': ['time: at', 'operation', 'object', 'org: org_id', 'by: principal.id', 'from', 'node: node_id'],
};

/** A command for each operation of the control plane, but for those that have one written by hand. */
export function controlPlaneCommands(operations: readonly AdminOperation[] = ADMIN_OPERATIONS): Command[] {
  const own = [createBootstrapToken, putBundle, readBundle, rotateSigningKeys];
  const names = new Set(own.map(({ name }) => name));
  return [...own, ...operations.map(commandFor).filter(({ name }) => !names.has(name))];
}

/** How the command of an operation is called. */
export function controlPlaneCommandName(id: string): string {
  return `${CONTROL_PLANE_GROUP} ${id.replaceAll('.', ' ').replaceAll('_', '-')}`;
}

function commandFor(operation: AdminOperation): Command {
  const input = operationInput(operation);
  const facts = {
    versioned: false,
    views: [],
    asking: CONTROL_PLANE_ASKING,
    tables: operation.method === 'GET',
  };
  const command: Command = {
    name: controlPlaneCommandName(operation.id),
    usage: callUsage(input, facts),
    summary: operation.summary,
    help: callHelp(input),
    async run(args, io) {
      const call = await givenCall(args, input, facts, io);
      const client = await ControlPlaneClient.open(call, io);
      try {
        print(operation, await client.text(operation, call.args), call, io);
      } catch (error) {
        // Arguments that make no request are a mistake of whoever typed them.
        if (error instanceof GatewayError) throw new UsageError(error.message, { cause: error });
        throw error;
      }
      return EXIT_OK;
    },
  };
  if (!asksToConfirm(operation)) return command;
  return askingFirstOf(command, operation, facts, async (call, io) => {
    const client = await ControlPlaneClient.open(call, io);
    // Where nothing has an etag, the last change counts.
    return ({ if_match: _tag, ...more }) => client.text(operation, { ...call.args, ...more });
  });
}

function print(operation: AdminOperation, text: string, call: GivenCall, io: CliIo): void {
  const { json } = call;
  const isText = operation.output.contentType !== undefined;
  if (json && isText) printJson({ text }, io);
  else if (json) printJsonText(text, io);
  else if (isText) io.stdout(`${text.trimEnd()}\n`);
  else io.stdout(shownAnswer(operation, JSON.parse(text), call, io));
}

function shownAnswer({ id, path }: AdminOperation, answer: unknown, { wide, columns }: GivenCall, { columns: width }: CliIo): string {
  const named = LIST_COLUMNS[id];
  const things = path.slice(path.lastIndexOf('/') + 1).replaceAll('-', ' ');
  const facts = { things, view: { width, wide, columns, now: systemClock.now() }, ...(named === undefined ? {} : { columns: named }) };
  const items = isJsonObject(answer) ? (answer['data'] ?? answer['items']) : undefined;
  // What has changed is more than a line of a table.
  if (id === 'audit.list' && Array.isArray(items) && items.length > 0 && !wide && columns === undefined)
    return items.map((item) => auditEntryText(item as AuditEntry, width)).join('');
  return Array.isArray(items) ? listText(items, facts) : answerText(answer, facts);
}
