import { z } from 'zod';
import { ownCookieName } from '../base/lib/own-cookies.ts';
import { ERROR_CODES, type ErrorCode } from '../base/model/error-codes.ts';
import { scopesFor } from '../base/model/keys.ts';
import type { Scope } from '../base/model/principal.ts';
import { canBeTried, TRIED_REMOVAL } from './dry-run.ts';
import { jsonSchema } from './json-schema.ts';
import { exampleOf } from './management/operation-example.ts';
import type { GatewayOperation, Inputs } from './operation.ts';
import { planOf, takenNames } from './operation-request.ts';
import type { OperationServices } from './services.ts';
import { PROBLEM } from './shapes.ts';

/** A JSON value that is made here and only written out. */
type Json = Readonly<Record<string, unknown>>;

/** What an operation is known by when its input is read by somebody else. */
export type DescribedOperation = Omit<GatewayOperation, 'bind'>;

const ERROR = z.object({
  error: z.object({
    code: z.string(),
    message: z.string(),
    details: z
      .array(PROBLEM.extend({ path: z.string().meta({ description: 'The member or parameter, such as `labels.team` or `hosts[0]`' }) }))
      .optional(),
  }),
});

/** How each scope is shown to be one's own; any of the schemes will do. */
const SECURITY: Readonly<Record<Scope, readonly Json[]>> = {
  none: [],
  admin: [{ adminToken: [] }, { bearer: [] }],
  org: [{ adminToken: [] }, { bearer: [] }],
  // Nothing is needed where the call needed nothing.
  caller: [{ bearer: [] }, { adminToken: [] }, {}],
  // Without GW_METRICS_TOKEN nothing is needed.
  metrics: [{ bearer: [] }, {}],
  read: byKey('read'),
  write: byKey('write'),
  review: byKey('review'),
  decide: byKey('decide'),
  mcp: [{ bearer: [] }],
  sign_in: [{ adminToken: [] }, { bearer: [] }],
  session: [{ session: [] }],
};

/** A key with one of the scopes that open it (OpenAPI 3.1 names roles there, which are no part of the scheme). */
function byKey(scope: Scope): readonly Json[] {
  return scopesFor(scope).map((one) => ({ bearer: [one] }));
}

const ETAG: Json = { description: 'Names this state of it.', schema: { type: 'string' } };
const IF_MATCH: Json = {
  name: 'If-Match',
  in: 'header',
  required: false,
  description: 'The `ETag` of what was read: when somebody has changed it since, nothing is changed (412).',
  schema: { type: 'string' },
};

/**
 * The document of these operations (OpenAPI 3.1.0): paths, inputs, answers, and every error that follows from a row.
 */
export function openApi(operations: readonly DescribedOperation[], services: OperationServices, version: string): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const operation of operations) {
    const described = operationOf(operation, operation.inputs(services));
    paths[operation.path] = { ...paths[operation.path], [operation.method.toLowerCase()]: described };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'AI Request Gateway',
      version,
      description: 'What can be asked of the gateway itself. Calls to providers go through it in their own form.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    paths,
    components: {
      schemas: { Error: jsonSchema(ERROR, 'output') },
      securitySchemes: {
        adminToken: { type: 'apiKey', in: 'header', name: 'GW-Admin-Token' },
        bearer: { type: 'http', scheme: 'bearer' },
        session: { type: 'apiKey', in: 'cookie', name: ownCookieName(443, true), description: 'With the port that the browser calls' },
      },
    },
  };
}

