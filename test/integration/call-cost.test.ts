/*
 * What a warm call costs, per door, against the table call-cost.json: files that are entered, calls of our own
 * functions, bytes that are allocated. All three are counted and not timed, so they are the same on every machine,
 * however busy it is: what is added to the path of a request shows here first.
 *
 * `CALL_COST=write` with this test writes the table as it was counted. A figure that is larger than before needs a line
 * in the table's list `raised` that says why.
 */
import { writeFileSync } from 'node:fs';
import type { HeapProfiler } from 'node:inspector';
import { Session } from 'node:inspector/promises';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import t, { type Test } from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { projectFile } from '../packages/manifests.ts';
import { ALLOW_ALL, type Governed, startGoverned } from '../support/governed.ts';
import { connectPlain, connectThrough, h2Request, h2Session } from '../support/raw-clients.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

const TABLE = 'test/integration/call-cost.json';
/** The code under test, as V8 names its files. */
const SRC = '/build/src/';
const WARM_UP = 30;
/** Each is counted by itself. */
const COUNTED = 21;
/** Calls whose bytes are sampled, and the mean distance of two samples in bytes. */
const SAMPLED = 120;
const SAMPLING_BYTES = 2_048;
/**
 * The share by which two counts of one build may differ, part of the figures in the table: commits are written together
 * or one by one, and bytes are sampled.
 */
const MARGIN = { files: 0, calls: 0.02, bytes: 0.1 };
/** A figure in the table that is larger than what was counted by this share is to be lowered. */
const SLACK = { files: 0.1, calls: 0.1, bytes: 0.3 };

const HOST = 'api.openai.com';
const usage = { prompt_tokens: 212, completion_tokens: 50, total_tokens: 262, prompt_tokens_details: { cached_tokens: 12 } };
const messages = [{ role: 'user', content: 'Say something short about the weather.' }];
const chat = { model: 'gpt-4o-mini', max_tokens: 256, messages };
const streamedChat = { ...chat, stream: true, stream_options: { include_usage: true } };
const claude = { model: 'claude-sonnet-4-5', max_tokens: 256, messages };
const envelope = {
  schema: 'gw.action_request.v2',
  org_id: 'default',
  workload_id: 'default',
  credential_hint: 'sk-caller',
  action: { type: 'ai.infer', method: 'POST', target_host: HOST, params: chat },
};

const event = (data: object): string =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', model: 'gpt-4o-mini', ...data })}\n\n`;
/** Five events, as a provider sends them one after the other: the last ones come together. */
const PIECES = [
  ...Array.from({ length: 3 }, (_, at) => event({ choices: [{ index: 0, delta: { content: `word ${at} ` }, finish_reason: null }] })),
  `${event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}${event({ choices: [], usage })}data: [DONE]\n\n`,
];
const whole: Readonly<Record<string, object>> = {
  '/v1/chat/completions': {
    id: 'c',
    object: 'chat.completion',
    model: 'gpt-4o-mini-2024-07-18',
    choices: [{ index: 0, message: { role: 'assistant', content: 'word '.repeat(140) }, finish_reason: 'stop' }],
    usage,
  },
  '/v1/messages': {
    id: 'm',
    type: 'message',
    model: 'claude-sonnet-4-5-20250929',
    content: [{ type: 'text', text: 'word '.repeat(140) }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 30, cache_read_input_tokens: 300, cache_creation_input_tokens: 0, output_tokens: 50 },
  },
};

/**
 * Sends the next piece of the stream: called when the client has the one before it, so that every run sees the same
 * pieces.
 */
let nextPiece: () => void = () => undefined;

const handler: UpstreamHandler = (request, response, body) =>
  void body.then((bytes) => {
    if (!bytes.includes('"stream":true')) {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(whole[request.url ?? '']));
      return;
    }
    response.setHeader('content-type', 'text/event-stream');
    let at = 0;
    nextPiece = () => {
      const piece = PIECES[at];
      at += 1;
      if (at < PIECES.length) response.write(piece);
      else if (at === PIECES.length) response.end(piece);
    };
    nextPiece();
  });

/** One request on an HTTP/1.1 connection that stays open. */
async function exchange(socket: Socket, host: string, path: string, body: object): Promise<void> {
  const text = JSON.stringify(body);
  const head = [
    `POST ${path} HTTP/1.1`,
    `Host: ${host}`,
    'Authorization: Bearer k',
    'x-api-key: k',
    'Content-Type: application/json',
    'Accept: */*',
    'User-Agent: test/1',
    `Content-Length: ${Buffer.byteLength(text)}`,
  ];
  let came = '';
  let words = 1;
  await new Promise<void>((resolve, reject) => {
    const onData = (chunk: Buffer): void => {
      came += chunk.toString('latin1');
      for (; came.split('word ').length > words && words < PIECES.length; words += 1) nextPiece();
      if (isWhole(came)) settle(resolve);
    };
    const onClose = (): void => settle(() => reject(new Error(`the connection ended after ${came}`)));
    const settle = (end: () => void): void => {
      socket.off('data', onData).off('close', onClose);
      end();
    };
    socket.on('data', onData).on('close', onClose);
    socket.write(`${head.join('\r\n')}\r\n\r\n${text}`);
  });
  if (!came.startsWith('HTTP/1.1 200 ')) throw new Error(came);
}

