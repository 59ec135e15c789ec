import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import type { ExampleAnswer } from './example-org.ts';

interface Media {
  readonly schema: object;
  readonly example?: unknown;
}

interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly schema: object;
  readonly example?: unknown;
}

interface Described {
  readonly operationId: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly required: boolean; readonly content: Readonly<Record<string, Media>> };
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: Readonly<Record<string, Media>> }>>;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: object;
}

export interface ExampleRequest {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  readonly scope: 'read' | 'write';
  /** What of it the document does not permit. */
  readonly flaws: readonly string[];
}

const JSON_TYPE = 'application/json';

/**
 * What a client knows who has read an OpenAPI document and nothing else. What the examples call something is called
 * otherwise on a gateway that runs: it learns that from answers.
 */
export class DescribedApi {
  readonly document: Readonly<Record<string, unknown>>;
  readonly #operations = new Map<string, { readonly method: string; readonly path: string; readonly described: Described }>();
  readonly #schemas = new Map<object, ValidateFunction>();
  readonly #components: object;
  /** From what the document says to what this gateway says. */
  readonly #called = new Map<string, string>();
  readonly #ajv = new Ajv2020({ strict: true, strictTypes: false, allErrors: true, validateFormats: false });

  private constructor(document: Document & Readonly<Record<string, unknown>>) {
    this.document = document;
    this.#components = closed(document.components) as object;
    for (const [path, methods] of Object.entries(document.paths))
      for (const [method, described] of Object.entries(methods))
        this.#operations.set(described.operationId, { method: method.toUpperCase(), path, described });
  }

  static async read(get: (path: string) => Promise<ExampleAnswer>): Promise<DescribedApi> {
    return new DescribedApi((await get('/mgmt/v1/openapi.json')).body as Document & Readonly<Record<string, unknown>>);
  }

  /** The example of an operation as a request to this gateway. */
  example(id: string): ExampleRequest {
    const { method, path, described } = this.#of(id);
    const flaws: string[] = [];
    const query = new URLSearchParams();
    let asked = path;
    for (const { name, in: place, required, schema, example } of described.parameters ?? []) {
      if (example === undefined) {
        if (required) flaws.push(`${name} has no example`);
        continue;
      }
      flaws.push(...this.#check(schema, example, name));
      const value = String(this.#here(example));
      if (place === 'path') asked = asked.replace(`{${name}}`, encodeURIComponent(value));
      else query.set(name, value);
    }
    const media = described.requestBody?.content[JSON_TYPE];
    if (media !== undefined) flaws.push(...this.#check(media.schema, media.example, 'body'));
    const scope = described.security.some(({ bearer = [] }) => bearer.includes('read')) ? 'read' : 'write';
    return { method, path: query.size === 0 ? asked : `${asked}?${query}`, body: this.#here(media?.example), scope, flaws };
  }

  /** Whether its path names one thing. */
  namesOne(id: string): boolean {
    return this.#of(id).path.includes('{');
  }

  /** What of an answer the document does not promise. What the example calls differently is known from then on. */
  learn(id: string, answer: ExampleAnswer): readonly string[] {
    const { described } = this.#of(id);
    const example = described.responses[answer.status]?.content?.[JSON_TYPE]?.example;
    this.#compare(example, answer.body);
    const told = membersOf(example);
    const shown = example === undefined ? ['it has no example'] : this.flaws(id, { status: answer.status, body: example });
    const lacking = membersOf(this.#first(answer.body)).filter((name) => !told.includes(name));
    return [...this.flaws(id, answer), ...shown, ...lacking.map((name) => `the example does not show ${name}`)];
  }

  flaws(id: string, { status, body }: ExampleAnswer): readonly string[] {
    const promised = this.#of(id).described.responses[status];
    if (promised === undefined) return [`${status} is not told of: ${JSON.stringify(body)}`];
    const schema = promised.content?.[JSON_TYPE]?.schema;
    return schema === undefined ? [] : this.#check(closed(schema) as object, body, 'answer');
  }

  /** Ids of what was made on this gateway. */
  made(): readonly string[] {
    return [...this.#called.values()].filter((value) => /^[0-9a-f-]{36}$/.test(value));
  }

  #of(id: string) {
    const found = this.#operations.get(id);
    if (found === undefined) throw new Error(`the document has no ${id}`);
    return found;
  }

  #check(schema: object, value: unknown, what: string): string[] {
    const known = this.#schemas.get(schema);
    const check =
      known ??
      this.#ajv.compile({
        $defs: this.#components,
        ...(JSON.parse(JSON.stringify(schema).replaceAll('#/components/', '#/$defs/')) as object),
      });
    this.#schemas.set(schema, check);
    return check(value) === true ? [] : [`${what}: ${this.#ajv.errorsText(check.errors)}`];
  }

  #here(value: unknown): unknown {
    if (typeof value === 'string') return this.#called.get(value) ?? value;
    if (Array.isArray(value)) return value.map((one) => this.#here(one));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, this.#here(one)]));
  }

  /** As the examples are kept: no more than two items of a list. */
  #first(value: unknown): unknown {
    if (Array.isArray(value)) return value.slice(0, 2).map((one) => this.#first(one));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, this.#first(one)]));
  }

  #compare(example: unknown, answer: unknown): void {
    if (typeof example === 'string' && typeof answer === 'string') {
      if (example !== answer && /^(?:[0-9a-f-]{36}|[0-9a-f]{64})$/.test(answer)) this.#called.set(example, answer);
    } else if (typeof example === 'object' && typeof answer === 'object' && example !== null && answer !== null) {
      const members = new Map(Object.entries(answer));
      for (const [name, one] of Object.entries(example)) this.#compare(one, members.get(name));
    }
  }
}

/** Names of members, whatever the place in a list. */
function membersOf(value: unknown, prefix = ''): string[] {
  if (Array.isArray(value)) return [...new Set(value.flatMap((one) => membersOf(one, `${prefix}[]`)))];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, one]) => [`${prefix}.${name}`, ...membersOf(one, `${prefix}.${name}`)]);
}

/** What is not told must not come: of what an answer has, the description knows each member. */
export function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const made = Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, closed(value)]));
  return 'properties' in made && !('additionalProperties' in made) ? { ...made, additionalProperties: false } : made;
}
