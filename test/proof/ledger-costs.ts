import { createHash } from 'node:crypto';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { EventBus } from '../../src/base/events/bus.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import type { OrgLedgers } from '../../src/control-plane/state/org-ledgers.ts';
import { HashSubmission } from '../../src/link/hash-submission.ts';
import type { Channel } from '../../src/link/link-ports.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { LeafIndex } from '../../src/storage/leaves/leaf-index.ts';
import { makeRecord } from '../contract/store-under-test.ts';
import { type FakeClock, fakeClock } from '../support/fake-clock.ts';
import { testRecord } from '../support/test-record.ts';
import type { Checks } from './checks.ts';
import { LEDGER_ORGS, openLedgerGround } from './ledger-ground.ts';
import { Seeded } from './seeded.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
const ORG = LEDGER_ORGS[0];
/** What a call carries at most. */
const CHUNK = 4_096;
/** A million leaves in 100 MB, roots, index of the store and journal included. */
const LEAF_DISK_BYTES = 100;
const PROOF_CPU_MS = 5;
/** Judged is the cheapest of so many batches: what a proof takes where nobody else uses the core's caches. */
const PROOF_BATCHES = 10;
const PROOFS = 300;
/** Of the index, which is all that is kept of a leaf in memory. */
const LEAF_MEMORY_BYTES = 40;
/** Records a second, the seconds that the clock goes on, and how it does. */
const RATE = 1_000;
const SECONDS = 20;
const TICK_MS = 50;
const INCLUSION_MS = 2_000;
/** A quarter of a core at that rate. */
const RECORD_CPU_MICROS = 250;

interface CostsOptions {
  readonly dir: string;
  readonly leaves: number;
  readonly seed: string;
}

/**
 * What leaves, proofs and submission cost. Judged are bytes, CPU and the clock of the programs: none of them changes
 * with what else the machine does.
 */
export async function proveCosts(checks: Checks, options: CostsOptions): Promise<void> {
  await proveSizes(checks, options);
  await proveInclusion(checks, join(options.dir, 'rate'));
}

async function proveSizes(checks: Checks, { dir, leaves: count, seed }: CostsOptions): Promise<void> {
  const ground = join(dir, 'sizes');
  const clock = fakeClock();
  const random = new Seeded(`${seed}/sizes`);
  const hashOf = (number: number) => createHash('sha256').update(`${seed}/${number}`).digest();
  const first = await openLedgerGround(ground, clock, 'off');
  const filled = cpuMs();
  for (let at = 0; at < count; at += CHUNK)
    await first.ledgers.submit(
      ORG,
      Array.from({ length: Math.min(CHUNK, count - at) }, (_, index) => hashOf(at + index)),
    );
  await allIncluded(first.ledgers, clock);
  const fillMicros = (1_000 * (cpuMs() - filled)) / count;
  const { verified, proofMs } = await proofsOf(first.ledgers, () => hashOf(random.between(0, count - 1)));
  await first.close();
  const bytes = bytesOf(ground) / count;
  checks.check(
    `${count} leaves take ${((bytes * count) / 1e6).toFixed(1)} MB with their roots, ${bytes.toFixed(1)} bytes each (limit ${LEAF_DISK_BYTES})`,
    bytes < LEAF_DISK_BYTES ? [] : ['it is more'],
  );
  checks.check(`a proof takes ${proofMs.toFixed(2)} ms of CPU (limit ${PROOF_CPU_MS} ms): ${verified} of ${PROOFS} verified`, [
    ...(proofMs < PROOF_CPU_MS ? [] : ['it is more']),
    ...(verified === PROOFS ? [] : ['some are not']),
  ]);
  const memory = indexBytes(count, hashOf) / count;
  checks.check(
    `the index keeps ${memory.toFixed(1)} bytes of memory for a leaf (limit ${LEAF_MEMORY_BYTES})`,
    memory < LEAF_MEMORY_BYTES ? [] : ['it is more'],
  );
  checks.note(`       a leaf takes ${fillMicros.toFixed(0)} µs of CPU to be taken and signed for`);
}