function isWhole(came: string): boolean {
  const end = came.indexOf('\r\n\r\n');
  if (end === -1) return false;
  const length = /\r\ncontent-length: (\d+)/i.exec(came.slice(0, end))?.[1];
  return length === undefined ? came.endsWith('0\r\n\r\n') : came.length >= end + 4 + Number(length);
}

type Place = () => Promise<void>;

/** One door and one kind of call each; the calls of a door share a connection that is open and warm. */
const DOORS: Readonly<Record<string, (governed: Governed) => Promise<Place>>> = {
  'CONNECT h1, plain': (governed) => inTunnel(governed, HOST, '/v1/chat/completions', chat),
  'CONNECT h1, stream of five events': (governed) => inTunnel(governed, HOST, '/v1/chat/completions', streamedChat),
  'CONNECT h1, plain, Anthropic': (governed) => inTunnel(governed, 'api.anthropic.com', '/v1/messages', claude),
  'CONNECT h2, plain': async ({ gw }) => {
    const session = h2Session(await connectThrough(gw.port, `${HOST}:443`, gw.caPem, { alpn: ['h2'] }), HOST);
    const headers = ['authorization', 'Bearer k', 'content-type', 'application/json', 'accept', '*/*', 'user-agent', 'test/1'];
    return async () => {
      const { status, body } = await h2Request(session, {
        method: 'POST',
        path: '/v1/chat/completions',
        headers,
        body: JSON.stringify(chat),
      });
      if (status !== 200) throw new Error(body.toString());
    };
  },
  'base URL, plain': (governed) => onPort(governed, '/proxy/openai/v1/chat/completions', chat),
  'base URL, stream of five events': (governed) => onPort(governed, '/proxy/openai/v1/chat/completions', streamedChat),
  'POST /v1/actions:execute': (governed) => onPort(governed, '/v1/actions:execute', envelope),
};

async function inTunnel({ gw }: Governed, host: string, path: string, body: object): Promise<Place> {
  const socket = await connectThrough(gw.port, `${host}:443`, gw.caPem);
  return () => exchange(socket, host, path, body);
}

async function onPort({ gw }: Governed, path: string, body: object): Promise<Place> {
  const socket = await connectPlain(gw.port);
  return () => exchange(socket, `127.0.0.1:${gw.port}`, path, body);
}

/** Calls of functions of the gateway, by file and function. */
type Calls = ReadonlyMap<string, ReadonlyMap<string, number>>;

/** Calls since the last time that this was asked. */
async function counted(session: Session): Promise<Calls> {
  const { result } = await session.post('Profiler.takePreciseCoverage');
  const files = new Map<string, Map<string, number>>();
  for (const { url, functions } of result) {
    const at = url.indexOf(SRC);
    if (at === -1) continue;
    const calls = new Map<string, number>();
    for (const { functionName, ranges } of functions) {
      const count = ranges[0]?.count ?? 0;
      if (count > 0) calls.set(functionName, (calls.get(functionName) ?? 0) + count);
    }
    if (calls.size > 0) files.set(url.slice(at + SRC.length).replace(/\.js$/, '.ts'), calls);
  }
  return files;
}

const sum = (numbers: Iterable<number>): number => [...numbers].reduce((all, one) => all + one, 0);
const callsOf = (files: Calls): number => sum([...files.values()].map((calls) => sum(calls.values())));

/**
 * How often a call enters each function of the gateway: the median of all calls that were counted, which leaves out the
 * timers that are due now and then.
 */
async function callsPerCall(session: Session, place: Place): Promise<Calls> {
  const all: Calls[] = [];
  await counted(session);
  for (let at = 0; at < COUNTED; at += 1) {
    await place();
    all.push(await counted(session));
  }
  const usual = new Map<string, Map<string, number>>();
  for (const file of new Set(all.flatMap((one) => [...one.keys()]))) {
    const names = new Set(all.flatMap((one) => [...(one.get(file)?.keys() ?? [])]));
    const calls = [...names].map((name) => [name, middle(all.map((one) => one.get(file)?.get(name) ?? 0))] as const);
    const called = calls.filter(([, count]) => count > 0);
    if (called.length > 0) usual.set(file, new Map(called));
  }
  return usual;
}

function middle(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? 0;
}

