/*
 * The table as assistants see it (specification, "MCP server"): each tool is an operation of the management API, with the same schema, scope and handler. What carries
 * tools over MCP, in this process or in another one, is not known here.
 */

import type { z } from 'zod';
import { isJsonObject } from '../base/json/json-object.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import type { Principal } from '../base/model/principal.ts';
import { jsonSchema, withoutNull } from './json-schema.ts';
import type { GatewayOperation, OperationOutcome, ToolFacts } from './operation.ts';
import {
  ANY_SERVICES,
  badArguments,
  type OperationPlan,
  type OperationRequest,
  planOf,
  requestOf,
  takenNames,
} from './operation-request.ts';
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
  /** Aborted when he waits no more: what only reads ends then. */
  readonly signal?: AbortSignal | undefined;
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

/** A tool's call as what it is on the management API. */
export type ToolRequest = OperationRequest;

interface ToolRow {
  readonly tool: Tool;
  /** @throws GatewayError `invalid_request` */
  plan(args: Readonly<Record<string, unknown>>): OperationPlan | { readonly answer: unknown };
}

/** A tool that asks no operation: it always answers the same. */
export interface FixedTool {
  readonly tool: Tool;
  readonly answer: unknown;
}

/** A resource and the tool that reads it. */
export interface ResourceRow extends ToolResource {
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
}

const ONLY = { create: { 'if-none-match': '*' }, update: { 'if-match': '*' } } as const;

/** Every tool of these operations, in the order of their names. */
export class ToolTable {
  readonly tools: readonly Tool[];
  readonly resources: readonly ResourceRow[];
  readonly #rows = new Map<string, ToolRow>();

  constructor(operations: readonly GatewayOperation[], fixed: readonly FixedTool[], resources: readonly ResourceRow[]) {
    const rows = operations.flatMap((operation) => (operation.tools ?? []).map((facts) => rowOf(operation, facts)));
    rows.push(...fixed.map(({ tool, answer }) => ({ tool, plan: () => ({ answer }) })));
    rows.sort((a, b) => (a.tool.name < b.tool.name ? -1 : 1));
    for (const row of rows) this.#rows.set(row.tool.name, row);
    this.tools = rows.map(({ tool }) => tool);
    this.resources = resources;
  }

  /** What a call of a tool is on the management API; an answer where none is needed. @throws GatewayError `not_found`, `invalid_request` */
  requestOf(name: string, args: unknown): ToolRequest | { readonly answer: unknown } {
    const planned = this.#row(name).plan(argumentsIn(args));
    if ('answer' in planned) return planned;
    return requestOf(planned);
  }

  /** The tools on services of this process. */
  boundTo(services: OperationServices): ToolSet {
    const bound = new Map<GatewayOperation, ReturnType<GatewayOperation['bind']>>();
    const call = async (name: string, args: unknown, { principal, from, signal }: Asker): Promise<unknown> => {
      const { tool, plan } = this.#row(name);
      if (!principal.scopes.includes(tool.scope))
        throw new GatewayError('insufficient_scope', `This key may read; ${name} needs the scope \`${tool.scope}\`.`);
      const planned = plan(argumentsIn(args));
      if ('answer' in planned) return planned.answer;
      const { operation, params, query, headers, body } = planned;
      const ask = bound.get(operation) ?? operation.bind(services);
      bound.set(operation, ask);
      return jsonOf(await ask({ principal, params, query, headers, from, signal, json: (ifNone) => Promise.resolve(body ?? ifNone) }));
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
  const { ids = {}, only } = facts;
  const names = takenNames(operation);
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
    plan: (args) => planOf(operation, names, { ...facts.defaults, ...args }, { ids, headers: only === undefined ? {} : ONLY[only] }),
  };
}

function inputSchemaOf(operation: GatewayOperation, { ids = {} }: ToolFacts): Json {
  const { params, query, body } = operation.inputs(ANY_SERVICES);
  const properties: Record<string, unknown> = {};
  const required: string[] = [];
  const take = (schema: z.ZodObject | undefined, nameOf: (name: string) => string): void => {
    if (schema === undefined) return;
    const made = jsonSchema(schema, 'input');
    for (const [name, member] of Object.entries(made.properties ?? {}))
      properties[nameOf(name)] = isJsonObject(member) ? withoutNull(member) : member;
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

function argumentsIn(args: unknown): Readonly<Record<string, unknown>> {
  if (args === undefined) return {};
  if (isJsonObject(args)) return args;
  throw badArguments([''], 'must be an object');
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
