/*
 * The table as assistants see it (specification, "MCP server"): each tool is an operation of the management API, with the same schema, scope and handler. What carries
 * tools over MCP, in this process or in another one, is not known here.
 */

import type { z } from 'zod';
import { isJsonObject } from '../base/json/json-object.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import type { Principal } from '../base/model/principal.ts';
import { jsonSchema } from './json-schema.ts';
import type { GatewayOperation, OperationOutcome, ToolFacts } from './operation.ts';
import type { OperationServices } from './services.ts';

type Json = Readonly<Record<string, unknown>>;

export interface Tool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly scope: 'read' | 'write';
  readonly annotations: {
    readonly readOnlyHint: boolean;
    readonly destructiveHint: boolean;
    readonly idempotentHint: boolean;
    readonly openWorldHint: boolean;
  };
  /** JSON Schema 2020-12. */
  readonly inputSchema: Json;
  readonly outputSchema?: Json;
}

/** Who calls a tool. */
export interface Asker {
  readonly principal: Principal;
  /** Address, without port. */
  readonly from: string;
}

/** Something that is read whole, by its URI. */
export interface ToolResource {
  readonly uri: string;
  readonly name: string;
  readonly title: string;
  readonly description: string;
}

/** What a carrier of tools needs. */
export interface ToolSet {
  readonly tools: readonly Tool[];
  /** The JSON answer. @throws GatewayError `not_found` for an unknown tool, `insufficient_scope`, and what its operation throws */
  call(name: string, args: unknown, asker: Asker): Promise<unknown>;
  readonly resources: readonly ToolResource[];
  /** @throws GatewayError `not_found` for an unknown URI, and as {@link call} */
  read(uri: string, asker: Asker): Promise<unknown>;
}

/** A tool's call as what it is on the management API. `path` has its query. */
export interface ToolRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** What a tool's arguments ask an operation for. */
interface Plan {
  readonly operation: GatewayOperation;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string>>;
  /** Undefined: the operation takes none. */
  readonly body: unknown;
}

interface ToolRow {
  readonly tool: Tool;
  /** @throws GatewayError `invalid_request` */
  plan(args: Readonly<Record<string, unknown>>): Plan | { readonly answer: unknown };
}

/** A tool that is no single operation. */
export interface ComposedTool {
  readonly tool: Tool;
  /** @throws GatewayError `invalid_request` */
  readonly plan: (
    args: Readonly<Record<string, unknown>>,
  ) => { readonly operation: string; readonly args: Readonly<Record<string, unknown>> } | { readonly answer: unknown };
}

/** A resource and the tool that reads it. */
export interface ResourceRow extends ToolResource {
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** Shapes of schemas are the same whatever services they are made for. */
const ANY_SERVICES = {} as OperationServices;
const ONLY = { create: { 'if-none-match': '*' }, update: { 'if-match': '*' } } as const;

/** Every tool of these operations, in the order of their names. */
export class ToolTable {
  readonly tools: readonly Tool[];
  readonly resources: readonly ResourceRow[];
  readonly #rows = new Map<string, ToolRow>();

  constructor(operations: readonly GatewayOperation[], composed: readonly ComposedTool[], resources: readonly ResourceRow[]) {
    const rows = operations.flatMap((operation) => (operation.tools ?? []).map((facts) => rowOf(operation, facts)));
    const byId = new Map(operations.map((operation) => [operation.id, { operation, names: namesOf(operation) }]));
    for (const { tool, plan } of composed) {
      rows.push({
        tool,
        plan: (args) => {
          const planned = plan(args);
          if ('answer' in planned) return planned;
          const found = byId.get(planned.operation);
          if (found === undefined) throw new TypeError(`no operation is called ${planned.operation}`);
          return planOf(found.operation, found.names, {}, planned.args);
        },
      });
    }
    rows.sort((a, b) => (a.tool.name < b.tool.name ? -1 : 1));
    for (const row of rows) this.#rows.set(row.tool.name, row);
    this.tools = rows.map(({ tool }) => tool);
    this.resources = resources;
  }

  /** What a call of a tool is on the management API; an answer where none is needed. @throws GatewayError `not_found`, `invalid_request` */
  requestOf(name: string, args: unknown): ToolRequest | { readonly answer: unknown } {
    const planned = this.#row(name).plan(argumentsIn(args));
    if ('answer' in planned) return planned;
    const { operation, params, query, headers, body } = planned;
    const path = operation.path.replace(/\{(\w+)\}/g, (_whole, param: string) => encodeURIComponent(params[param] ?? ''));
    const asked = query.size === 0 ? path : `${path}?${query.toString()}`;
    return { method: operation.method, path: asked, headers, ...(body === undefined ? {} : { body }) };
  }

  /** The tools on services of this process. */
  boundTo(services: OperationServices): ToolSet {
    const bound = new Map<GatewayOperation, ReturnType<GatewayOperation['bind']>>();
    const call = async (name: string, args: unknown, { principal, from }: Asker): Promise<unknown> => {
      const { tool, plan } = this.#row(name);
      if (!principal.scopes.includes(tool.scope))
        throw new GatewayError('insufficient_scope', `This key may read; ${name} needs the scope \`${tool.scope}\`.`);
      const planned = plan(argumentsIn(args));
      if ('answer' in planned) return planned.answer;
      const { operation, params, query, headers, body } = planned;
      const ask = bound.get(operation) ?? operation.bind(services);
      bound.set(operation, ask);
      return jsonOf(await ask({ principal, params, query, headers, from, json: (ifNone) => Promise.resolve(body ?? ifNone) }));
    };
    return {
      tools: this.tools,
      call,
      resources: this.resources,
      read: (uri, asker) => {
        const row = this.resourceOf(uri);
        return call(row.tool, row.args, asker);
      },
    };
  }

