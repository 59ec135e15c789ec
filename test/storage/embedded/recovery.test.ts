import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { StoreError } from '../../../src/storage/contract/store.ts';
import { checkJournal, type JournalFinding } from '../../../src/storage/embedded/check-journal.ts';
import { inspectJournal } from '../../../src/storage/embedded/inspect-journal.ts';
import { encodeSegmentHeader, segmentFileName } from '../../../src/storage/embedded/segment-header.ts';
import { makeRecord, type Tap, turns } from '../../contract/store-under-test.ts';
import { StoreRig } from './store-rig.ts';

async function findings(dir: string): Promise<JournalFinding[]> {
  const found: JournalFinding[] = [];
  for await (const finding of checkJournal(dir)) found.push(finding);
  return found;
}

function journalFile(dir: string, segment = 1): string {
  return join(dir, 'journal', segmentFileName(segment));
}

/** Every file of a folder with its content. */
function fingerprint(dir: string): Record<string, string> {
  const all: Record<string, string> = {};
  for (const name of readdirSync(dir, { recursive: true, encoding: 'utf8' }).sort()) {
    const path = join(dir, name);
    if (statSync(path).isFile()) all[name] = createHash('sha256').update(readFileSync(path)).digest('hex');
  }
  return all;
}

/** A folder as a process that died leaves it: three commits in the journal, none in the index. */
async function threeCommits(t: Tap): Promise<{ rig: StoreRig; base: string; offsets: number[]; bytes: Buffer }> {
  const rig = new StoreRig(t);
  const store = await rig.open();
  for (let n = 1; n <= 3; n += 1) await store.commit(makeRecord(n), [{ op: 'add', space: 'c', key: 'k', amounts: { n: 1n } }]);
  const base = rig.snapshot('base');
  await store.close();
  const offsets = (await findings(base)).flatMap((finding) => (finding.kind === 'record' ? [finding.offset] : []));
  return { rig, base, offsets, bytes: readFileSync(journalFile(base)) };
}

/** A journal folder of one segment with these bytes; only the journal, for the look that changes nothing. */
function journalOf(rig: StoreRig, bytes: Buffer): string {
  const folder = `${rig.dir}-journal`;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, segmentFileName(1)), bytes);
  return folder;
}

async function refusal(promise: Promise<unknown>): Promise<StoreError> {
  const error = await promise.then(
    () => new Error('It opened'),
    (reason: unknown) => reason,
  );
  if (error instanceof StoreError) return error;
  throw error;
}

await t.test('a journal cut at any byte of its last frame keeps everything before that frame', async (t) => {
  const { rig, base, offsets, bytes } = await threeCommits(t);
  const last = offsets[2] ?? 0;
  for (let size = last; size < bytes.length; size += 1) {
    const { last: scan } = await inspectJournal(journalOf(rig, bytes.subarray(0, size)));
    if (scan?.end !== last || scan.records !== 2) t.fail(`cut at ${size}`);
  }
  for (const size of [last, last + 1, last + 31, bytes.length - 1]) {
    const dir = `${rig.dir}-cut-${size}`;
    cpSync(base, dir, { recursive: true });
    truncateSync(journalFile(dir), size);
    rig.lines.length = 0;
    const store = await rig.open(dir);
    t.equal((await store.records({ limit: 9 })).length, 2);
    t.strictSame(await store.counter('c', 'k'), { n: 2n });
    t.equal(
      rig.lines.some((line) => line.level === 'warn'),
      size > last,
      'a cut is logged',
    );
    await store.commit(makeRecord(3), []);
    await store.close();
    const after = await findings(dir);
    t.notOk(
      after.some((finding) => finding.kind === 'torn' || finding.kind === 'damage'),
      'nothing torn is left behind',
    );
    t.equal(after.filter((finding) => finding.kind === 'record').length, 3);
  }
});

await t.test('garbage and zeros behind the last frame are a torn write', async (t) => {
  const { rig, base } = await threeCommits(t);
  for (const [name, tail] of Object.entries({
    zeros: Buffer.alloc(70_000),
    noise: Buffer.alloc(500, 0xff),
    half: readFileSync(journalFile(base)).subarray(32, 60),
  })) {
    const dir = `${rig.dir}-${name}`;
    cpSync(base, dir, { recursive: true });
    appendFileSync(journalFile(dir), tail);
    const store = await rig.open(dir);
    t.equal((await store.records({ limit: 9 })).length, 3, name);
  }
});

