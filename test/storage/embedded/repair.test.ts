import { appendFileSync, cpSync, existsSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import { silentLogger } from '../../../src/base/lib/log.ts';
import type { Store } from '../../../src/storage/contract/store.ts';
import { checkJournal, type JournalFinding } from '../../../src/storage/embedded/check-journal.ts';
import { type RepairReport, repairJournal } from '../../../src/storage/embedded/repair-journal.ts';
import { segmentFileName } from '../../../src/storage/embedded/segment-header.ts';
import { makeRecord, type Tap, turns, until } from '../../contract/store-under-test.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { StoreRig } from './store-rig.ts';

const COMMITS = 60;
const PAD = { pad: 500 };

function file(dir: string, segment: number): string {
  return join(dir, 'journal', segmentFileName(segment));
}

async function findings(dir: string): Promise<JournalFinding[]> {
  const found: JournalFinding[] = [];
  for await (const finding of checkJournal(dir)) found.push(finding);
  return found;
}

/** Numbers of the records whose frames are whole, by another way than the repair's. */
async function whole(dir: string): Promise<number[]> {
  return (await findings(dir)).flatMap((finding) => (finding.kind === 'record' ? [(JSON.parse(finding.text) as { n: number }).n] : []));
}

interface Scene {
  readonly rig: StoreRig;
  /** As a stop leaves it: the index has read everything. */
  readonly stopped: string;
  /** As the death of the process leaves it: the index has read about half. */
  readonly killed: string;
  readonly segments: number;
}

async function scene(t: Tap): Promise<Scene> {
  const rig = new StoreRig(t, { fsync: 1_000 });
  const store = await rig.open();
  for (let n = 1; n <= COMMITS; n += 1) {
    await store.commit(makeRecord(n, PAD), [
      { op: 'add', space: 'c', key: 'all', amounts: { n: 1n, sum: BigInt(n) } },
      { op: 'add', space: 'c', key: `mod${n % 7}`, amounts: { n: 1n } },
      { op: 'put', space: 'e', key: `k${n}`, value: n },
    ]);
    if (n === COMMITS / 2) {
      rig.clock.advance(1_000);
      await until(() => rig.files.syncs > 0);
      await turns(50);
    }
  }
  const killed = rig.snapshot('killed');
  await store.close();
  const stopped = rig.snapshot('stopped');
  return { rig, killed, stopped, segments: readdirSync(join(stopped, 'journal')).length };
}

function repair(dir: string, options: { dryRun?: boolean; rebuildIndex?: boolean } = {}, rig?: StoreRig): Promise<RepairReport> {
  return repairJournal({
    dir,
    clock: rig?.clock ?? fakeClock(),
    log: silentLogger,
    dryRun: false,
    rebuildIndex: false,
    ...options,
  });
}

/** Every counter as the records in `of` make it. */
async function countersAre(t: Tap, store: Store, of: readonly number[], what: string): Promise<void> {
  const sum = (numbers: readonly number[]): bigint => numbers.reduce((total, n) => total + BigInt(n), 0n);
  t.same(await store.counter('c', 'all'), { n: BigInt(of.length), sum: sum(of) }, what);
  for (let rest = 0; rest < 7; rest += 1) {
    const count = BigInt(of.filter((n) => n % 7 === rest).length);
    t.same((await store.counter('c', `mod${rest}`))['n'] ?? 0n, count, what);
  }
}

/** Everything there is about the records that are left, and nothing of the others. */
async function recordsAre(t: Tap, store: Store, left: readonly number[], what: string): Promise<void> {
  const texts = (await store.records({ limit: 1_000 })).map(({ text }) => (JSON.parse(text) as { n: number }).n);
  t.same(texts, left, `${what}: in order`);
  t.same(
    (await store.records({ limit: 1_000, newestFirst: true })).map(({ text }) => (JSON.parse(text) as { n: number }).n),
    [...left].reverse(),
    `${what}: backwards`,
  );
  const kept = new Set(left);
  for (let n = 1; n <= COMMITS; n += 1) {
    const { record_id: id, record_hash: hash, text } = makeRecord(n, PAD);
    const expected = kept.has(n) ? text : undefined;
    if ((await store.recordById(id))?.text !== expected) t.fail(`${what}: record ${n} by id`);
    if ((await store.recordByHash(hash))?.text !== expected) t.fail(`${what}: record ${n} by hash`);
  }
}

type Damage = (dir: string, segments: number) => void;

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes.writeUInt8(bytes.readUInt8(at) ^ 0x10, at);
  writeFileSync(path, bytes);
}

