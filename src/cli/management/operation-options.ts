import { jsonSchema } from '../../operations/json-schema.ts';
import type { GatewayOperation } from '../../operations/operation.ts';
import { ANY_SERVICES } from '../../operations/operation-request.ts';

type Schema = Readonly<Record<string, unknown>>;

/** How one value is written. */
export interface ValueForm {
  readonly kind: 'text' | 'time' | 'whole' | 'number' | 'boolean' | 'word' | 'json';
  readonly words?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
  /** It must be more than this. */
  readonly above?: number;
}

/** An option of a command, as it follows from a member of an operation's input. */
export interface OperationOption {
  /** Without dashes: `default-attribution.customer-id`. */
  readonly name: string;
  /** Where its value stands in the arguments. */
  readonly path: readonly string[];
  readonly shape: 'one' | 'list' | 'map';
  readonly value: ValueForm;
  /** `null` is a value of it. */
  readonly nullable: boolean;
  readonly required: boolean;
  /** Members that are not told can be given behind a dot. */
  readonly open: boolean;
  readonly description: string;
  /** Where to find what people look for here, and is elsewhere. */
  readonly elsewhere?: string;
}

/** What an operation takes as options and words of a command. */
export interface OperationInput {
  /** Names in the path, in order: words beside the options. */
  readonly words: readonly string[];
  readonly options: readonly OperationOption[];
  readonly hasBody: boolean;
  /** It is a list in pages. */
  readonly paged: boolean;
}

/** Reads the schemas of an operation. */
export function operationInput(operation: Pick<GatewayOperation, 'inputs'>): OperationInput {
  const { params, query, body } = operation.inputs(ANY_SERVICES);
  const options = [query, body].flatMap((schema) => (schema === undefined ? [] : optionsIn(jsonSchema(schema, 'input'), [], true)));
  return {
    words: Object.keys(params?.shape ?? {}),
    options,
    hasBody: body !== undefined,
    paged: query !== undefined && 'cursor' in query.shape,
  };
}

/** How a member is called as an option. */
export function optionName(path: readonly string[]): string {
  return path.map((part) => part.replaceAll('_', '-')).join('.');
}

function optionsIn(schema: Schema, prefix: readonly string[], needed: boolean): OperationOption[] {
  const required = Array.isArray(schema['required']) ? schema['required'] : [];
  return Object.entries(asSchema(schema['properties'])).flatMap(([name, member]) => {
    const path = [...prefix, name];
    const { schema: inner, nullable } = withoutNull(asSchema(member));
    const must = needed && required.includes(name) && !('default' in inner);
    const own: OperationOption = {
      name: optionName(path),
      path,
      ...formOf(inner),
      nullable,
      required: must,
      open: isOpen(inner),
      description: textIn(asSchema(member)['description']) || textIn(inner['description']),
    };
    return 'properties' in inner ? [own, ...optionsIn(inner, path, false)] : [own];
  });
}

function formOf(schema: Schema): Pick<OperationOption, 'shape' | 'value'> {
  const items = asSchema(schema['items']);
  if (schema['type'] === 'array' && isPlain(items)) return { shape: 'list', value: valueForm(items) };
  const others = asSchema(schema['additionalProperties']);
  if (schema['type'] === 'object' && !('properties' in schema) && isPlain(others)) return { shape: 'map', value: valueForm(others) };
  return { shape: 'one', value: valueForm(schema) };
}

function valueForm(schema: Schema): ValueForm {
  if (Array.isArray(schema['enum'])) return { kind: 'word', words: schema['enum'].map(String) };
  if (typeof schema['const'] === 'string') return { kind: 'word', words: [schema['const']] };
  const { minimum, maximum, exclusiveMinimum: above } = schema;
  const bounds = {
    ...(typeof minimum === 'number' ? { minimum } : {}),
    ...(typeof maximum === 'number' ? { maximum } : {}),
    ...(typeof above === 'number' ? { above } : {}),
  };
  if (schema['type'] === 'integer') return { kind: 'whole', ...bounds };
  if (schema['type'] === 'number') return { kind: 'number', ...bounds };
  if (schema['type'] === 'boolean') return { kind: 'boolean' };
  if (schema['type'] === 'string') return { kind: schema['format'] === 'date-time' ? 'time' : 'text' };
  return { kind: 'json' };
}

/** Whether its values are written without JSON. */
function isPlain(schema: Schema): boolean {
  return valueForm(schema).kind !== 'json';
}

/** An object whose members depend on something else. */
function isOpen(schema: Schema): boolean {
  const { shape, value } = formOf(schema);
  return shape === 'one' && value.kind === 'json' && schema['type'] !== 'array' && !('properties' in schema);
}

/** Of what may be null: what it is when it is not. */
function withoutNull(schema: Schema): { readonly schema: Schema; readonly nullable: boolean } {
  const { type, anyOf } = schema;
  if (Array.isArray(type) && type.includes('null')) {
    const rest: unknown[] = type.filter((one) => one !== 'null');
    return { schema: { ...schema, type: rest.length === 1 ? rest[0] : rest }, nullable: true };
  }
  if (!Array.isArray(anyOf)) return { schema, nullable: false };
  const rest = anyOf.map(asSchema).filter((one) => one['type'] !== 'null');
  const [only] = rest;
  if (rest.length === anyOf.length || rest.length !== 1 || only === undefined) return { schema, nullable: rest.length < anyOf.length };
  return { schema: only, nullable: true };
}

function asSchema(value: unknown): Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Schema) : {};
}

function textIn(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
