import { z } from 'zod';
import { type ErrorDetail, GatewayError } from '../base/lib/gateway-error.ts';
import { badQuery, queryMistakes } from '../base/lib/query-names.ts';

/** One mistake that a schema found. */
export type Issue = z.core.$ZodIssue;

interface BodyReading<B extends z.ZodObject> {
  readonly schema: B;
  readonly what: string;
  readonly refusal?: (issues: readonly Issue[]) => GatewayError;
}

/**
 * A body, checked by its schema; all mistakes are told at once (decision 8.1).
 * @throws GatewayError `invalid_request`, or what the body's own `refusal` makes
 */
export function readBody<B extends z.ZodObject>({ schema, what, refusal }: BodyReading<B>, body: unknown): z.output<B> {
  const read = schema.safeParse(body);
  if (read.success) return read.data;
  const { issues } = read.error;
  if (refusal) throw refusal(issues);
  if (issues.some(isNoObject))
    throw new GatewayError('invalid_request', `${what} must be a JSON object.`, { details: [{ path: '', message: 'must be an object' }] });
  const details = detailsOf(inOrder(issues, Object.keys(schema.shape)));
  throw new GatewayError('invalid_request', `${what} has ${details.length} bad member(s).`, { details });
}

/**
 * The names in a path.
 * @throws GatewayError `invalid_request`
 */
export function readParams<P extends z.ZodObject>(schema: P, params: Readonly<Record<string, string>>): z.output<P> {
  const read = schema.safeParse(params);
  if (read.success) return read.data;
  const details = detailsOf(read.error.issues);
  throw new GatewayError('invalid_request', `The path has ${details.length} bad name(s).`, { details });
}

/** Of what takes no parameters. */
export const NO_QUERY: z.ZodObject = z.object({});

export interface QueryReading {
  /** The sentence of the error, in the place of one that counts the mistakes. */
  readonly refusal?: string | undefined;
  /** No token is needed for what is asked. */
  readonly anybodys?: boolean;
}

/**
 * A query, checked by its schema: a parameter that is unknown, or there twice, is a mistake (decision 8.15). Words that
 * a parameter takes are read in any letter case.
 * @throws GatewayError `invalid_request`
 */
export function readQuery<Q extends z.ZodObject>(
  schema: Q,
  query: URLSearchParams,
  { refusal, anybodys = false }: QueryReading = {},
): z.output<Q> {
  const known = Object.keys(schema.shape);
  const details = queryMistakes(query, known, anybodys);
  const read = schema.safeParse(
    Object.fromEntries(known.filter((name) => query.has(name)).map((name) => [name, folded(schema.shape[name], query.get(name) ?? '')])),
  );
  if (read.success && details.length === 0) return read.data;
  if (!read.success) details.push(...detailsOf(read.error.issues));
  throw badQuery(details, refusal);
}

/** One of the words of a parameter, as it is written there. */
function folded(schema: unknown, text: string): string {
  const words = wordsOf(schema);
  return words === undefined || words.includes(text) ? text : (words.find((word) => word.toLowerCase() === text.toLowerCase()) ?? text);
}

function wordsOf(schema: unknown): readonly string[] | undefined {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault) return wordsOf(schema.unwrap());
  if (schema instanceof z.ZodPipe) return wordsOf(schema.in);
  return schema instanceof z.ZodEnum ? schema.options.map(String) : undefined;
}

function isNoObject({ code, path }: Issue): boolean {
  return code === 'invalid_type' && path.length === 0;
}

/** As the members stand in the schema, and of each one first what does not belong there. */
function inOrder(issues: readonly Issue[], members: readonly string[]): readonly Issue[] {
  const places = new Map(members.map((name, at) => [name, at * 2]));
  const placeOf = ({ code, path }: Issue) => (places.get(String(path[0])) ?? -1) + (code === 'unrecognized_keys' ? 0 : 1);
  return issues.toSorted((a, b) => placeOf(a) - placeOf(b));
}

/**
 * The one form in which a schema's mistakes are told: the words are the schema's. What is said twice of a member is
 * told once.
 */
function detailsOf(issues: readonly Issue[]): ErrorDetail[] {
  const told = new Map<string, ErrorDetail>();
  for (const issue of issues) {
    const paths = issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...issue.path, key]) : [issue.path];
    for (const path of paths.map(pathText)) told.set(`${path}\n${issue.message}`, { path, message: issue.message });
  }
  return [...told.values()];
}

function pathText(path: readonly PropertyKey[]): string {
  return path.map((part, at) => (typeof part === 'number' ? `[${part}]` : `${at === 0 ? '' : '.'}${String(part)}`)).join('');
}
