/*
 * The table as assistants see it (specification, "MCP server"): each tool is an operation of the management API, with
 * the same schema, scope and handler. What carries tools over MCP, in this process or in another one, is not known
 * here.
 */

import type { z } from 'zod';
import { isJsonObject, type JsonObject } from '../base/json/json-object.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { scopeLacked } from '../base/model/keys.ts';
import type { Principal, Scope } from '../base/model/principal.ts';
import { forModels, jsonSchema, withoutNull } from './json-schema.ts';
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
import { ToolArguments } from './tool-arguments.ts';

type Json = Readonly<Record<string, unknown>>;

export interface Tool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly scope: Scope;
  readonly annotations: {
    readonly readOnlyHint: boolean;
    readonly destructiveHint: boolean;
    readonly idempotentHint: boolean;
    readonly openWorldHint: boolean;
  };
  /** JSON Schema 2020-12. */
  readonly inputSchema: Json;
  /** Of the answer; not listed to models, which read the answer itself (decision 10.15). */
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
  /**
   * The JSON answer.
   * @throws GatewayError `not_found` for an unknown tool, `insufficient_scope`, and what its operation throws
   */
  call(name: string, args: unknown, asker: Asker): Promise<unknown>;
  readonly resources: readonly ToolResource[];
  /** @throws GatewayError `not_found` for an unknown URI, and as {@link call} */
  read(uri: string, asker: Asker): Promise<unknown>;
}

/** A tool's call as what it is on the management API. */
export type ToolRequest = OperationRequest;

interface ToolRow {
  readonly tool: Tool;
  /** @param now epoch milliseconds @throws GatewayError `invalid_request` */
  plan(args: Readonly<Record<string, unknown>>, now: () => number): OperationPlan | { readonly answer: unknown };
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
    rows.push(...fixed.map(fixedRow));
    rows.sort((a, b) => (a.tool.name < b.tool.name ? -1 : 1));
    for (const row of rows) this.#rows.set(row.tool.name, row);
    this.tools = rows.map(({ tool }) => tool);
    this.resources = resources;
  }

  /**
   * What a call of a tool is on the management API; an answer where none is needed.
   * @param now epoch milliseconds, for times such as `yesterday`
   * @throws GatewayError `not_found`, `invalid_request`
   */
  requestOf(name: string, args: unknown, now: () => number): ToolRequest | { readonly answer: unknown } {
    const planned = this.#row(name).plan(argumentsIn(args), now);
    if ('answer' in planned) return planned;
    return requestOf(planned);
  }

  /** The tools on services of this process. */
  boundTo(services: OperationServices): ToolSet {
    const bound = new Map<GatewayOperation, ReturnType<GatewayOperation['bind']>>();
    const call = async (name: string, args: unknown, { principal, from, signal }: Asker): Promise<unknown> => {
      const { tool, plan } = this.#row(name);
      if (!principal.scopes.includes(tool.scope))
        throw new GatewayError('insufficient_scope', scopeLacked(principal.scopes, tool.scope, name));
      const planned = plan(argumentsIn(args), () => services.reports.clock.now());
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

/** Also what always answers the same says which arguments it does not take. */
function fixedRow({ tool, answer }: FixedTool): ToolRow {
  const taken = new ToolArguments({ properties: {}, ids: [], nullable: new Set() });
  return {
    tool,
    plan: (args, now) => {
      taken.read(args, now);
      return { answer };
    },
  };
}

function rowOf(operation: GatewayOperation, facts: ToolFacts): ToolRow {
  const { annotations, scope, summary, output } = operation;
  const { ids = {}, only, like } = facts;
  const described = facts.description ?? summary;
  const names = takenNames(operation);
  const inputSchema = inputSchemaOf(operation, facts);
  const taken = new ToolArguments({
    properties: inputSchema.properties,
    ids: names.path.map((param) => ids[param] ?? param),
    nullable: nullableOf(operation),
  });
  return {
    tool: {
      name: facts.name,
      title: facts.title,
      description: like === undefined ? described : `${described} Arguments are as in ${like}.`,
      scope,
      annotations: {
        readOnlyHint: annotations.readOnly,
        destructiveHint: annotations.destructive && facts.only !== 'create',
        idempotentHint: annotations.idempotent && facts.only !== 'create',
        openWorldHint: facts.openWorld === true,
      },
      inputSchema,
      ...(output.schema === undefined ? {} : { outputSchema: jsonSchema(output.schema, 'output') }),
    },
    plan: (args, now) =>
      planOf(operation, names, { ...facts.defaults, ...taken.read(args, now) }, { ids, headers: only === undefined ? {} : ONLY[only] }),
  };
}

function inputSchemaOf(operation: GatewayOperation, { ids = {}, like }: ToolFacts): Json & { readonly properties: Json } {
  const { params, query, body } = operation.inputs(ANY_SERVICES);
  const properties: Record<string, unknown> = {};
  const required: string[] = [];
  const take = (schema: z.ZodObject | undefined, nameOf: (name: string) => string, untold: boolean): void => {
    if (schema === undefined) return;
    const made = jsonSchema(schema, 'input');
    for (const [name, member] of Object.entries(made.properties ?? {}))
      properties[nameOf(name)] =
        name === FORMAT ? JSON_ALONE : isJsonObject(member) ? withoutEcho(nameOf(name), forModels(withoutNull(member), untold)) : member;
    required.push(...(made.required ?? []).map(nameOf));
  };
  take(params, (name) => ids[name] ?? name, false);
  for (const schema of [query, body]) take(schema, (name) => name, like !== undefined);
  return { type: 'object', properties, ...(required.length === 0 ? {} : { required: [...new Set(required)] }) };
}

/** Members of the body that take null for something. */
function nullableOf(operation: GatewayOperation): ReadonlySet<string> {
  const { body } = operation.inputs(ANY_SERVICES);
  const members = body === undefined ? {} : (jsonSchema(body, 'input').properties ?? {});
  const takesNull = (part: unknown) => isJsonObject(part) && Array.isArray(part['type']) && part['type'].includes('null');
  return new Set(Object.keys(members).filter((name) => takesNull(members[name])));
}

/** A tool answers JSON, whatever else the API has. */
const FORMAT = 'format';
const JSON_ALONE = { type: 'string', enum: ['json'] } as const;

/** What is told once, of all tools, in the server's instructions. */
const TOLD_ONCE: ReadonlySet<string> = new Set(['from', 'to', 'tz', 'limit', 'cursor', 'dry_run', 'if_match']);

/** A description that says no more than the name does is none. */
function withoutEcho(name: string, part: JsonObject): JsonObject {
  const { description, ...rest } = part;
  if (TOLD_ONCE.has(name)) return rest;
  const said = typeof description === 'string' ? description.toLowerCase().replaceAll(' ', '_') : '';
  return said === name || said === `${name}_id` || (said === 'us_dollars' && name.endsWith('_usd')) ? rest : part;
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
  if (outcome.contentType !== undefined) throw badArguments(['format'], 'a tool answers JSON; CSV is at the REST API and `gw`');
  let text = '';
  for await (const part of outcome.parts) text += part;
  return JSON.parse(text) as unknown;
}
