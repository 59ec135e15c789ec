/*
 * What is killed by the proof of the ledger: several writers hand in hashes at once, without a pause. A line says
 * `ready`, then each acknowledged submission and each root that is seen has one, written to a file before anything else
 * is done.
 */
import { createHash } from 'node:crypto';
import { openSync, writeSync } from 'node:fs';
import { systemClock } from '../../src/base/lib/clock.ts';
import { LEDGER_ORGS, openLedgerGround } from './ledger-ground.ts';
import { Seeded } from './seeded.ts';

const WRITERS = 6;
const MOST_HASHES = 80;

const [dir = '', seed = '', told = ''] = process.argv.slice(2);
const { ledgers } = await openLedgerGround(dir, systemClock, 'always');
const file = openSync(told, 'a');
const tell = (line: object): void => {
  writeSync(file, `${JSON.stringify(line)}\n`);
};

async function write(writer: number): Promise<never> {
  const random = new Seeded(`${seed}/${writer}`);
  let before: Buffer[] = [];
  for (let turn = 0; ; turn++) {
    const org = random.weighted([
      [4, LEDGER_ORGS[0]],
      [1, LEDGER_ORGS[1]],
    ]);
    const fresh = Array.from({ length: random.between(1, MOST_HASHES) }, (_, index) =>
      createHash('sha256').update(`${seed}/${writer}/${turn}/${index}`).digest(),
    );
    // Some are handed in a second time, as after an answer that was lost.
    const hashes = [...before.slice(0, random.between(0, 5)), ...fresh];
    await ledgers.submit(org, hashes);
    tell({ org, hashes: hashes.map((hash) => hash.toString('hex')) });
    before = fresh;
  }
}

async function watch(org: string): Promise<never> {
  for (let after = 0; ; ) {
    const roots = await ledgers.roots(org, after, 500);
    for (const root of roots) tell({ root });
    after = roots.at(-1)?.sequence ?? after;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

tell({ ready: true });
await Promise.all([...Array.from({ length: WRITERS }, (_, writer) => write(writer)), ...LEDGER_ORGS.map(watch)]);
