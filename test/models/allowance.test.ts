// The protocol by which nodes share a cap (docs/adr/0019-exact-across-nodes.md), searched through by Spin: as it is
// meant no run goes wrong, and each mistake of allowance-mistakes.h leads to what the ADR says of it. By hand, for the
// shortest way to a fault, step by step:
//   spin -a -DNO_FENCE -DPAID_ONLY -DSHORTEST allowance.pml && gcc -w -DSAFETY -DBFS -o pan pan.c && ./pan
//   spin -t -DNO_FENCE -DPAID_ONLY -DSHORTEST allowance.pml
import { execFileSync } from 'node:child_process';
import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

const MODELS = join(packageRoot(), 'test', 'models');
const MISTAKES = 'allowance-mistakes.h';
const PEERS = ['spin', 'gcc', 'libc6-dev'] as const;
/** More steps than any run has. */
const DEPTH = 1000;
/** All runs of what is meant fit into this; an endless search fails instead of filling the machine. */
const MOST_MB = 1500;

interface Searched {
  /** The assertion that failed, in the words of the model with its macros resolved. */
  readonly violated: string | undefined;
  readonly states: number;
  readonly isWhole: boolean;
  readonly output: string;
}

/** Searches all runs of the model with these definitions, or until the first fault. */
function search(t: HasTeardown, words: readonly string[]): Searched {
  const cwd = tempDir(t);
  for (const file of ['allowance.pml', MISTAKES]) copyFileSync(join(MODELS, file), join(cwd, file));
  const run = (program: string, args: readonly string[]): string => execFileSync(program, args, { cwd, encoding: 'utf8' });
  run(requirePeer('spin'), ['-a', ...words.map((word) => `-D${word}`), 'allowance.pml']);
  run(requirePeer('gcc'), ['-w', '-DSAFETY', `-DMEMLIM=${MOST_MB}`, '-o', 'pan', 'pan.c']);
  const output = run(join(cwd, 'pan'), ['-w20', `-m${DEPTH}`]);
  return {
    violated: /assertion violated (.*) \(at depth/.exec(output)?.[1],
    states: Number(/(\d+) states, stored/.exec(output)?.[1]),
    isWhole: /errors: 0\n/.test(output) && !/not completed|too small|out of memory|truncated|Bit statespace/i.test(output),
    output,
  };
}

/** What holds, with how many states at least: a search that sees far less has lost its faults. */
const HOLDS: ReadonlyMap<string, number> = new Map([
  ['', 500_000],
  ['SPLIT CHARGES=0', 400_000],
  ['SYNC', 50_000],
  ['ASKS=3 BREAKS=0', 100_000],
]);

/** The cap is passed. */
const OVERSPENT = /^\(paid<=3\)$/;
/** When all is over, the database is waiting for somebody, counts as held what nobody has, or has not settled once. */
const UNBALANCED = /^\(+db\[1\]\./;

/** A mistake, with PAID_ONLY where only a passed cap counts, and what comes of it. */
const FAILS: ReadonlyMap<string, RegExp> = new Map([
  ['NO_FENCE PAID_ONLY', OVERSPENT],
  ['FENCE_REACHABLE PAID_ONLY', OVERSPENT],
  ['FENCE_MEMORY PAID_ONLY', OVERSPENT],
  ['FENCE_NUMBERS PAID_ONLY', OVERSPENT],
  ['REPORT_BARE PAID_ONLY', OVERSPENT],
  ['CHARGED_UNHEARD PAID_ONLY', OVERSPENT],
  ['JOIN_LAGS PAID_ONLY', OVERSPENT],
  ['SPLIT FORGETS_LINE CHARGES=0 PAID_ONLY', OVERSPENT],
  ['BLIND_SHIP', UNBALANCED],
  ['OWN_POSITION', UNBALANCED],
  ['BLIND_TAKE', UNBALANCED],
  ['BLIND_BACK ASKS=3 CHARGES=0 PAID_ONLY', OVERSPENT],
  ['FREE_REFUSAL', UNBALANCED],
  ['RELEASED PAID_ONLY', OVERSPENT],
  ['LATE_JOURNAL PAID_ONLY', OVERSPENT],
]);

const split = (words: string): readonly string[] => (words === '' ? [] : words.split(' '));
const options = { skip: skipWithout(PEERS) };

for (const [words, least] of HOLDS) {
  t.test(`allowances as they are meant${words && `, ${words}`}: no run passes the cap, all are settled once`, options, async (t) => {
    const { violated, states, isWhole, output } = search(t, split(words));
    t.equal(violated, undefined);
    t.ok(isWhole, `every run was searched to its end\n${output}`);
    t.ok(states >= least, `${states} states`);
  });
}

for (const [words, fault] of FAILS) {
  t.test(`allowances with a mistake, ${words}: a run goes wrong`, options, async (t) => {
    const { violated, output } = search(t, split(words));
    t.match(violated ?? output, fault);
  });
}

t.test('allowances are granted: after a failover, and while a charged node is away', options, async (t) => {
  t.match(search(t, ['SEEN_ALL']).violated, /db\[d\]\.settled/);
  t.match(search(t, ['SEEN_CHARGED']).violated, /charge>0/);
  const { violated, isWhole } = search(t, ['NO_GRANTS', 'SEEN_ALL']);
  t.equal(violated, undefined, 'a model that grants nothing is told by this');
  t.ok(isWhole);
});

t.test('every mistake that the model knows is tried', async (t) => {
  const text = readFileSync(join(MODELS, MISTAKES), 'utf8');
  const known = [...text.matchAll(/^ \* {3}([A-Z_]+) /gm)].map(([, word]) => word);
  const tried = [...HOLDS.keys(), ...FAILS.keys(), 'NO_GRANTS SEEN_ALL SEEN_CHARGED'].flatMap(split);
  t.ok(known.length > 15);
  t.strictSame(
    known.filter((word) => !tried.includes(word ?? '')),
    [],
  );
});
