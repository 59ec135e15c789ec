/*
 * What the gateway's own routes answer, byte for byte, as it was recorded: whoever moves or rewrites a route sees what
 * a client would see. `npm run record` (`RECORD_ANSWERS=1` for this file alone) writes the recording again; read its
 * difference before it is kept.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { ALLOW_ALL, chat, startGoverned } from '../support/governed.ts';
import { connectPlain, h1Request } from '../support/raw-clients.ts';

interface Step {
  /** `METHOD PATH` */
  readonly request: string;
  readonly body?: unknown;
  /** Sent as it is, in the place of `body`. */
  readonly text?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Without the admin token. */
  readonly stranger?: true;
}

interface Recorded {
  readonly request: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const folder = join(packageRoot(), 'test', 'cases', 'operations');
const recordingFile = join(folder, 'recording.json');
const steps = JSON.parse(readFileSync(join(folder, 'requests.json'), 'utf8')) as readonly Step[];
/** Of an answer's head, what a route decides. */
const KEPT_HEADERS = ['content-type', 'allow', 'cache-control', 'retry-after', 'x-content-type-options', 'www-authenticate'];
/** What is made anew in each run, and a word for it. */
const MADE_ANEW: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN CERTIFICATE-----[\s\S]*-----END CERTIFICATE-----/g, '(certificates)'],
  [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '(uuid)'],
  [/"version":"\d+\.\d+\.\d+"/g, '"version":"(version)"'],
  [/gwt_[\w-]{20,}/g, '(token)'],
  [/gwk_[\w-]{8,}/g, '(key)'],
  [/(?:mgk|mcpk)_[\w-]{8,}/g, '(management key)'],
  [/"[0-9a-f]{64}"/g, '"(sha256)"'],
  // The price list of the package is renewed now and then.
  [
    /"date":"\d{4}-\d\d-\d\d","sha256":"\(sha256\)","providers":\d+,"models":\d+/g,
    '"date":"(day)","sha256":"(sha256)","providers":0,"models":0',
  ],
  [/"age_days":\d+/g, '"age_days":0'],
  [/"latency_ms":[\d.]+/g, '"latency_ms":(ms)'],
  [/"upstream_latency_ms":[\d.]+/g, '"upstream_latency_ms":(ms)'],
  [/#code=[\w-]{43}/g, '#code=(code)'],
  [/127\.0\.0\.1:\d+/g, '127.0.0.1:(port)'],
];

t.test('every route answers as it was recorded', async (t) => {
  const { gw, send, execute } = await startGoverned(t, {
    clock: fakeClock(),
    bundle: ALLOW_ALL,
    env: { GW_NODE_ID: 'node-of-the-recording' },
  });
  const called = await send(chat(['X-GW-Workload-ID', 'default', 'X-GW-Project-ID', 'p-1']));
  await execute({ idempotency_key: 'k-1' });
  const record = await gw.record(called.headers['x-gw-record-id'] ?? '');
  const ids = new Map<string, string>([
    ['{record_id}', String(record['record_id'])],
    ['{record_hash}', String(record['record_hash'])],
  ]);
  const answers: Recorded[] = [];
  for (const { request, body, text, headers = {}, stranger } of steps) {
    const [method = '', path = ''] = request.replace(/\{\w+\}/g, (name) => ids.get(name) ?? name).split(' ');
    const sent = text ?? (body === undefined ? '' : JSON.stringify(body));
    const socket = await connectPlain(gw.port);
    const answer = await h1Request(socket, '127.0.0.1', {
      method,
      path,
      headers: [
        ...(stranger ? [] : ['GW-Admin-Token', ADMIN_TOKEN]),
        ...Object.entries(headers).flat(),
        ...(sent === '' ? [] : ['Content-Type', 'application/json']),
      ],
      ...(sent === '' ? {} : { body: sent.replaceAll('{allow_all}', JSON.stringify(ALLOW_ALL).slice(1, -1)) }),
    });
    socket.destroy();
    const made = /"limit_id":"([0-9a-f-]{36})"/.exec(String(answer.body))?.[1];
    if (made !== undefined) ids.set('{limit_id}', made);
    const key = /"id":"([0-9a-f-]{36})".*"key":/.exec(String(answer.body))?.[1];
    if (key !== undefined) ids.set(path.includes('mgmt-keys') ? '{mgmt_key_id}' : '{api_key_id}', key);
    const kept = KEPT_HEADERS.flatMap((name) =>
      answer.headers[name] === undefined ? [] : [[name, String(answer.headers[name])] as const],
    );
    answers.push({ request, status: answer.status, headers: Object.fromEntries(kept), body: recordable(String(answer.body)) });
  }
  if (process.env['RECORD_ANSWERS'] === '1') writeFileSync(recordingFile, `${JSON.stringify(answers, null, 2)}\n`);
  const recording = JSON.parse(readFileSync(recordingFile, 'utf8')) as readonly Recorded[];
  t.equal(answers.length, recording.length);
  for (const [at, answer] of answers.entries())
    t.strictSame(answer, recording[at], `${at}: ${answer.request}; if it is to change: npm run record`);
});

function recordable(text: string): string {
  return MADE_ANEW.reduce((made, [pattern, word]) => made.replace(pattern, word), text);
}

t.test('the recording asks every route', async (t) => {
  const listed = readFileSync(join(packageRoot(), 'docs', 'reference', 'operations.md'), 'utf8');
  const routes = [...listed.matchAll(/^\| `(\w+) ([^`]+)` \|/gm)].map(([, method, path]) => ({
    name: `${method} ${path}`,
    pattern: patternOf(`${method} ${path}`),
  }));
  t.ok(routes.length > 30);
  const unasked = routes.filter(
    ({ name, pattern }) => !UNRECORDED.has(name) && !name.includes(' /mgmt/v1/') && !steps.some(({ request }) => pattern.test(request)),
  );
  t.strictSame(
    unasked.map(({ name }) => name),
    [],
    'add a request for it to test/cases/operations/requests.json, then npm run record',
  );
});

/**
 * Answers that other tests look at: they have no fixed text, or that of another table. The management API takes other
 * keys: its examples are replayed instead.
 */
const UNRECORDED: ReadonlySet<string> = new Set([
  'GET /metrics',
  'GET /v1/openapi.json',
  'POST /mcp',
  'DELETE /mcp',
  'GET /approvals/{id}',
  'GET /chat-users/{id}',
  'GET /console/',
  'GET /console/{page}',
]);

function patternOf(route: string): RegExp {
  return new RegExp(`^${route.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{\w+\}/g, '[^/?]+')}(?:\\?.*)?$`);
}
