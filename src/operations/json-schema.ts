import { z } from 'zod';
import { isJsonObject, type JsonObject } from '../base/json/json-object.ts';

/**
 * A parameter is text on its way; what it means is told as the type of its value, of which the rules of the text are
 * none. `output`: members may come to it, so others than those that are told are not excluded.
 */
export function jsonSchema(schema: z.ZodType, of: 'input' | 'output'): z.core.JSONSchema.BaseSchema {
  const { $schema: _dialect, ...made } = z.toJSONSchema(schema, {
    io: of,
    unrepresentable: 'any',
    override: ({ jsonSchema: part, zodSchema }) => {
      if (of === 'output' && zodSchema._zod.def.type === 'object' && part.additionalProperties === false) delete part.additionalProperties;
      if (part.type === 'boolean') delete part.enum;
      if (part.type === 'integer') delete part.pattern;
    },
  });
  return everyPart(made, typed);
}

/**
 * The same without `null`, for tools: what models are shown is a narrower language than JSON Schema, in which each part
 * has one type. What takes null takes an empty text for it.
 */
export function withoutNull(schema: JsonObject): JsonObject {
  return everyPart(schema, (part) => {
    if (!Array.isArray(part['type'])) return part;
    // An empty text is none of what these are for.
    const {
      type,
      enum: words,
      minLength: _shortest,
      pattern: _pattern,
      ...rest
    } = part as JsonObject & { readonly type: readonly unknown[] };
    const kept = type.filter((one) => one !== 'null');
    return {
      ...rest,
      type: kept.length === 1 ? kept[0] : kept,
      ...(Array.isArray(words) ? { enum: words.filter((word) => word !== null) } : {}),
    };
  });
}

/** Rules of an argument's value: who breaks one is told it by the error, and models do not count characters. */
const RULES: ReadonlySet<string> = new Set(
  'pattern minLength maxLength minItems maxItems maxProperties minimum maximum exclusiveMinimum exclusiveMaximum examples'.split(' '),
);

/**
 * The same with what a model needs to give its arguments, and no more: it reads every tool at every turn (decision
 * 10.15). The whole schemas are those of the API's description.
 * @param untold without descriptions, which another tool has for the same arguments
 */
export function forModels(schema: JsonObject, untold: boolean): JsonObject {
  return everyPart(schema, (part) => {
    const { examples, description } = part;
    const isLeftOut = (name: string) =>
      RULES.has(name) || (untold && name === 'description') || (name === 'additionalProperties' && part[name] === false);
    const kept = Object.fromEntries(Object.entries(part).filter(([name]) => !isLeftOut(name)));
    if (untold || description !== undefined || !isList(examples) || examples.length === 0) return kept;
    return { ...kept, description: `such as ${String(examples[0])}` };
  });
}

/** Each part says its type: models are offered no tool of a list in which one does not (decision 10.15). */
function typed(part: JsonObject): JsonObject {
  const { additionalProperties: others } = part;
  if (isJsonObject(others) && Object.keys(others).length === 0) return typed({ ...part, additionalProperties: true });
  const { anyOf, ...rest } = part;
  if (isList(anyOf) && anyOf.length === 2) {
    const other = anyOf.find((one) => isJsonObject(one) && one['type'] !== 'null');
    if (isJsonObject(other) && anyOf.some((one) => isJsonObject(one) && one['type'] === 'null')) return { ...orNull(other), ...rest };
  }
  const words = part['enum'];
  return Array.isArray(words) && part['type'] === undefined && words.every((word) => typeof word === 'string')
    ? { type: 'string', ...part }
    : part;
}

function orNull(part: JsonObject): JsonObject {
  const { type, enum: words } = part;
  const types = isList(type) ? type : [type];
  return { ...part, type: [...types, 'null'], ...(isList(words) ? { enum: [...words, null] } : {}) };
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}

/** Changes a schema from its innermost parts outwards. */
function everyPart<T extends object>(schema: T, change: (part: JsonObject) => JsonObject): T {
  const found = { ...schema } as Record<string, unknown>;
  for (const name of ['items', 'additionalProperties', 'propertyNames']) {
    const part = found[name];
    if (isJsonObject(part)) found[name] = everyPart(part, change);
  }
  for (const name of ['anyOf', 'oneOf', 'allOf']) {
    const parts = found[name];
    if (Array.isArray(parts)) found[name] = parts.map((part: unknown) => (isJsonObject(part) ? everyPart(part, change) : part));
  }
  const members = found['properties'];
  if (isJsonObject(members))
    found['properties'] = Object.fromEntries(
      Object.entries(members).map(([name, part]) => [name, isJsonObject(part) ? everyPart(part, change) : part]),
    );
  return change(found) as T;
}