/** Bytes that one call allocates in functions of the gateway and in what these call. */
async function bytesPerCall(session: Session, place: Place): Promise<number> {
  await session.post('HeapProfiler.startSampling', {
    samplingInterval: SAMPLING_BYTES,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  });
  for (let at = 0; at < SAMPLED; at += 1) await place();
  const { profile } = await session.post('HeapProfiler.stopSampling');
  return Math.round(bytesUnder(profile.head, false) / SAMPLED);
}

function bytesUnder({ callFrame, selfSize, children }: HeapProfiler.SamplingHeapProfileNode, below: boolean): number {
  const isOurs = below || callFrame.url.includes(SRC);
  return (isOurs ? selfSize : 0) + sum(children.map((child) => bytesUnder(child, isOurs)));
}

const FIGURES = ['files', 'calls', 'bytes'] as const;
type Cost = Readonly<Record<(typeof FIGURES)[number], number>>;

interface Measured {
  readonly door: string;
  readonly calls: Calls;
  readonly bytes: number;
}

const costOf = (calls: Calls, bytes: number): Cost => ({ files: calls.size, calls: callsOf(calls), bytes });

interface Table {
  /** At most. */
  readonly doors: Readonly<Record<string, Cost>>;
  /** Which figure was raised, and why. */
  readonly raised: readonly string[];
  /** Calls of the functions of each file, one number for each door. */
  readonly files: Readonly<Record<string, readonly number[]>>;
}

/** Files whose functions were called more often than the table says, with their functions. */
function grown(calls: Calls, { files, doors }: Table, door: string): string {
  const at = Object.keys(doors).indexOf(door);
  return [...calls]
    .map(([file, functions]) => ({ file, functions, before: files[file]?.[at] ?? 0, now: sum(functions.values()) }))
    .filter(({ before, now }) => now > before)
    .sort((a, b) => b.now - b.before - (a.now - a.before))
    .map(({ file, functions, before, now }) => {
      const named = [...functions].sort(([, a], [, b]) => b - a).map(([name, count]) => `${name || '(anonymous)'} ${count}`);
      return `${file}: ${before} → ${now} (${named.join(', ')})`;
    })
    .join('\n');
}

function writeTable(raised: readonly string[], measured: readonly Measured[]): void {
  const lines = (rows: readonly string[]): string => rows.map((row) => `\n    ${row}`).join(',');
  const doors = measured.map(({ door, calls, bytes }) => {
    const cost = costOf(calls, bytes);
    const figures = FIGURES.map((figure) => `"${figure}": ${Math.ceil(cost[figure] * (1 + MARGIN[figure]))}`);
    return `${JSON.stringify(door)}: { ${figures.join(', ')} }`;
  });
  const names = [...new Set(measured.flatMap(({ calls }) => [...calls.keys()]))].toSorted();
  const files = names.map((name) => {
    const numbers = measured.map(({ calls }) => sum(calls.get(name)?.values() ?? []));
    return `${JSON.stringify(name)}: [${numbers.join(', ')}]`;
  });
  const reasons = raised.length === 0 ? '[]' : `[${lines(raised.map((reason) => JSON.stringify(reason)))}\n  ]`;
  const text = `{\n  "doors": {${lines(doors)}\n  },\n  "raised": ${reasons},\n  "files": {${lines(files)}\n  }\n}\n`;
  writeFileSync(join(packageRoot(), TABLE), text);
}

t.test('a warm call costs no more than the table says', async (t) => {
  // Optimized code allocates less than its source says; how much less depends on what was optimized by then.
  setFlagsFromString('--no-opt');
  const governed = await startGoverned(t, { handler, bundle: ALLOW_ALL });
  const session = new Session();
  session.connect();
  t.teardown(() => session.disconnect());
  await session.post('Profiler.enable');
  const table = JSON.parse(projectFile(TABLE)) as Table;
  const measured: Measured[] = [];
  for (const [door, open] of Object.entries(DOORS)) {
    const place = await open(governed);
    for (let at = 0; at < WARM_UP; at += 1) await place();
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
    const calls = await callsPerCall(session, place);
    await session.post('Profiler.stopPreciseCoverage');
    const bytes = await bytesPerCall(session, place);
    measured.push({ door, calls, bytes });
  }
  if (process.env['CALL_COST'] === 'write') writeTable(table.raised, measured);
  else for (const one of measured) judge(t, one, table);
});

function judge(t: Test, { door, calls, bytes }: Measured, table: Table): void {
  const cost = costOf(calls, bytes);
  const most = table.doors[door] ?? { files: 0, calls: 0, bytes: 0 };
  for (const figure of FIGURES) {
    const of = `${door}: ${cost[figure]} ${figure} of ${most[figure]}`;
    if (cost[figure] > most[figure]) t.comment(grown(calls, table, door));
    t.ok(cost[figure] <= most[figure], of);
    t.ok(cost[figure] >= most[figure] * (1 - SLACK[figure]), `${of}, and the table says no more than is needed`);
  }
}
