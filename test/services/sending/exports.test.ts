// Exports beside a receiver that takes nothing: what is held in memory, how far behind it is, and what is counted when
// records go.
import t from 'tap';
import { EventBus } from '../../../src/base/events/bus.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { SecretBox } from '../../../src/base/lib/secret-box.ts';
import { readWebAddress } from '../../../src/base/lib/web-address.ts';
import type { PostAnswer, PostRequest, WayOut } from '../../../src/outbound/destinations/way-out.ts';
import { ExportService } from '../../../src/services/sending/exports/export-service.ts';
import { Outbox } from '../../../src/services/sending/outbox.ts';
import type { RecordQuery } from '../../../src/storage/contract/record-query.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';
import { testRecord } from '../../support/test-record.ts';

const RECORDS = 1_200;

/** A service with one destination for everything; posts wait until they are answered. */
async function scene(t: HasTeardown) {
  const clock = fakeClock();
  const opened = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock, log: silentLogger });
  const asked: RecordQuery[] = [];
  const gone = { is: false };
  const store: Store = new Proxy(opened, {
    get: (target, name: keyof Store) => {
      if (name === 'records')
        return (query: RecordQuery) => {
          asked.push(query);
          return gone.is ? Promise.resolve([]) : target.records(query);
        };
      const value: unknown = target[name];
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  const posts: { readonly body: string; answer(answer: PostAnswer): void }[] = [];
  const bell = { ring: (): void => undefined };
  const door: WayOut = {
    post: ({ body, signal }: PostRequest) =>
      new Promise((resolve, reject) => {
        signal.addEventListener('abort', () => reject(new Error('the gateway stops')));
        posts.push({ body: typeof body === 'string' ? body : Buffer.from(body).toString(), answer: resolve });
        bell.ring();
      }),
    connect: () => Promise.reject(new Error('no')),
    datagrams: () => Promise.reject(new Error('no')),
  };
  const events = new EventBus(silentLogger);
  const outbox = await Outbox.open({ store, clock, log: silentLogger, writer: 'node-1' });
  const to = readWebAddress('https://siem.example.com/', () => false);
  if (typeof to === 'string') throw new Error(to);
  const exports = await ExportService.open({
    store,
    clock,
    log: silentLogger,
    box: new SecretBox([Buffer.alloc(32, 1)]),
    outbox,
    events,
    door,
    mayBePlain: () => false,
    nodeId: 'node-1',
    inherits: true,
    configured: [{ id: 'setting-webhook', target: { kind: 'webhook', to } }],
  });
  outbox.start();
  t.teardown(async () => {
    await exports.close();
    await outbox.close();
    await opened.close();
  });
  const until = async (reached: () => boolean): Promise<void> => {
    while (!reached()) {
      await new Promise<void>((resolve) => {
        bell.ring = resolve;
      });
    }
  };
  let made = 0;
  const record = async (count: number): Promise<void> => {
    for (const end = made + count; made < end; made += 1) {
      const at = new Date(clock.now()).toISOString();
      const one = testRecord({
        record_id: `record-${made}`,
        record_hash: made.toString(16).padStart(64, '0'),
        created_at: at,
        completed_at: at,
      });
      const text = JSON.stringify(one);
      await store.commit({ record_id: one.record_id, record_hash: one.record_hash, text, committed_at: clock.now() }, []);
      events.emit('execution', { record: one, durationMs: 1 });
    }
  };
  return { clock, exports, asked, posts, gone, until, record };
}

// Holds: dead-receivers-hold-nothing
t.test('however many records a dead receiver lets wait, eight posts and one page of them are in memory', async (t) => {
  const { clock, exports, asked, posts, until, record } = await scene(t);
  await record(100);
  clock.advance(200);
  await until(() => posts.length === 8);
  const pages = asked.length;
  await record(RECORDS - 100);
  clock.advance(10_000);
  t.equal(posts.length, 8, 'eight are under way, whatever comes');
  t.equal(asked.length, pages, 'and nothing more is read');
  t.same(exports.lags(), [['setting-webhook', 10.2]]);
  // It comes back: all of them arrive, in pages of a hundred.
  const arrived = new Set<string>();
  for (let at = 0; arrived.size < RECORDS; at += 1) {
    await until(() => posts.length > at);
    const post = posts[at];
    arrived.add((JSON.parse(post?.body ?? '{}') as { payload: { record_id: string } }).payload.record_id);
    post?.answer({ status: 204, headers: new Map(), body: '' });
  }
  t.ok(asked.every(({ limit }) => limit <= 100));
  while ((exports.lags()[0]?.[1] ?? 0) > 0) await new Promise(setImmediate);
  t.match(exports.counts.rows(), [['setting-webhook', 'delivered', RECORDS]]);
});

t.test('records that are removed for their age before a receiver had them are counted as dropped', async (t) => {
  const { clock, exports, posts, gone, until, record } = await scene(t);
  await record(700);
  clock.advance(200);
  await until(() => posts.length === 8);
  clock.advance(1_000);
  const remove = async (): Promise<number> => {
    gone.is = true;
    return 700;
  };
  t.equal(await exports.countingUnsent(clock.now() - 2_000, remove), 700);
  t.same(exports.counts.drops(), [], 'what is younger is not gone');
  gone.is = false;
  t.equal(await exports.countingUnsent(clock.now(), remove), 700);
  t.same(
    exports.counts.drops().filter(([, , count]) => count > 0),
    [['setting-webhook', 'retention', 700]],
  );
});
