import { OPERATIONS } from './operation-table.ts';
import { type FixedTool, type ResourceRow, ToolTable } from './tools.ts';

/**
 * Keys are made and revoked by REST alone, whatever the scope: an assistant is told where (specification, "MCP
 * server").
 */
const LIST_KEYS: FixedTool = {
  tool: {
    name: 'list_keys',
    title: 'List keys',
    description: 'Says by which command keys are listed, made and revoked: not by tools.',
    scope: 'read',
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    inputSchema: { type: 'object', properties: {} },
    outputSchema: {
      type: 'object',
      properties: { list: { type: 'string' }, message: { type: 'string' } },
      required: ['list', 'message'],
      additionalProperties: false,
    },
  },
  answer: {
    list: 'GET /mgmt/v1/keys',
    message:
      'Keys are listed, made and revoked by the management API with a management key (mgk_…), never by tools. A person makes one by: gw keys create --name NAME --kind management --scopes read',
  },
};

/** Before every record. */
const EVER = '1970-01-01T00:00:00Z';

/** What an assistant may read whole, and the tool that reads it (specification, "MCP server"). */
const RESOURCES: readonly ResourceRow[] = [
  row('providers://catalog', 'Providers', 'The catalogue of providers, their modes and policy presets.', 'list_providers'),
  row('providers://custom', 'Custom connectors', 'Connectors that this org has added.', 'list_custom_providers'),
  row('records://recent', 'Recent records', 'The last 100 records, however old.', 'list_records', { limit: 100, from: EVER }),
  row('credentials://list', 'Credentials', 'Stored credentials, without their secrets.', 'list_credentials'),
  row('attribution://summary', 'Attribution', 'Use and cost by project, customer and account.', 'get_attribution_summary'),
  row('nodes://status', 'Nodes', 'The nodes of this gateway.', 'list_nodes'),
  row('pricing://configs', 'Prices', 'What models cost.', 'list_provider_pricing'),
];

function row(uri: string, title: string, description: string, tool: string, args: ResourceRow['args'] = {}): ResourceRow {
  return { uri, name: uri.replace('://', '-'), title, description, tool, args };
}

/** Every tool and resource of this gateway. */
export const TOOLS: ToolTable = new ToolTable(OPERATIONS, [LIST_KEYS], RESOURCES);
