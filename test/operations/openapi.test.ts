// The API description: one document, judged by validators that are not ours, and by what the routes answer.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import { DESCRIBED } from '../../src/app/routes.ts';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { openApi } from '../../src/operations/openapi.ts';
import { OPERATIONS } from '../../src/operations/operation-table.ts';
import type { OperationServices } from '../../src/operations/services.ts';
import { startTestGateway } from '../support/gateway.ts';

interface Media {
  readonly schema: object;
}

interface Described {
  readonly operationId: string;
  readonly security: readonly object[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, Media>> }>>;
}

interface Description {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: object;
}

interface Recorded {
  readonly request: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const text = JSON.stringify(openApi(DESCRIBED, {} as OperationServices, '1.2.3'));
const description = (): Description => JSON.parse(text) as Description;
const read = (name: string): unknown => JSON.parse(readFileSync(join(packageRoot(), 'test', 'cases', 'operations', name), 'utf8'));
const recording = read('recording.json') as readonly Recorded[];
const requests = read('requests.json') as readonly { readonly request: string; readonly body?: unknown; readonly text?: string }[];

/** The operation that a recorded request asks; a path without parameters goes before one with them. */
function operationFor({ paths }: Description, request: string): Described | undefined {
  const [method = '', target = ''] = request.split(' ');
  const path = target.replace(/\?.*$/, '');
  const fits = (pattern: string) => new RegExp(`^${pattern.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{\w+\}/g, '[^/]+')}$`).test(path);
  const found = paths[path] ?? Object.entries(paths).find(([pattern]) => fits(pattern))?.[1];
  return found?.[method.toLowerCase()];
}

/** What is not told must not come: of what an answer has, the description knows each member. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const made = Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, closed(value)]));
  return 'properties' in made && !('additionalProperties' in made) ? { ...made, additionalProperties: false } : made;
}

/** Schemas of a document, compiled by a validator of JSON Schema 2020-12. */
function judge(components: object) {
  const ajv = new Ajv2020({ strict: true, strictTypes: false, allErrors: true, validateFormats: false });
  return (schema: object, value: unknown): string => {
    const resolved = JSON.parse(JSON.stringify(schema).replaceAll('#/components/', '#/$defs/')) as object;
    const check = ajv.compile({ $defs: components, ...resolved });
    return check(value) ? '' : ajv.errorsText(check.errors);
  };
}

t.test('the description is a valid OpenAPI 3.1 document', async (t) => {
  const { valid, errors } = await new Validator().validate(description() as unknown as Record<string, unknown>);
  t.ok(valid, JSON.stringify(errors));
  const broken = JSON.parse(text) as { paths: Record<string, Record<string, { responses?: unknown }>> };
  const health = broken.paths['/healthz']?.['get'];
  if (health) health.responses = 'none';
  t.notOk((await new Validator().validate(broken)).valid, 'the judge can say no');
});

t.test('every entry of the table is in it once, under an id of its own', (t) => {
  const rows = Object.values(description().paths).flatMap((row) => Object.values(row));
  t.equal(rows.length, DESCRIBED.length);
  t.equal(new Set(rows.map(({ operationId }) => operationId)).size, rows.length);
  for (const { path, input } of OPERATIONS.map((row) => ({ path: row.path, input: row.inputs({} as OperationServices) }))) {
    const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    t.strictSame(Object.keys(input.params?.shape ?? {}), named, path);
  }
  t.end();
});

/** What waits for a person is for approvers too (decision 10.1). */
function scopeOf(id: string, readOnly: boolean): string {
  if (id === 'management.describe') return 'none';
  if (id === 'mgmt.chat_users.list') return 'review';
  if (id === 'chat_users.bind') return 'decide';
  if (/^mgmt\.(?:approvals|quarantine)\./.test(id)) return readOnly ? 'review' : 'decide';
  return readOnly ? 'read' : 'write';
}

t.test('reading takes the scope read on the management API, changing takes write', (t) => {
  for (const { id, path, annotations, scope } of DESCRIBED.filter((row) => row.path.startsWith('/mgmt/v1/')))
    t.equal(scope, scopeOf(id, annotations.readOnly), `${id} ${path}`);
  t.end();
});

/** Who asks is not judged by a token: the caller of a call, and Slack, which signs. */
const FOR_OTHERS: ReadonlySet<string> = new Set(['actions.execute', 'chat.slack.decide', 'console.sign_in']);
/** What is asked is too long for a query, and nothing is changed. */
const ASKS_BY_BODY: ReadonlySet<string> = new Set(['prices.compare', 'mgmt.policies.check', 'mgmt.policies.test']);

t.test('what changes something or is kept from strangers says so', (t) => {
  for (const { id, method, scope, annotations } of DESCRIBED) {
    if (method === 'GET') t.ok(annotations.readOnly && annotations.idempotent && !annotations.destructive, id);
    else t.equal(annotations.readOnly, ASKS_BY_BODY.has(id), id);
    if (method !== 'GET')
      t.ok(['admin', 'write', 'decide', 'mcp', 'sign_in', 'session'].includes(scope) || FOR_OTHERS.has(id) || ASKS_BY_BODY.has(id), id);
  }
  t.end();
});

t.test('every recorded answer has the form that its operation promises', (t) => {
  const document = description();
  const { components } = closed({ components: document.components }) as Description;
  const check = judge(components);
  let judged = 0;
  for (const { request, status, headers, body } of recording) {
    const operation = operationFor(document, request);
    if (operation === undefined || status === 405) continue;
    const answer = operation.responses[status];
    t.ok(answer, `${request} promises ${status}`);
    const [type, media] = Object.entries(answer?.content ?? {})[0] ?? [];
    t.equal(headers['content-type'], type, request);
    if (type !== 'application/json' || media === undefined) continue;
    const value: unknown = JSON.parse(body.replaceAll('(ms)', '1'));
    t.equal(check(closed(media.schema) as object, value), '', `${request}: ${body.slice(0, 200)}`);
    judged += 1;
  }
  t.ok(judged > 150, `${judged} answers`);
  t.end();
});

t.test('a recorded body that was taken is one that the description permits', (t) => {
  const document = description();
  const check = judge(document.components);
  let judged = 0;
  for (const [at, { request, body }] of requests.entries()) {
    const schema = operationFor(document, request)?.requestBody?.content['application/json']?.schema;
    if (schema === undefined || body === undefined || (recording[at]?.status ?? 0) >= 300) continue;
    t.equal(check(schema, body), '', request);
    judged += 1;
  }
  t.ok(judged > 10, `${judged} bodies`);
  t.end();
});

t.test('anyone who reaches the port can read it, and it is made once', async (t) => {
  const gw = await startTestGateway(t, { env: { GW_METRICS_ENABLED: 'false' } });
  const answers = await Promise.all([0, 1].map(() => fetch(`${gw.url}/v1/openapi.json`)));
  t.strictSame(
    answers.map(({ status, headers }) => [status, headers.get('content-type')]),
    [
      [200, 'application/json'],
      [200, 'application/json'],
    ],
  );
  const [first, second] = await Promise.all(answers.map((answer) => answer.text()));
  t.equal(first, second);
  const served = JSON.parse(first ?? '') as Description;
  t.match(served, { openapi: '3.1.0', info: { version: /^\d/ } });
  t.notOk(served.paths['/metrics'], 'nor is there anything that is switched off');
  t.strictSame(
    Object.keys(served.paths).sort(),
    Object.keys(description().paths)
      .filter((path) => path !== '/metrics')
      .sort(),
  );
});
