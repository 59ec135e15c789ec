import { OPERATIONS } from '../operation-table.ts';
import { type ComposedTool, type ResourceRow, ToolTable } from '../tools.ts';

/** Tools that are no single operation. */
const COMPOSED: readonly ComposedTool[] = [
  {
    tool: {
      name: 'list_keys',
      title: 'Where keys are listed',
      description: 'Says where management and MCP keys are listed, made and revoked: no tool does it.',
      scope: 'read',
      annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
      inputSchema: { type: 'object', properties: {}, additionalProperties: false },
    },
    plan: () => ({
      answer: {
        message: 'Keys are listed by GET /mgmt/v1/keys with a management key. Assistants neither see, make nor revoke them.',
        endpoint: 'GET /mgmt/v1/keys',
      },
    }),
  },
];

/** What an assistant may read whole (specification, "MCP server"). */
const RESOURCES: readonly ResourceRow[] = [
  {
    uri: 'records://recent',
    name: 'recent-records',
    title: 'Recent records',
    description: 'The last 100 execution records of the org, the newest first.',
    tool: 'list_records',
    args: { limit: 100, from: '1970-01-01T00:00:00Z' },
  },
  {
    uri: 'credentials://list',
    name: 'credentials',
    title: 'Credentials',
    description: 'Stored credentials that the org may use, without their secrets.',
    tool: 'list_credentials',
    args: { limit: 500 },
  },
];

/** Everything that assistants can ask of a gateway, in this process or at another one. */
export const TOOLS: ToolTable = new ToolTable(OPERATIONS, COMPOSED, RESOURCES);