  /** @throws GatewayError `not_found` */
  resourceOf(uri: string): ResourceRow {
    const row = this.resources.find((one) => one.uri === uri);
    if (row === undefined) throw new GatewayError('not_found', `There is no resource ${uri}.`);
    return row;
  }

  #row(name: string): ToolRow {
    const row = this.#rows.get(name);
    if (row === undefined) throw new GatewayError('not_found', `There is no tool ${name}.`);
    return row;
  }
}

function rowOf(operation: GatewayOperation, facts: ToolFacts): ToolRow {
  const { annotations, scope, summary, output } = operation;
  const names = namesOf(operation);
  return {
    tool: {
      name: facts.name,
      title: facts.title,
      description: facts.description ?? summary,
      scope: scope === 'read' ? 'read' : 'write',
      annotations: {
        readOnlyHint: annotations.readOnly,
        destructiveHint: annotations.destructive && facts.only !== 'create',
        idempotentHint: annotations.idempotent && facts.only !== 'create',
        openWorldHint: facts.openWorld === true,
      },
      inputSchema: inputSchemaOf(operation, facts),
      ...(output.schema === undefined ? {} : { outputSchema: jsonSchema(output.schema, 'output') }),
    },
    plan: (args) => planOf(operation, names, facts, args),
  };
}

function inputSchemaOf(operation: GatewayOperation, { ids = {} }: ToolFacts): Json {
  const { params, query, body } = operation.inputs(ANY_SERVICES);
  const properties: Record<string, unknown> = {};
  const required: string[] = [];
  const take = (schema: z.ZodObject | undefined, nameOf: (name: string) => string): void => {
    if (schema === undefined) return;
    const made = jsonSchema(schema, 'input');
    for (const [name, member] of Object.entries(made.properties ?? {})) properties[nameOf(name)] = member;
    required.push(...(made.required ?? []).map(nameOf));
  };
  take(params, (name) => ids[name] ?? name);
  for (const schema of [query, body]) take(schema, (name) => name);
  return {
    type: 'object',
    properties,
    ...(required.length === 0 ? {} : { required: [...new Set(required)] }),
    additionalProperties: false,
  };
}

/** What an operation takes, by where it takes it; read once, since making schemas costs more than a call. */
interface Names {
  readonly path: readonly string[];
  readonly query: ReadonlySet<string>;
  /** Undefined: it takes no body. */
  readonly body: ReadonlySet<string> | undefined;
}

function namesOf(operation: GatewayOperation): Names {
  const { params, query, body } = operation.inputs(ANY_SERVICES);
  return {
    path: Object.keys(params?.shape ?? {}),
    query: new Set(Object.keys(query?.shape ?? {})),
    body: body && new Set(Object.keys(body.shape)),
  };
}

/** Names of the path first, then parameters; everything else is a member of the body, whose schema says what does not belong there. */
function planOf(
  operation: GatewayOperation,
  names: Names,
  { ids = {}, only }: Pick<ToolFacts, 'ids' | 'only'>,
  args: Readonly<Record<string, unknown>>,
): Plan {
  const rest = new Map(Object.entries(args));
  const params = pathOf(names, ids, rest);
  const query = new URLSearchParams();
  for (const name of names.query) {
    const value = rest.get(name);
    if (value !== undefined) query.set(name, typeof value === 'string' ? value : JSON.stringify(value));
    rest.delete(name);
  }
  if (names.body === undefined && rest.size > 0) throw badArguments([...rest.keys()], 'is no argument of this tool');
  const body = names.body === undefined ? undefined : Object.fromEntries(rest);
  return { operation, params, query, headers: only === undefined ? {} : ONLY[only], body };
}

/** Takes the names of the path out of the arguments. */
function pathOf(names: Names, ids: NonNullable<ToolFacts['ids']>, rest: Map<string, unknown>): Record<string, string> {
  const params: Record<string, string> = {};
  const missing: string[] = [];
  for (const name of names.path) {
    const argument = ids[name] ?? name;
    const value = rest.get(argument);
    if (typeof value === 'string' && value !== '') params[name] = value;
    else missing.push(argument);
    // A body may have a member of that name.
    if (names.body?.has(argument) !== true) rest.delete(argument);
  }
  if (missing.length > 0) throw badArguments(missing, 'is required: text that is not empty');
  return params;
}

function argumentsIn(args: unknown): Readonly<Record<string, unknown>> {
  if (args === undefined) return {};
  if (isJsonObject(args)) return args;
  throw badArguments([''], 'must be an object');
}

function badArguments(paths: readonly string[], message: string): GatewayError {
  return new GatewayError('invalid_request', `The call has ${paths.length} bad argument(s).`, {
    details: paths.map((path) => ({ path, message })),
  });
}

async function jsonOf(outcome: OperationOutcome<unknown>): Promise<unknown> {
  if ('json' in outcome) return outcome.json;
  if ('text' in outcome) return JSON.parse(outcome.text) as unknown;
  if ('bytes' in outcome) return JSON.parse(Buffer.from(outcome.bytes).toString()) as unknown;
  if (!('parts' in outcome)) return {};
  let text = '';
  for await (const part of outcome.parts) text += part;
  return JSON.parse(text) as unknown;
}