await t.test(
  'a changed byte anywhere in a frame that others follow is refused with its place; in the last frame it is a torn write',
  async (t) => {
    const { rig, offsets, bytes } = await threeCommits(t);
    const [, second = 0, third = 0] = offsets;
    for (let at = second; at < bytes.length; at += 1) {
      const flipped = Buffer.from(bytes);
      flipped.writeUInt8((flipped.readUInt8(at) ^ 0x41) & 0xff, at);
      const looked = inspectJournal(journalOf(rig, flipped));
      if (at >= third) {
        if ((await looked).last?.end !== third) t.fail(`byte ${at}`);
      } else {
        const error = await refusal(looked);
        if (error.code !== 'corrupt' || !error.message.includes(`segment 1, offset ${second}`)) t.fail(`byte ${at}: ${error.message}`);
      }
    }
    t.pass('every byte');
  },
);

await t.test('damage, a newer format and a missing segment are refused and nothing at all is changed', async (t) => {
  const rig = new StoreRig(t);
  const store = await rig.open();
  for (let n = 1; n <= 150; n += 1) await store.commit(makeRecord(n, { pad: 300 }), []);
  await store.close();
  const segments = readdirSync(join(rig.dir, 'journal')).length;
  t.ok(segments > 3);
  const cases: [string, StoreError['code'], RegExp, (dir: string) => void][] = [
    [
      'a flipped byte in the last segment',
      'corrupt',
      new RegExp(`segment ${segments}, offset 32 `),
      (dir) => {
        const bytes = readFileSync(journalFile(dir, segments));
        bytes.writeUInt8(bytes.readUInt8(100) ^ 1, 100);
        writeFileSync(journalFile(dir, segments), bytes);
      },
    ],
    ['a missing segment', 'corrupt', /segment 2 is missing/, (dir) => rmSync(journalFile(dir, 2))],
    ['a damaged header', 'corrupt', /header of segment 2/, (dir) => writeFileSync(journalFile(dir, 2), Buffer.alloc(2_000))],
    [
      'a segment in the place of another',
      'corrupt',
      /header of segment 2/,
      (dir) => copyFileSync(journalFile(dir, 1), journalFile(dir, 2)),
    ],
    [
      'a newer format file',
      'newer_format',
      /has format 2; this version reads up to 1/,
      (dir) => writeFileSync(join(dir, 'format'), 'gateway-store 2\n'),
    ],
    ['a foreign format file', 'corrupt', /is not the format file/, (dir) => writeFileSync(join(dir, 'format'), 'something else')],
    ['a newer segment', 'newer_format', /has format 9/, (dir) => writeFileSync(journalFile(dir, segments + 1), newerHeader(segments + 1))],
  ];
  for (const [name, code, message, damage] of cases) {
    const dir = rig.snapshot('damaged');
    damage(dir);
    const before = fingerprint(dir);
    const error = await refusal(rig.open(dir));
    t.equal(error.code, code, name);
    t.match(error.message, message, name);
    t.notMatch(error.message, /\n/, 'one line');
    t.strictSame(fingerprint(dir), before, `${name}: nothing is changed`);
  }
});

function newerHeader(segment: number): Buffer {
  const header = encodeSegmentHeader(segment, 0);
  header.writeUInt32LE(9, 8);
  const sum = createCrc(header.subarray(0, 28));
  header.writeUInt32LE(sum, 28);
  return header;
}

/** CRC-32 bit by bit: an independent judge of the checksum in the files. */
function createCrc(bytes: Buffer): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}

await t.test(
  'a journal that ends before what was forced to the medium and indexed is refused; without fsync it is said and the rest is kept',
  async (t) => {
    for (const fsync of [1000, 'off'] as const) {
      const rig = new StoreRig(t, { fsync });
      const store = await rig.open();
      for (let n = 1; n <= 3; n += 1) await store.commit(makeRecord(n), []);
      await store.close();
      const third = (await findings(rig.dir)).filter((finding) => finding.kind === 'record')[2];
      const offset = third?.kind === 'record' ? third.offset : 0;
      truncateSync(journalFile(rig.dir), offset);
      if (fsync === 'off') {
        const again = await rig.open();
        t.equal((await again.records({ limit: 9 })).length, 2);
        t.equal(await again.recordById(makeRecord(3).record_id), undefined);
        t.ok(rig.lines.some((line) => line.level === 'warn' && /ends before the index/.test(line.message)));
        await again.commit(makeRecord(4), []);
        t.equal(await again.recordById(makeRecord(3).record_id), undefined, 'a row that outlived its record finds nothing else');
        t.equal((await again.recordById(makeRecord(4).record_id))?.text, makeRecord(4).text);
      } else {
        const error = await refusal(rig.open());
        t.equal(error.code, 'corrupt');
        t.match(error.message, `segment 1, offset ${offset}`);
      }
    }
  },
);

