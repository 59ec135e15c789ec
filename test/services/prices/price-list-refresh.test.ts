// The source that GW_PRICE_LIST names: a file that changes, an address that is asked, and what becomes of the list when
// neither can be had.
import { mkdirSync, renameSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type PriceListSource, readPriceListSource } from '../../../src/base/config/price-list-source.ts';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import type { GetAnswer, GetRequest } from '../../../src/outbound/destinations/way-out.ts';
import { ListSources } from '../../../src/services/prices/list-sources.ts';
import { PriceListRefresh } from '../../../src/services/prices/price-list-refresh.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { heardLog } from '../../support/heard-log.ts';
import { listOf, openListStore, openLists } from '../../support/price-lists.ts';
import { tempDir } from '../../support/temp-dir.ts';

const URL_TEXT = 'https://lists.example.com/data.json';
const HOUR = 3_600_000;
const costing = (rate: number): string => listOf({ m: { input_mtok: rate, output_mtok: 8 } });

type Answering = (request: GetRequest) => GetAnswer | Promise<GetAnswer>;

/** One node whose setting is `setting`, and a door that the test answers. */
async function open(t: Test, setting: string, answer: Answering = () => Promise.reject(new Error('nobody is asked'))) {
  const clock = fakeClock();
  const place = await openLists(await openListStore(t), { clock, setting });
  const { log, lines } = heardLog();
  const asked: GetRequest[] = [];
  const door = {
    get: async (request: GetRequest): Promise<GetAnswer> => {
      asked.push(request);
      return answer(request);
    },
  };
  const source = readPriceListSource(setting) as PriceListSource;
  const sources = new ListSources({ door, clock });
  const refresh = new PriceListRefresh({
    lists: place.lists,
    sources,
    clock,
    log,
    source,
    everyMs: 24 * HOUR,
    change: { ...place.change, by: 'n-1' },
  });
  t.teardown(() => refresh.close());
  /** Until something holds: what is under way comes to its end on the event loop. */
  const until = async (holds: () => boolean): Promise<void> => {
    while (!holds()) await new Promise((resolve) => setImmediate(resolve));
  };
  return { ...place, refresh, asked, lines, until };
}

function served(text: string, headers: Readonly<Record<string, string>> = {}, status = 200): GetAnswer {
  return { status, headers: new Map(Object.entries(headers)), body: Buffer.from(text) };
}

t.test('a file is read at the start, and when it is replaced or written over', async (t) => {
  const file = join(tempDir(t), 'prices.json');
  writeFileSync(file, costing(3));
  utimesSync(file, 0, Date.UTC(2026, 10, 1) / 1_000);
  const { refresh, cost, lists, clock, lines, until } = await open(t, file);
  await refresh.start();
  t.equal(cost(), '3 / 8', 'the start waits for it');
  t.match(lists.inForce, { kind: 'file', name: file, date: '2026-11-01', taken_by: 'n-1' });
  t.match(refresh.last, { outcome: 'taken', at: '2026-11-21T12:00:00.000Z' });

  writeFileSync(`${file}.tmp`, costing(4));
  renameSync(`${file}.tmp`, file);
  await until(() => clock.pending >= 2);
  clock.advance(200);
  await until(() => cost() === '4 / 8');
  writeFileSync(file, costing(5));
  // Not every change is announced, and each is found in half a minute.
  clock.advance(30_000);
  await until(() => cost() === '5 / 8');
  t.same(lines, []);
  t.equal(refresh.nextAt, undefined);
});

t.test('a file behind a link is the one that the link leads to', async (t) => {
  const folder = tempDir(t);
  for (const [name, rate] of [
    ['one', 3],
    ['two', 4],
  ] as const) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, 'prices.json'), costing(rate));
  }
  symlinkSync('one', join(folder, '..data'));
  symlinkSync(join('..data', 'prices.json'), join(folder, 'prices.json'));
  const { refresh, cost, clock, until } = await open(t, join(folder, 'prices.json'));
  await refresh.start();
  t.equal(cost(), '3 / 8');
  symlinkSync('two', join(folder, '..next'));
  renameSync(join(folder, '..next'), join(folder, '..data'));
  clock.advance(30_000);
  await until(() => cost() === '4 / 8');
});

