// A table of tools that stands for that of the operations: one of each kind that clients can tell apart, and an
// operation that fails in each way.
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import type { Asker, Tool, ToolSet } from '../../../src/operations/tools.ts';

const READS = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false };
const ADDS = { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false };

function tool(name: string, more: Partial<Tool> = {}): Tool {
  return {
    name,
    title: name,
    description: `The tool ${name}.`,
    scope: 'read',
    annotations: READS,
    inputSchema: { type: 'object', properties: {}, additionalProperties: false },
    ...more,
  };
}

const ITEM = { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] };

export const FIXTURE_TOOLS: readonly Tool[] = [
  tool('list_things', {
    title: 'List things',
    inputSchema: { type: 'object', properties: { limit: { type: 'integer' } }, additionalProperties: false },
    outputSchema: { type: 'object', properties: { data: { type: 'array', items: ITEM } }, required: ['data'] },
  }),
  tool('create_thing', { scope: 'write', annotations: ADDS, inputSchema: { type: 'object', properties: { id: { type: 'string' } } } }),
  tool('list_bare', {}),
  tool('fail_here', { outputSchema: ITEM }),
  tool('break_down'),
  tool('say_nothing'),
];

/** What was called, and by whom. */
export interface FixtureToolSet extends ToolSet {
  readonly calls: { name: string; args: unknown; asker: Asker }[];
}

export function fixtureTools(): FixtureToolSet {
  const calls: FixtureToolSet['calls'] = [];
  const things: Readonly<Record<string, (args: Readonly<Record<string, unknown>>) => unknown>> = {
    list_things: ({ limit }) => {
      if (limit !== undefined && typeof limit !== 'number') {
        throw new GatewayError('invalid_request', 'The query has 1 bad parameter.', {
          details: [{ path: 'limit', message: 'is a number' }],
        });
      }
      return { data: [{ id: 'ä\n"1"' }] };
    },
    create_thing: ({ id }) => ({ id }),
    list_bare: () => [1, 2],
    fail_here: () => {
      throw new GatewayError('not_found', 'There is no such thing.');
    },
    break_down: () => {
      throw new TypeError('the secret of a fault');
    },
    say_nothing: () => undefined,
  };
  return {
    calls,
    tools: FIXTURE_TOOLS,
    resources: [{ uri: 'things://all', name: 'things', title: 'Things', description: 'All things.' }],
    call: async (name, args, asker) => {
      calls.push({ name, args, asker });
      const row = FIXTURE_TOOLS.find((one) => one.name === name);
      if (row?.scope === 'write' && !asker.principal.scopes.includes('write')) {
        throw new GatewayError('forbidden', 'This needs the scope write.');
      }
      await Promise.resolve();
      return things[name]?.(args as Readonly<Record<string, unknown>>);
    },
    read: async (uri, asker) => {
      calls.push({ name: uri, args: undefined, asker });
      await Promise.resolve();
      return { data: [{ id: '1' }] };
    },
  };
}