function zero(path: string, from: number, to: number): void {
  const bytes = readFileSync(path);
  bytes.fill(0, from, Math.min(to, bytes.length));
  writeFileSync(path, bytes);
}

const DAMAGES: Readonly<Record<string, Damage>> = {
  'a bit in a closed segment': (dir) => flip(file(dir, 2), 5_000),
  'a bit in the last segment': (dir, last) => flip(file(dir, last), 800),
  'a bit in two segments': (dir, last) => {
    flip(file(dir, 1), 9_000);
    flip(file(dir, last), 60);
  },
  'a zeroed block in a closed segment': (dir) => zero(file(dir, 3), 4_096, 8_192),
  'a zeroed block at the beginning of a closed segment': (dir) => zero(file(dir, 2), 0, 4_096),
  'a zeroed block at the beginning of the last segment': (dir, last) => zero(file(dir, last), 0, 700),
  'a closed segment that is all zeros': (dir) => zero(file(dir, 2), 0, Number.POSITIVE_INFINITY),
  'a cut tail of a closed segment': (dir) => truncateSync(file(dir, 2), statSync(file(dir, 2)).size - 1_000),
  'a closed segment that is empty': (dir) => truncateSync(file(dir, 2), 0),
  'a missing segment in the middle': (dir) => rmSync(file(dir, 3)),
  'garbage behind a closed segment': (dir) => appendFileSync(file(dir, 2), Buffer.alloc(3_000, 0xa5)),
  'garbage and a second copy of older frames behind the last segment': (dir, last) =>
    appendFileSync(file(dir, last), Buffer.concat([Buffer.alloc(100, 0xa5), readFileSync(file(dir, 1)).subarray(32)])),
  'a few bytes too many in a closed segment': (dir) => {
    const bytes = readFileSync(file(dir, 2));
    writeFileSync(file(dir, 2), Buffer.concat([bytes.subarray(0, 4_000), Buffer.from('oops'), bytes.subarray(4_000)]));
  },
};

await t.test('every whole record before and behind the damage is kept, and a start finds totals that equal a recount', async (t) => {
  const { rig, killed, stopped, segments } = await scene(t);
  t.ok(segments >= 4);
  const all = await whole(stopped);
  t.equal(all.length, COMMITS);
  for (const [at, [name, damage]] of Object.entries(DAMAGES).entries()) {
    // Each way of leaving a folder with each way of repairing it takes long: the third pair stands for itself in some.
    const pairs: readonly (readonly [string, string, boolean])[] = [
      ['stopped', stopped, false],
      ['killed', killed, true],
      ...(at % 4 === 0 ? [['killed', killed, false] as const] : []),
    ];
    for (const [state, base, rebuildIndex] of pairs) {
      const what = `${name}, ${state}, index ${rebuildIndex ? 'rebuilt' : 'kept'}`;
      const dir = join(dirname(stopped), 'work');
      rmSync(dir, { recursive: true, force: true });
      cpSync(base, dir, { recursive: true });
      damage(dir, segments);
      const left = [...new Set(await whole(dir))].sort((a, b) => a - b);
      const names = readdirSync(join(dir, 'journal')).map((segment) => readFileSync(join(dir, 'journal', segment)));
      await repair(dir, { dryRun: true, rebuildIndex });
      t.same(
        readdirSync(join(dir, 'journal')).map((segment) => readFileSync(join(dir, 'journal', segment))),
        names,
        `${what}: a dry run changes nothing`,
      );
      const report = await repair(dir, { rebuildIndex }, rig);
      t.equal(report.recordsKept, left.length, what);
      const after = await findings(dir);
      t.notOk(
        after.some(({ kind }) => kind === 'damage' || kind === 'torn'),
        `${what}: nothing is damaged any more`,
      );
      const store = await rig.open(dir);
      await recordsAre(t, store, left, what);
      if (rebuildIndex) await countersAre(t, store, left, what);
      else if (state === 'stopped') await countersAre(t, store, all, `${what}: what lost records have cost is still counted`);
      else {
        const counted = (await store.list('e')).map(({ value }) => value as number);
        t.same(
          left.filter((n) => !counted.includes(n)),
          [],
          what,
        );
        await countersAre(t, store, counted, what);
      }
      await store.commit(makeRecord(COMMITS + 1), [{ op: 'add', space: 'c', key: 'new', amounts: { n: 1n } }]);
      await store.close();
      const again = await repair(dir);
      t.match(again, { segments: [], recordsKept: left.length + 1, setAside: undefined }, `${what}: a second repair finds nothing`);
      if (report.segments.some(({ header }) => header !== 'missing'))
        t.ok(
          existsSync(
            join(report.setAside ?? '', segmentFileName(report.segments.find(({ header }) => header !== 'missing')?.segment ?? 0)),
          ),
          what,
        );
    }
  }
});