t.test('a file that cannot be had or used leaves the last list in force, in one line', async (t) => {
  const file = join(tempDir(t), 'prices.json');
  const { refresh, cost, clock, lines, until, lists } = await open(t, file);
  await refresh.start();
  t.match(refresh.last, { outcome: 'failed', detail: /prices\.json could not be had; the one before stays in force: ENOENT/ });
  const looked = async (work: () => void): Promise<void> => {
    const before = refresh.last;
    work();
    clock.advance(30_000);
    await until(() => refresh.last !== before);
  };
  await looked(() => undefined);
  t.same(lines.length, 1, 'the same is not said again and again');
  await looked(() => writeFileSync(file, costing(3).slice(0, 50)));
  t.match(refresh.last, { outcome: 'refused', detail: /is no JSON/ });
  t.match(refresh.warnings(), [{ code: 'price_list_not_renewed', message: /is no JSON/ }]);
  await looked(() => writeFileSync(file, Buffer.from([0xff, 0xfe])));
  t.match(refresh.last, { outcome: 'failed', detail: /not UTF-8 text/ });
  await looked(() => writeFileSync(file, Buffer.alloc(16 * 1024 * 1024 + 1, 32)));
  t.match(refresh.last, { outcome: 'failed', detail: /is larger than 16777216 bytes/ });
  t.equal(cost(), '2 / 8');
  await looked(() => writeFileSync(file, costing(3)));
  t.equal(cost(), '3 / 8');
  t.same(refresh.warnings(), []);
  // At once: a look that is under way may come between two steps.
  mkdirSync(`${file}.folder`);
  symlinkSync(`${file}.folder`, `${file}.next`);
  await looked(() => renameSync(`${file}.next`, file));
  t.match(refresh.last, { outcome: 'failed', detail: /no regular file/ });
  t.equal(cost(), '3 / 8');
  t.same(lists.counts, { taken: 1, unchanged: 0, refused: 1, failed: 5 });
  for (const line of lines) t.match(line, /^warn: the price list was not renewed; that of 2026-\d\d-\d\d stays in force \| [^\n]+$/);
  t.equal(lines.length, 5);
});

t.test('a file that cannot be read is read when it can', async (t) => {
  const folder = tempDir(t);
  const file = join(folder, 'prices.json');
  // Nobody can read a link to itself; a mode of 0 would not keep the superuser out.
  symlinkSync(file, file);
  const { refresh, cost, clock, until } = await open(t, file);
  await refresh.start();
  t.match(refresh.last, { outcome: 'failed', detail: /ELOOP/ });
  writeFileSync(join(folder, 'new.json'), costing(3));
  renameSync(join(folder, 'new.json'), file);
  clock.advance(30_000);
  await until(() => cost() === '3 / 8');
});

t.test('an address is asked at the start without being waited for, and again from time to time', async (t) => {
  let rate = 3;
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const { refresh, cost, clock, asked, until, lists } = await open(t, `${URL_TEXT}?key=secret`, async ({ headers }) => {
    await held;
    const etag = `"${rate}"`;
    return headers.includes(etag) ? served('', {}, 304) : served(costing(rate), { etag, 'last-modified': 'Fri, 20 Nov 2026 08:00:00 GMT' });
  });
  await refresh.start();
  t.equal(cost(), '2 / 8', 'the start does not wait for it');
  release();
  await until(() => refresh.nextAt !== undefined);
  t.equal(cost(), '3 / 8');
  t.match(lists.inForce, { kind: 'address', name: URL_TEXT, date: '2026-11-20' }, 'people are not shown the query');
  t.match(asked[0], {
    to: { path: '/data.json?key=secret', tls: true, operatorOwn: false },
    maxBytes: 16 * 1024 * 1024,
    timeoutMs: 60_000,
  });
  t.equal(refresh.nextAt, clock.now() + 24 * HOUR);

  const next = async (): Promise<void> => {
    const before = refresh.nextAt;
    clock.advance(24 * HOUR);
    await until(() => refresh.nextAt !== before);
  };
  await next();
  t.match(asked[1]?.headers.join(' '), /if-none-match "3"/);
  t.match(refresh.last, { outcome: 'unchanged' });
  rate = 4;
  await next();
  t.equal(cost(), '4 / 8');
  t.same(lists.counts, { taken: 2, unchanged: 1, refused: 0, failed: 0 });
});