function operationOf(operation: DescribedOperation, inputs: Inputs): Json {
  const { id, summary, scope, annotations, output, errors = [], ...rest } = operation;
  const isConditional = rest.versioned === true && !annotations.readOnly;
  const example = exampleOf(id);
  const asked = example && planOf(operation, takenNames(operation), example.args);
  const parameters = [
    ...parametersOf('path', inputs.params, asked?.params),
    ...parametersOf('query', inputs.query, asked && Object.fromEntries(asked.query)),
    ...(isConditional ? [IF_MATCH] : []),
  ];
  return {
    operationId: id,
    tags: [id.replace('mgmt.', '').split('.')[0]],
    summary,
    security: SECURITY[scope],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...bodyOf(inputs, asked?.body),
    responses: {
      [output.status]: answerOf(output, rest.versioned, example?.answer, inputs.query),
      ...(output.status === 204 && canBeTried(inputs.query) ? { 200: answerOf({ status: 200, schema: TRIED_REMOVAL }) } : {}),
      ...Object.fromEntries(
        (output.otherStatuses ?? []).map((status) => [
          status,
          status === 204 ? answerOf({ status }) : { ...answerOf(output), description: 'Not so.' },
        ]),
      ),
      ...errorsOf([
        ...errors,
        ...ruledErrors(scope, inputs),
        ...(annotations.readOnly || inputs.body === undefined ? [] : (['limit_reached'] as const)),
        ...(isConditional ? (['precondition_failed'] as const) : []),
        ...(rest.ownedRemotely === true ? (['managed_remotely'] as const) : []),
      ]),
    },
    'x-annotations': annotations,
    ...(rest.ambient === true ? { 'x-also-on-ambient-port': true } : {}),
  };
}

function bodyOf({ body, bodyOptional }: Inputs, example: unknown): { readonly requestBody?: Json } {
  if (body === undefined) return {};
  return { requestBody: { required: bodyOptional !== true, content: jsonContent(jsonSchema(body, 'input'), example) } };
}

/** @param examples as they are written in a URL */
function parametersOf(
  place: 'path' | 'query',
  schema: z.ZodObject | undefined,
  examples: Readonly<Record<string, string>> = {},
): readonly Json[] {
  if (schema === undefined) return [];
  const { properties = {}, required: needed = [] } = jsonSchema(schema, 'input');
  return Object.entries(properties).map(([name, member]) => {
    const { description, ...rest } = typeof member === 'object' ? member : {};
    const required = place === 'path' || needed.includes(name);
    const given = examples[name];
    const example = given === undefined ? {} : { example: isTextual(rest) ? given : (JSON.parse(given) as unknown) };
    return { name, in: place, required, ...(description === undefined ? {} : { description }), schema: rest, ...example };
  });
}

function isTextual({ type }: Json): boolean {
  return type !== 'integer' && type !== 'number' && type !== 'boolean';
}

function answerOf(
  { status, schema, contentType = 'application/json', also }: DescribedOperation['output'],
  versioned?: true,
  example?: unknown,
  query?: z.ZodObject,
): Json {
  if (status === 204) return { description: 'Done; there is nothing to say.' };
  if (status === 302) return { description: 'It is elsewhere.', headers: { Location: { schema: { type: 'string' } } } };
  const shown = example === undefined ? {} : { example };
  const other = also === undefined ? {} : { [also]: { schema: { type: 'string' } } };
  const own = schema && jsonSchema(schema, 'output');
  const told = own && canBeTried(query) ? { oneOf: [own, { title: 'With dry_run', ...jsonSchema(TRIED_REMOVAL, 'output') }] } : own;
  const content = told === undefined ? { schema: { type: 'string' } } : { schema: told, ...shown };
  return {
    description: 'Done.',
    ...(versioned === true ? { headers: { ETag: ETAG } } : {}),
    content: { [contentType]: content, ...other },
  };
}

function ruledErrors(scope: Scope, { body }: Inputs): readonly ErrorCode[] {
  return [
    // Every path refuses parameters that it does not know.
    'invalid_request',
    ...(body === undefined ? [] : (['body_too_large', 'body_too_deep'] as const)),
    ...(scope === 'none' ? [] : (['unauthorized'] as const)),
    ...(scopesFor(scope).length > 0 ? (['too_many_attempts', 'insufficient_scope'] as const) : []),
    'internal',
  ];
}

/** By status, with the codes that the status can mean. */
function errorsOf(codes: readonly ErrorCode[]): Json {
  const statuses = [...new Set(codes.map((code) => ERROR_CODES[code].status))].sort((a, b) => a - b);
  return Object.fromEntries(
    statuses.map((status) => {
      const meant = [...new Set(codes)].filter((code) => ERROR_CODES[code].status === status);
      const description = meant.map((code) => `\`${code}\`: ${ERROR_CODES[code].meaning}`).join(' ');
      const example = { error: { code: meant[0], message: '…' } };
      return [status, { description, content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' }, example } } }];
    }),
  );
}

function jsonContent(schema: Json, example: unknown): Json {
  return { 'application/json': { schema, ...(example === undefined ? {} : { example }) } };
}