await t.test('what cannot be repaired without a loss beyond the records is refused until that is asked for', async (t) => {
  const { rig, stopped } = await scene(t);
  const store = await rig.open();
  await store.removeRecordsBefore(makeRecord(30, PAD).committed_at);
  await store.close();
  const dir = rig.snapshot('retained');
  const first = Number.parseInt(readdirSync(join(dir, 'journal')).sort()[0] ?? '', 16);
  t.ok(first > 1);
  rmSync(join(dir, 'index'), { recursive: true });
  await t.rejects(rig.open(dir), { code: 'corrupt', message: /gw journal repair --rebuild-index/ });
  await t.rejects(repair(dir), {
    code: 'corrupt',
    message: /settings and totals from then were in the index alone\. Restore a backup, or give them up by --rebuild-index/,
  });
  const left = await whole(dir);
  t.match(await repair(dir, { rebuildIndex: true }), { recordsKept: left.length, index: 'rebuilt' });
  const again = await rig.open(dir);
  await recordsAre(t, again, left, 'an index of what is left');
  await countersAre(t, again, left, 'an index of what is left');
  await again.close();

  // An operator who made room by hand.
  rmSync(file(stopped, 1));
  await t.rejects(rig.open(stopped), { code: 'corrupt', message: /segment 1 is missing/ });
  const rest = await whole(stopped);
  t.match(await repair(stopped), { segments: [], recordsKept: rest.length, recordsLost: COMMITS - rest.length, forgottenBefore: 2 });
  const without = await rig.open(stopped);
  await recordsAre(t, without, rest, 'without the first segment');
  await countersAre(
    t,
    without,
    Array.from({ length: COMMITS }, (_, at) => at + 1),
    'without the first segment',
  );
});

await t.test(
  'an index or a format file that cannot be read is made anew; a folder that is in use, and one of a newer version, are left alone',
  async (t) => {
    const { rig, stopped } = await scene(t);
    const all = await whole(stopped);
    writeFileSync(join(stopped, 'index', 'CURRENT'), 'nonsense\n');
    writeFileSync(join(stopped, 'format'), Buffer.alloc(16));
    await t.rejects(rig.open(stopped), { code: 'corrupt', message: /format is not the format file .* "gw journal repair"/ });
    t.match(await repair(stopped), { index: 'rebuilt', formatDamaged: true, recordsKept: all.length });
    const store = await rig.open(stopped);
    await recordsAre(t, store, all, 'a new index');
    await countersAre(t, store, all, 'a new index');
    await t.rejects(repair(stopped), { code: 'in_use' });
    await store.close();
    writeFileSync(join(stopped, 'format'), 'gateway-store 99\n');
    const before = readdirSync(stopped);
    await t.rejects(repair(stopped), { code: 'newer_format' });
    t.same(readdirSync(stopped), before);
  },
);

await t.test('a start that is stopped by damage names file, place, what is lost and the way on', async (t) => {
  const { rig, stopped, segments } = await scene(t);
  const refused: readonly (readonly [Damage, RegExp])[] = [
    [
      DAMAGES['a bit in the last segment'] as Damage,
      new RegExp(
        `segment ${segments}, offset \\d+ \\(.*${segmentFileName(segments)}\\): \\d+ bytes are no whole frame\\. The records there are lost; those behind it are whole\\. Nothing was changed\\. "gw journal check"`,
      ),
    ],
    [
      DAMAGES['a missing segment in the middle'] as Damage,
      /segment 3 is missing in .*journal\. Its records are lost\. .*"gw journal repair"/,
    ],
    [
      DAMAGES['a cut tail of a closed segment'] as Damage,
      /segment 2, offset \d+ \(.*00000002\.journal\), ends 1000 bytes too early\. .*"gw journal repair"/,
    ],
    [
      DAMAGES['a zeroed block at the beginning of a closed segment'] as Damage,
      /the header of segment 2 \(.*00000002\.journal, offset 0\)\. .*"gw journal repair"/,
    ],
  ];
  for (const [damage, message] of refused) {
    const dir = join(dirname(stopped), 'refused');
    rmSync(dir, { recursive: true, force: true });
    cpSync(stopped, dir, { recursive: true });
    damage(dir, segments);
    await t.rejects(rig.open(dir), { code: 'corrupt', message });
  }
});