t.test('whatever an address does, the last list stays in force; it is asked again sooner, and said once', async (t) => {
  let answer: Answering = () => served(costing(3));
  const { refresh, cost, clock, lines, until } = await open(t, URL_TEXT, (request) => answer(request));
  await refresh.start();
  await until(() => refresh.nextAt !== undefined);
  t.equal(cost(), '3 / 8');
  const next = async (): Promise<number> => {
    const before = refresh.nextAt ?? 0;
    clock.advance(before - clock.now());
    await until(() => refresh.nextAt !== before);
    return (refresh.nextAt ?? 0) - clock.now();
  };
  const waits: number[] = [];
  for (const [given, why] of [
    [() => served('oops', {}, 500), /it answered HTTP 500/],
    [() => served('', { location: 'https://elsewhere/' }, 302), /it answered HTTP 302, and no redirect is followed/],
    [() => served('', {}, 304), /it answered HTTP 304, and no redirect/],
    [() => served('', {}, 204), /it answered HTTP 204/],
    [() => served('<html>sign in</html>', { 'content-type': 'text/html' }), /is no JSON/],
    [() => served(costing(4).slice(0, -9)), /is no JSON/],
    [() => served('zipped', { 'content-encoding': 'gzip' }), /in the encoding gzip/],
    [() => Promise.reject(new GatewayError('egress_denied', 'lists.example.com is a private address.')), /private address/],
    [() => Promise.reject(new GatewayError('upstream_timeout', 'It did not answer within 60 seconds.')), /within 60 seconds/],
    [() => Promise.reject(new GatewayError('upstream_protocol', 'It sent a longer answer than is taken.')), /longer answer/],
  ] as const) {
    answer = given;
    waits.push(await next());
    t.match(refresh.last, { detail: why });
    t.equal(cost(), '3 / 8', String(why));
  }
  t.equal(lines.length, 10);
  for (const line of lines) t.match(line, /^warn: the price list was not renewed; that of 2026-11-21 stays in force \| [^\n]+$/);
  t.ok((waits[0] ?? 0) <= 64_000 && (waits[0] ?? 0) > 50_000, 'about a minute');
  t.ok(waits.every((ms) => ms <= HOUR));
  t.ok((waits.at(-1) ?? 0) > 0.79 * HOUR, 'and at last an hour');
  for (let tries = 0; tries < 5; tries++) await next();
  t.equal(lines.length, 10, 'the same reason is not said again');
  for (let tries = 0; tries < 40; tries++) await next();
  t.ok(lines.length > 10 && lines.length < 14, 'but once a day');
  answer = () => served(costing(5));
  t.equal(await next(), 24 * HOUR, 'then all is as before');
  t.equal(cost(), '5 / 8');
  t.same(refresh.warnings(), []);
});

