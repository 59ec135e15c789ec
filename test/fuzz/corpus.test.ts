import t from 'tap';
import { corpusOf } from './corpus.ts';
import { Mutator } from './mutator.ts';
import { FUZZ_TARGETS } from './targets.ts';

/** An input that takes more CPU time, each time that it is tried, is a stall. */
const STALL_MS = 250;
const MUTATED = 300;

for (const target of FUZZ_TARGETS) {
  t.test(`${target.name}: every kept input is read or refused, in time`, async (t) => {
    const corpus = corpusOf(target.name);
    t.ok(corpus.length > 0, 'there is a corpus');
    const stallMs = target.stallMs ?? STALL_MS;
    const faults: string[] = [];
    for (const { file, bytes } of corpus) {
      let fastest = Number.POSITIVE_INFINITY;
      try {
        for (let i = 0; i < 10 && (i === 0 || fastest > stallMs); i++) {
          const cpu = process.cpuUsage();
          await target.run(bytes);
          const { user, system } = process.cpuUsage(cpu);
          fastest = Math.min(fastest, (user + system) / 1_000);
        }
        if (fastest > stallMs) faults.push(`${file}: ${fastest.toFixed(0)} ms`);
      } catch (error) {
        faults.push(`${file}: ${String(error)}`);
      }
    }
    t.same(faults, []);
  });

  t.test(`${target.name}: so are a few hundred mutations of them`, async (t) => {
    const corpus = corpusOf(target.name).map(({ bytes }) => bytes);
    const mutator = new Mutator({ ...target, corpus, seed: target.name });
    const labels = new Set<string>();
    const faults: string[] = [];
    for (let i = 0; i < MUTATED; i++) {
      const input = mutator.next();
      try {
        labels.add(await target.run(input));
      } catch (error) {
        faults.push(`${JSON.stringify(input.toString('latin1').slice(0, 400))}: ${String(error)}`);
      }
    }
    t.same(faults, []);
    t.ok(labels.size > 1, 'they do different things');
  });
}
