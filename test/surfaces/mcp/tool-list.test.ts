// What a model reads at every turn (decision 10.15): the list of tools is short, and still says what it takes to call
// each of them.
import t from 'tap';
import { z } from 'zod';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { ANY_SERVICES } from '../../../src/operations/operation-request.ts';
import { OPERATIONS } from '../../../src/operations/operation-table.ts';
import { TOOLS } from '../../../src/operations/tool-table.ts';
import { McpDispatcher } from '../../../src/surfaces/mcp/mcp-dispatcher.ts';
import { REVISIONS } from '../../../src/surfaces/mcp/mcp-revision.ts';
import { principalOf } from './mcp-place.ts';

/** About 10,000 tokens. */
const MAX_BYTES = 40 * 1024;

type Part = Readonly<Record<string, unknown>>;

interface Listed {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: { readonly properties: Readonly<Record<string, Part>>; readonly required?: readonly string[] };
  readonly annotations: Part;
}

/** As a client gets it. @param mark put before titles, as `gw-mcp` does for gateways that are not for trying */
async function listOf(
  revision: (typeof REVISIONS)[number],
  mark = '',
): Promise<{ readonly text: string; readonly tools: readonly Listed[] }> {
  const toolSet = {
    tools: TOOLS.tools.map((tool) => ({ ...tool, title: `${mark}${tool.title}` })),
    resources: TOOLS.resources,
    call: () => Promise.reject(new TypeError('nothing is called here')),
    read: () => Promise.reject(new TypeError('nothing is read here')),
  };
  const server = { name: 'n', title: 't', version: '1', instructions: 'i' };
  const dispatcher = new McpDispatcher({ toolSet, server, log: silentLogger });
  const { text } = await dispatcher.answer({ kind: 'request', id: 1, method: 'tools/list', params: {} }, revision, {
    principal: principalOf('k'),
    from: '127.0.0.1',
  });
  return { text, tools: (JSON.parse(text) as { result: { tools: Listed[] } }).result.tools };
}

t.test('the whole list is under 40 KB, in every revision and for every kind of gateway', async (t) => {
  for (const revision of REVISIONS) {
    for (const mark of ['', '[prd] ']) {
      const { text, tools } = await listOf(revision, mark);
      t.equal(tools.length, TOOLS.tools.length);
      const bytes = Buffer.byteLength(text);
      t.comment(`${revision.name}${mark === '' ? '' : ' marked'}: ${bytes} bytes, ${tools.length} tools`);
      t.ok(bytes < MAX_BYTES, `${revision.name}: ${bytes} bytes: say it in fewer words, or offer it in a tool that is there`);
    }
  }
});

t.test('each tool says what it does, what it needs, and which words it takes', async (t) => {
  for (const revision of REVISIONS) {
    const listed = new Map((await listOf(revision)).tools.map((tool) => [tool.name, tool]));
    for (const operation of OPERATIONS) {
      for (const { name, ids = {} } of operation.tools ?? []) {
        const tool = listed.get(name);
        if (tool === undefined) {
          t.fail(`${name} is not listed`);
          continue;
        }
        const { properties, required = [] } = tool.inputSchema;
        if (tool.description.length < 20) t.fail(`${name}: what does it do?`);
        const { params, query, body } = operation.inputs(ANY_SERVICES);
        for (const [schema, nameOf] of [
          [params, (one: string) => ids[one] ?? one],
          [query, String],
          [body, String],
        ] as const) {
          const whole = schema === undefined ? {} : partsOf(schema);
          for (const [member, part] of Object.entries(whole.properties ?? {})) {
            const argument = nameOf(member);
            const shown = properties[argument];
            if (shown === undefined) t.fail(`${name} does not list ${argument}`);
            if (whole.required?.includes(member) === true && !required.includes(argument))
              t.fail(`${name} does not say that it needs ${argument}`);
            const words = wordsOf(part);
            // A tool answers JSON, whatever else the API has.
            if (words.length > 0 && argument !== 'format' && JSON.stringify(wordsOf(shown)) !== JSON.stringify(words))
              t.fail(`${name}.${argument} does not list its words`);
          }
        }
      }
    }
    t.pass(`${listed.size} tools of ${revision.name}`);
  }
});

t.test('hints say what differs from their absence, and no answer has a schema in the list', async (t) => {
  for (const revision of REVISIONS) {
    const { tools } = await listOf(revision);
    for (const tool of tools) {
      const { annotations } = TOOLS.tools.find(({ name }) => name === tool.name) ?? {};
      const { readOnlyHint = false, destructiveHint = true, idempotentHint = false } = tool.annotations;
      const shown = readOnlyHint === true ? { readOnlyHint } : { readOnlyHint, destructiveHint, idempotentHint };
      t.match(annotations, shown, tool.name);
      t.notOk('outputSchema' in tool, tool.name);
    }
  }
});

function partsOf(schema: z.ZodType): { readonly properties?: Readonly<Record<string, unknown>>; readonly required?: readonly string[] } {
  return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
}

/** The words of a part, or of what it is a list of. */
function wordsOf(part: unknown): readonly string[] {
  const {
    type,
    enum: words,
    items,
    anyOf,
  } = (part ?? {}) as { type?: unknown; enum?: unknown; items?: unknown; anyOf?: readonly unknown[] };
  if (Array.isArray(words)) return type === 'boolean' ? [] : words.filter((word): word is string => typeof word === 'string');
  if (anyOf !== undefined) return anyOf.flatMap(wordsOf);
  return items === undefined ? [] : wordsOf(items);
}
