// Batches, tries and bounds of the export of spans, with a receiver that answers what it is told to.
import t from 'tap';
import type { TracedCall } from '../../../src/base/events/traced-call.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import type { PostAnswer, PostRequest } from '../../../src/outbound/destinations/way-out.ts';
import { TraceExport } from '../../../src/services/sending/traces/trace-export.ts';
import { Tracer } from '../../../src/services/sending/traces/tracer.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { spansIn } from '../../support/traced.ts';

const ENVELOPE = '{"resourceSpans":[{"scopeSpans":[{"spans":[';
const tracer = new Tracer({ parentBased: true, ratio: 1 });

function denied(): TracedCall {
  const trace = tracer.begin(undefined, undefined);
  if (trace.own === undefined) throw new Error('it is traced');
  const head = { door: 'origin', method: 'POST', secure: false, httpVersion: '1.1', startedAt: 0 } as TracedCall['head'];
  return {
    trace,
    own: trace.own,
    head,
    recordId: 'r',
    requestId: 'q',
    connectionType: 'sdk_redirect',
    trafficClass: 'developer',
    callerIp: '127.0.0.1',
    endedAt: 5,
    record: undefined,
    failure: { code: 'body_too_large', status: 413, unstored: false },
    replayed: false,
    upstream: undefined,
  };
}

interface Answer {
  readonly status: number;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

function scene(answers: (Answer | Error | 'none')[]) {
  const clock = fakeClock();
  const posts: string[] = [];
  const waits: number[] = [];
  let wake: () => void = () => undefined;
  const told = (): void => wake();
  const heard = {
    ...clock,
    advance: clock.advance,
    after: (ms: number, callback: () => void) => {
      waits.push(ms);
      queueMicrotask(told);
      return clock.after(ms, callback);
    },
  };
  const post = ({ body, signal }: PostRequest): Promise<PostAnswer> => {
    posts.push(Buffer.from(body).toString());
    queueMicrotask(told);
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    if (answer instanceof Error) return Promise.reject(answer);
    if (signal.aborted) return Promise.reject(new Error('stopped'));
    if (answer === undefined || answer === 'none')
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))));
    return Promise.resolve({ status: answer.status, headers: new Map(Object.entries(answer.headers ?? {})), body: answer.body ?? '' });
  };
  const to = { authority: { host: 'otel.example.com', port: 4318 }, tls: false, path: '/v1/traces', operatorOwn: true };
  const receiver = { to, headers: [], timeoutMs: 10_000, gzip: false };
  const exporter = new TraceExport({ clock: heard, log: silentLogger, door: { post }, receiver, envelope: ENVELOPE });
  const until = async (reached: () => boolean): Promise<void> => {
    while (!reached()) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
  return { clock, posts, waits, exporter, until, take: () => exporter.events.traced?.(denied()) };
}

t.test('a batch is tried again when the receiver says so, at the moment it says, and then counted', async (t) => {
  const { clock, posts, waits, exporter, until, take } = scene([
    { status: 503, headers: { 'retry-after': '7' } },
    new Error('gone'),
    { status: 200 },
  ]);
  take();
  clock.advance(1_000);
  await until(() => waits.includes(7_000));
  clock.advance(6_999);
  t.equal(posts.length, 1);
  clock.advance(1);
  await until(() => posts.length === 2 && waits.length === 3);
  t.ok((waits.at(-1) ?? 0) > 1_500 && (waits.at(-1) ?? 0) <= 2_000, 'twice as long where it says nothing');
  clock.advance(2_000);
  await until(() => posts.length === 3);
  await exporter.close();
  t.equal(new Set(posts).size, 1, 'the same batch');
  t.same(exporter.counts, { exported: 1, rejected: 0, failed: 0, dropped: 0 });
});

t.test('what is refused for good, or too often, has failed; what is rejected of a batch is told apart', async (t) => {
  const refused = scene([{ status: 400 }]);
  refused.take();
  await refused.exporter.close();
  t.same([refused.posts.length, refused.exporter.counts.failed], [1, 1]);
  const partial = scene([{ status: 200, body: '{"partialSuccess":{"rejectedSpans":"1","errorMessage":"no"}}' }]);
  partial.take();
  partial.take();
  await partial.exporter.close();
  t.match(partial.exporter.counts, { exported: 1, rejected: 1 });
  const busy = scene([{ status: 429 }]);
  busy.take();
  busy.clock.advance(1_000);
  for (let tries = 1; tries < 5; tries += 1) {
    await busy.until(() => busy.posts.length === tries && busy.waits.length === tries + 1);
    busy.clock.advance(60_000);
  }
  await busy.until(() => busy.posts.length === 5);
  await busy.exporter.close();
  t.same([busy.posts.length, busy.exporter.counts.failed], [5, 1]);
});

t.test('a full batch leaves at once, a batch has its bounds, and a receiver that hangs costs spans and no memory', async (t) => {
  const { clock, posts, exporter, until, take } = scene(['none']);
  for (let at = 0; at < 512; at += 1) take();
  await until(() => posts.length === 1);
  t.equal(spansIn(posts[0] ?? '').length, 512);
  for (let at = 0; at < 8_192 + 10; at += 1) take();
  t.equal(exporter.counts.dropped, 10);
  const closed = exporter.close();
  clock.advance(5_000);
  await closed;
  t.same(exporter.counts, { exported: 0, rejected: 0, failed: 512 + 8_192, dropped: 10 }, 'the end waits five seconds and no longer');
});

t.test('the end sends what waits', async (t) => {
  const { posts, exporter, take } = scene([{ status: 200 }]);
  for (let at = 0; at < 700; at += 1) take();
  await exporter.close();
  t.same(
    posts.map((text) => spansIn(text).length),
    [512, 188],
  );
  t.equal(exporter.counts.exported, 700);
  take();
  t.equal(exporter.counts.dropped, 1, 'nothing is kept behind it');
});