async function proofsOf(ledgers: OrgLedgers, draw: () => Buffer): Promise<{ verified: number; proofMs: number }> {
  let verified = 0;
  let proofMs = Number.POSITIVE_INFINITY;
  for (let batch = 0; batch < PROOF_BATCHES; batch++) {
    const begun = cpuMs();
    for (let one = 0; one < PROOFS / PROOF_BATCHES; one++) if ((await ledgers.inclusion(ORG, draw())).status === 'verified') verified++;
    proofMs = Math.min(proofMs, (cpuMs() - begun) / (PROOFS / PROOF_BATCHES));
  }
  return { verified, proofMs };
}

/** What an index of so many hashes keeps outside the heap, where all of it is. */
function indexBytes(count: number, hashOf: (number: number) => Buffer): number {
  const before = arrayBytes();
  const index = new LeafIndex();
  for (let number = 0; number < count; number++) index.add(hashOf(number));
  const bytes = arrayBytes() - before;
  if (index.count !== count) throw new Error('the index has lost hashes');
  return bytes;
}

/**
 * Lets a thousand records a second be committed, by a clock that goes on only when everything has been done that can be
 * done at its moment.
 */
async function proveInclusion(checks: Checks, dir: string): Promise<void> {
  const clock = fakeClock();
  const store = await openEmbeddedStore({ dir: join(dir, 'gateway'), fsync: 'off', clock, log: silentLogger });
  const ground = await openLedgerGround(dir, clock, 'off');
  const events = new EventBus(silentLogger);
  const submission = await HashSubmission.open({ store, clock, log: silentLogger, events, orgId: ORG });
  let calls = 0;
  const call = (async (_name: string, { hashes }: { hashes: readonly Uint8Array[] }) => {
    calls++;
    await ground.ledgers.submit(ORG, hashes);
    return { org: null, acknowledged: hashes.length, at: '' };
  }) as Channel['call'];
  submission.start({ call });
  const committed: number[] = [];
  let included = 0;
  let slowest = 0;
  const busy = { committing: 0, total: cpuMs() };
  const total = RATE * SECONDS;
  while (included < total && clock.now() < (committed[0] ?? clock.now()) + (SECONDS + 10) * 1_000) {
    if (committed.length < total) {
      const begun = cpuMs();
      const records = Array.from({ length: (RATE * TICK_MS) / 1_000 }, (_, index) => ({
        ...makeRecord(committed.length + index + 1),
        committed_at: clock.now(),
      }));
      await Promise.all(records.map((record) => store.commit(record, [])));
      for (const _ of records) committed.push(clock.now());
      busy.committing += cpuMs() - begun;
      for (const _ of records) events.emit('execution', { record: testRecord(), durationMs: 1 });
    }
    await quiet(ground.ledgers, submission);
    const roots = await ground.ledgers.roots(ORG, 0, 1);
    const now = roots.length === 0 ? 0 : submission.counts.acknowledged - ground.ledgers.pending;
    for (; included < now; included++) slowest = Math.max(slowest, clock.now() - (committed[included] ?? 0));
    clock.advance(TICK_MS);
  }
  const micros = (1_000 * (cpuMs() - busy.total - busy.committing)) / total;
  await submission.close();
  await ground.close();
  await store.close();
  checks.check(
    `at ${RATE} records a second a record is included at most ${slowest} ms after its commit (limit ${INCLUSION_MS} ms), by ${calls} calls: ${included} of ${total}`,
    [...(slowest <= INCLUSION_MS ? [] : ['it is later']), ...(included === total ? [] : ['some are not'])],
  );
  checks.check(
    `submission and ledger take ${micros.toFixed(0)} µs of CPU for a record (limit ${RECORD_CPU_MICROS} µs)`,
    micros <= RECORD_CPU_MICROS ? [] : ['it is more'],
  );
}

/** Until nothing changes any more without the clock. */
async function quiet(ledgers: OrgLedgers, submission: HashSubmission): Promise<void> {
  let seen = '';
  for (let same = 0; same < 20; ) {
    await new Promise((resolve) => setTimeout(resolve, 0));
    const now = `${submission.counts.acknowledged} ${ledgers.pending}`;
    same = now === seen ? same + 1 : 0;
    seen = now;
  }
}

async function allIncluded(ledgers: OrgLedgers, clock: FakeClock): Promise<void> {
  while (ledgers.pending > 0) {
    clock.advance(1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

function arrayBytes(): number {
  collect();
  return process.memoryUsage().arrayBuffers;
}

function bytesOf(dir: string): number {
  return readdirSync(dir, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}
