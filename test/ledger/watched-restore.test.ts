// What a watcher makes of restores: of a ledger that he has seen, and of one that somebody forges.
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
import { nothingSeen, type SeenRoot } from '../../src/ledger/chain-walk.ts';
import { thinned } from '../../src/ledger/kept-roots.ts';
import { readRoot } from '../../src/ledger/merkle-root.ts';
import { type LedgerSite, type MadeLedger, makeLedger, startLedgerSite } from '../support/made-ledger.ts';
import { fc } from '../support/properties.ts';
import { gw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';

const CUT = 100_001;

function batches(name: string, count: number): readonly (readonly string[])[] {
  return Array.from({ length: count }, (_, at) => [sha256Hex(`${name} ${at}`)]);
}

async function watched(t: Test, ledger: MadeLedger) {
  const site: LedgerSite = await startLedgerSite(t, ledger);
  const state = join(tempDir(t), 'state');
  return {
    site,
    look: async (...more: string[]) => {
      const { code, out, err } = await gw(['verify', '--watch', site.url, '--state', state, '--org', 'acme', ...more]);
      return { code, said: out + err };
    },
  };
}

t.test('a watcher goes back to a root that he has kept, and says what he cannot compare any more', async (t) => {
  const common = batches('common', 40);
  const before = makeLedger([...common, ...batches('lost', 30)]);
  const after = (kept: readonly (readonly string[])[], sequence = CUT) =>
    makeLedger([...kept, ...batches('later', 3)], { restored: { batch: kept.length, sequence } });
  const { site, look } = await watched(t, before);
  site.page = 7;
  t.match(await look(), { code: 0, said: /roots 1 to 70/ });
  site.page = 500;

  site.ledger = after(common);
  t.match(await look(), {
    code: 3,
    said: /roots 41 to 100000 are cut: the backup ended with root 40[\s\S]*Root 35 is what it was; roots 36 to 40 that were seen cannot be compared any more; of what is cut, roots 41 to 70 were seen/,
  });
  const rewritten = common.map((batch, at) => (at === 20 ? [sha256Hex('another')] : batch));
  site.ledger = after(rewritten);
  t.match(await look(), { code: 1, said: /^BROKEN {2}acme: root 35 was rewritten/ }, 'a declared restore hides no fork before it');
  t.match(await look('--accept-restore', String(CUT)), { code: 1 });
  site.ledger = after(common, 60);
  t.match(await look(), { code: 1, said: /^BROKEN/ }, 'nor one that reuses what was signed');
  const forged = after(common);
  const [first, ...rest] = forged.roots.slice(40);
  site.ledger = { ...forged, roots: [...forged.roots.slice(0, 40), { ...readRoot(first), leaf_count: 2 }, ...rest] };
  t.match(await look(), { code: 1, said: /root 100001: its signature does not fit/ }, 'nor does one that nobody has signed count');
  site.ledger = { ...after(common), consistencyOf: () => undefined };
  t.match(await look(), { code: 1, said: /shows no proof that the tree of root/ }, 'nor one whose tree does not go on');
  site.ledger = { ...makeLedger([...common, ...batches('later', 40)]) };
  t.match(await look(), { code: 1, said: /root 70 was rewritten/ }, 'without the word it is a fork');

  site.ledger = after(common);
  t.match(await look('--accept-restore', String(CUT)), { code: 0, said: /root 70 was cut, up to root 100003/ });
  t.match(await look(), { code: 0, said: /root 100003 is what it was, 0 more/ });
  // The same backup once more: what the watcher has accepted says nothing of it.
  site.ledger = makeLedger([...common, ...batches('again', 2)], { restored: { batch: 40, sequence: 200_001 } });
  t.match(await look(), { code: 3, said: /roots 41 to 200000 are cut/ });
});

t.test('a restored ledger that had no root begins with the root that says so', async (t) => {
  const { look } = await watched(t, makeLedger(batches('later', 3), { restored: { batch: 0, sequence: CUT } }));
  t.match(await look(), { code: 0, said: /restored {2}whatever was signed before root 100001 is cut: the backup had no root/ });
});

t.test('a restore has to cut something, and to have a time', (t) => {
  const [root] = makeLedger(batches('one', 1), { restored: { batch: 0, sequence: CUT } }).roots;
  const said = { epoch: 1, from_sequence: 0, at: '2026-01-01T00:00:00Z' };
  t.match(readRoot({ ...root, restored: { ...said, more: 1 } }), { restored: { more: 1 } }, 'what is signed stays whole');
  for (const [restored, problem] of [
    [true, /restored is not an object/],
    [{ ...said, from_sequence: CUT - 1 }, /it cuts nothing between root 100000 and root 100001/],
    [{ ...said, from_sequence: -1 }, /from_sequence/],
    [{ ...said, at: 'yesterday' }, /at is no time/],
    [{ ...said, epoch: 0 }, /epoch/],
    [{ ...said, reason: '' }, /reason/],
  ] as const)
    t.throws(() => readRoot({ ...root, restored }), problem);
  t.end();
});

t.test('of any number of roots some are kept, the newer the closer', (t) => {
  const seen = (sequence: number): SeenRoot => ({ ...nothingSeen('acme'), sequence, leaves: sequence });
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 1_000 }), { minLength: 1, maxLength: 400 }), (steps) => {
      let kept: readonly SeenRoot[] = [];
      let at = 0;
      for (const step of steps) {
        at += step;
        kept = thinned([...kept, seen(at)]);
      }
      const places = kept.map(({ sequence }) => sequence);
      return places.at(-1) === at && places.length <= 150 && places.every((one, index) => index === 0 || one > (places[index - 1] ?? 0));
    }),
  );
  let many: readonly SeenRoot[] = [];
  for (let sequence = 1; sequence <= 5_000; sequence++) many = thinned([...many, seen(sequence)]);
  t.ok(many.length < 120, `${many.length}`);
  const gaps = many.slice(1).map(({ sequence }, at) => [5_000 - sequence, sequence - (many[at]?.sequence ?? 0)] as const);
  for (const [distance, gap] of gaps) t.ok(gap <= 1 + (distance + gap) / 2, `a gap of ${gap} ${distance} roots ago`);
  t.end();
});