t.test('a list of an earlier day than the one in force is left where it is, and that is said once a day', async (t) => {
  const long = `"${'x'.repeat(300)}"`;
  const { refresh, cost, clock, lines, until, asked, change } = await open(t, URL_TEXT, () =>
    served(costing(3), { 'last-modified': 'Thu, 01 Jan 1970 00:00:00 GMT', etag: long }),
  );
  await refresh.start();
  await until(() => refresh.nextAt !== undefined);
  const before = refresh.nextAt;
  clock.advance(24 * HOUR);
  await until(() => refresh.nextAt !== before);
  t.match(refresh.last, { outcome: 'older', detail: 'it is of 1970-01-01, and the one in force of a later day' });
  t.equal(cost(), '2 / 8');
  t.match(lines, [/^warn: the price list was not renewed; that of 2026-09-23 stays in force \| it is of 1970-01-01/]);
  t.equal(lines.length, 2, 'once a day');
  t.same(refresh.warnings(), [], 'nobody has to do anything');
  t.match(await refresh.update(change), { outcome: 'taken' }, 'unless somebody wants it');
  t.notMatch(asked.at(-1)?.headers.join(' '), /if-none-match/);
  t.equal(cost(), '3 / 8');
});

t.test('somebody who asks gets what the source has, and is told why not', async (t) => {
  let text = costing(3);
  const { refresh, cost, change, until, asked, lines } = await open(t, URL_TEXT, () => served(text, { etag: '"a"' }));
  await refresh.start();
  await until(() => refresh.nextAt !== undefined);
  t.match(await refresh.compare(), { diff: { changed: [] } });
  text = costing(4);
  t.match(await refresh.compare(), { diff: { changed: [{ old: '3', new: '4' }] } });
  t.equal(cost(), '3 / 8', 'comparing changes nothing');
  t.match(await refresh.update(change), { outcome: 'taken' });
  t.notOk(asked.at(-1)?.headers.includes('if-none-match'), 'whoever asks wants all of it');
  t.equal(cost(), '4 / 8');
  text = 'no list';
  await t.rejects(refresh.update(change), { code: 'invalid_price_list' });
  t.match(refresh.last, { outcome: 'refused' });
  const other = readPriceListSource('https://other.example.com/x.json') as PriceListSource;
  text = costing(6);
  t.match(await refresh.update(change, other), { outcome: 'taken' });
  t.match(refresh.last, { outcome: 'refused' }, 'that was not the source of the setting');
  t.match(await refresh.update(change, readPriceListSource('shipped') as PriceListSource), { outcome: 'taken' });
  t.equal(cost(), '2 / 8');
  t.same(lines, [], 'whoever asks is answered, and needs no line');
});

// Holds: one-price-list-a-call
t.test('without an address or a file nothing is asked for, and nothing waits', async (t) => {
  const { refresh, asked, clock, change } = await open(t, 'shipped');
  await refresh.start();
  clock.advance(90 * 24 * HOUR);
  t.same([asked.length, clock.pending, refresh.last], [0, 0, undefined]);
  t.match(await refresh.update(change), { outcome: 'unchanged' });
  t.match(await refresh.compare(), { diff: { changed: [] } });
});

t.test('a stop waits for nothing that is asked, and nothing is asked behind it', async (t) => {
  const { refresh, asked, clock, lines } = await open(
    t,
    URL_TEXT,
    ({ signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(new GatewayError('shutting_down', 'The gateway is stopping.')));
      }),
  );
  await refresh.start();
  await refresh.close();
  clock.advance(48 * HOUR);
  t.same([asked.length, lines], [1, []]);
});

t.test('what GW_PRICE_LIST takes, and what people are shown of it', async (t) => {
  t.match(readPriceListSource('shipped'), { kind: 'shipped' });
  t.match(readPriceListSource('./a/../prices.json'), { kind: 'file', path: /^\/.*\/prices\.json$/ });
  t.match(readPriceListSource('https://u.example.com:8443/x?token=secret'), { kind: 'address', name: 'https://u.example.com:8443/x' });
  for (const text of ['shiped', '', 'http://example.com/x', 'ftp://example.com/x', 'https://user:pw@example.com/x', 'https://'])
    t.type(readPriceListSource(text), 'string', text);
});