await t.test('a segment that died before its header was written is removed', async (t) => {
  const { rig, base } = await threeCommits(t);
  for (const size of [0, 7, 31, 32]) {
    const dir = `${rig.dir}-header-${size}`;
    cpSync(base, dir, { recursive: true });
    writeFileSync(journalFile(dir, 2), Buffer.alloc(size));
    const store = await rig.open(dir);
    t.equal((await store.records({ limit: 9 })).length, 3);
    await store.commit(makeRecord(4), []);
    t.equal((await store.records({ limit: 9 })).length, 4);
  }
});

await t.test('an index that is lost is built anew from a whole journal, and refused when the journal is not whole', async (t) => {
  const rig = new StoreRig(t);
  const store = await rig.open();
  for (let n = 1; n <= 150; n += 1) {
    await store.commit(makeRecord(n, { pad: 300 }), [
      { op: 'add', space: 'c', key: `k${n % 5}`, amounts: { n: 1n } },
      { op: 'put', space: 'e', key: 'last', value: n },
    ]);
  }
  await store.close();
  const dir = rig.snapshot('lost');
  rmSync(join(dir, 'index'), { recursive: true });
  const again = await rig.open(dir);
  t.equal((await again.recordById(makeRecord(77).record_id))?.text, makeRecord(77, { pad: 300 }).text);
  t.equal(await again.get('e', 'last'), 150);
  t.strictSame(await again.counter('c', 'k0'), { n: 30n });
  t.equal((await again.records({ limit: 500 })).length, 150);
  await again.close();
  rmSync(join(dir, 'index'), { recursive: true });
  rmSync(journalFile(dir, 1));
  const error = await refusal(rig.open(dir));
  t.equal(error.code, 'corrupt');
  t.notOk(existsSync(join(dir, 'index')), 'nothing was made');
});

await t.test('effects are counted exactly once wherever between journal and index the process dies', async (t) => {
  const rig = new StoreRig(t);
  const store = await rig.open();
  let n = 0n;
  for (let step = 0; step < 12; step += 1) {
    for (let more = 0; more < 3; more += 1) {
      n += 1n;
      await store.commit(makeRecord(Number(n)), [
        { op: 'add', space: 'c', key: 'k', amounts: { n: 1n } },
        { op: 'put', space: 'e', key: `e${n}`, value: 1 },
        { op: 'delete', space: 'e', key: `e${n - 2n}` },
      ]);
    }
    // Every third step a round begins, and the copy is taken before, while and after the index is written.
    if (step % 3 === 1) rig.clock.advance(200);
    if (step % 3 === 2) await turns(50);
    const again = await rig.open(rig.snapshot(`step-${step}`));
    t.strictSame(await again.counter('c', 'k'), { n });
    t.equal((await again.list('e')).length, 2);
    t.equal((await again.records({ limit: 100 })).length, Number(n));
    await again.close();
  }
});

await t.test('a second store on the same folder is refused with one clear line, in this process and in another', async (t) => {
  const rig = new StoreRig(t);
  const store = await rig.open();
  await store.commit(makeRecord(1), []);
  const line = `The data folder ${rig.dir} is in use by another gateway (pid ${process.pid}): stop that one, or give this one a folder of its own (GW_DATA_DIR)`;
  const error = await refusal(rig.open());
  t.equal(error.code, 'in_use');
  t.equal(error.message, line);
  const child = spawn(process.execPath, [fileURLToPath(new URL('./committing-child.js', import.meta.url)), rig.dir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  await new Promise((resolve) => child.on('close', resolve));
  t.equal(output, `refused ${line}\n`);
  await store.commit(makeRecord(2), []);
  await store.close();
  t.equal((await (await rig.open()).records({ limit: 5 })).length, 2, 'the first one was not disturbed');
});

await t.test('a deep check names every frame, goes on behind damage and changes nothing', async (t) => {
  const { rig, base, offsets, bytes } = await threeCommits(t);
  t.strictSame(
    (await findings(base)).map((finding) => finding.kind),
    ['record', 'record', 'record', 'segment'],
  );
  const [first = 0, second = 0] = offsets;
  const damaged = Buffer.concat([bytes, Buffer.from('half a frame')]);
  damaged.writeUInt8(damaged.readUInt8(first + 50) ^ 1, first + 50);
  const dir = `${rig.dir}-deep`;
  cpSync(base, dir, { recursive: true });
  writeFileSync(journalFile(dir), damaged);
  const before = fingerprint(dir);
  const found = await findings(dir);
  t.strictSame(
    found.map((finding) => finding.kind),
    ['damage', 'record', 'record', 'torn', 'segment'],
  );
  t.match(found[0], { segment: 1, offset: first, bytes: second - first });
  t.match(found[1], { recordId: makeRecord(2).record_id, recordHash: makeRecord(2).record_hash, text: makeRecord(2).text });
  t.match(found[3], { offset: bytes.length, bytes: 12 });
  t.strictSame(fingerprint(dir), before);
});
