/*
 * Runs every attack at once from a process of its own, until its parent ends it. Argument: the targets, as JSON. A
 * message from the parent is answered with how often each attack was answered how.
 */
import { ATTACKS, type Targets } from './attacks.ts';
import { sleep } from './checks.ts';

/** By attack: answers, and how often each came. */
export type AttackTally = Readonly<Record<string, Readonly<Record<string, number>>>>;

/**
 * Between two attempts of a lane, milliseconds: what is looked for is what they hold, not how fast one machine can ask.
 */
const REST_MS = 200;

const targets = JSON.parse(process.argv[2] ?? '') as Targets;
const tally: Record<string, Record<string, number>> = {};

for (const { name, lanes, once } of ATTACKS) {
  const answers: Record<string, number> = {};
  tally[name] = answers;
  for (let lane = 0; lane < lanes; lane += 1) void attack(answers, lane * 1_000_000, once);
}

async function attack(
  answers: Record<string, number>,
  from: number,
  once: (targets: Targets, count: number) => Promise<string>,
): Promise<void> {
  for (let count = from; ; count += 1) {
    const answer = await once(targets, count).catch((error: unknown) => String((error as NodeJS.ErrnoException).code ?? error));
    answers[answer] = (answers[answer] ?? 0) + 1;
    await sleep(REST_MS);
  }
}

process.on('message', () => process.send?.(tally satisfies AttackTally));
process.on('disconnect', () => process.exit(0));
