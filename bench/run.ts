/*
 * `npm run bench`: CPU per request, latency and memory of the gateway through each of its doors, as ratios to floors
 * measured in the same round. The proxy is alone in its process and its CPU is read from the system's accounting; load
 * and upstream run in others; rounds are interleaved, so that what else the machine does falls on all alike. Nothing is
 * measured before it has answered so many requests that the compiler is through with it: until then a quarter to a
 * third of a process's CPU is the compiler's. Arguments: --rounds N (5), --seconds S (1.5), --write (keeps the figures
 * in docs/performance.md). Four options measure one thing only: --parts the parts alone, --controls what each control
 * adds to a call, --management calls of the management API, --against DIR the doors of this checkout and of another
 * one that is built (20 rounds).
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir, totalmem } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { packageRoot } from '../src/base/lib/package-root.ts';
import { compare } from './against.ts';
import { measureControls } from './controls.ts';
import { measureManagement } from './management-calls.ts';
import { type Figures, KINDS, measure, median, warmUp } from './measure.ts';
import { measureParts } from './parts.ts';
import { startSystems } from './systems.ts';
import { table } from './table.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '' },
    seconds: { type: 'string', default: '1.5' },
    only: { type: 'string', default: '' },
    write: { type: 'boolean', default: false },
    'no-parts': { type: 'boolean', default: false },
    parts: { type: 'boolean', default: false },
    controls: { type: 'boolean', default: false },
    management: { type: 'boolean', default: false },
    against: { type: 'string', default: '' },
  },
});
const rounds = Number(values.rounds || (values.against === '' ? '5' : '20'));
const seconds = Number(values.seconds);
const FIGURES_BEGIN = '<!-- figures -->';
const FIGURES_END = '<!-- end of the figures -->';
const CONCURRENCY = [1, 16, 64];

const dir = mkdtempSync(join(tmpdir(), 'gw-bench-'));
if (values.parts) {
  process.stdout.write(await measureParts(dir));
  rmSync(dir, { recursive: true, force: true });
  process.exit();
}
if (values.controls) {
  process.stdout.write(await measureControls());
  rmSync(dir, { recursive: true, force: true });
  process.exit();
}
if (values.management) {
  process.stdout.write(await measureManagement(dir));
  rmSync(dir, { recursive: true, force: true });
  process.exit();
}
if (values.against !== '') {
  await compare(dir, resolve(values.against), { rounds, seconds });
  rmSync(dir, { recursive: true, force: true });
  process.exit();
}
const systems = await startSystems(dir);
const sections: string[] = [];
try {
  for (const kind of KINDS) {
    for (const system of systems.list) if (system.process) await warmUp(system, kind.params, kind.warmUp);
    const rows: string[][] = [];
    for (const concurrency of CONCURRENCY) {
      const seen = new Map<string, Figures[]>();
      for (let round = 0; round < rounds; round += 1) {
        for (const system of systems.list.filter(({ name }) => name.includes(values.only) || !name.startsWith('gateway'))) {
          const list = seen.get(system.name) ?? [];
          list.push(await measure(system, kind.params, concurrency, seconds));
          seen.set(system.name, list);
        }
      }
      for (const [name, figures] of seen) {
        const system = systems.list.find((candidate) => candidate.name === name);
        const floor = seen.get(system?.floor ?? '') ?? [];
        const ratio = (member: keyof Figures) =>
          floor.length === 0 ? '' : median(figures.map((own, at) => own[member] / (floor[at]?.[member] ?? Number.NaN))).toFixed(2);
        rows.push([
          name,
          String(concurrency),
          system?.process ? median(figures.map(({ cpu }) => cpu)).toFixed(0) : '',
          ratio('cpu'),
          median(figures.map(({ p50 }) => p50)).toFixed(2),
          median(figures.map(({ p99 }) => p99)).toFixed(2),
          ratio('p99'),
          floor.length === 0 ? '' : median(figures.map(({ p50 }, at) => p50 - (floor[at]?.p50 ?? 0))).toFixed(2),
          median(figures.map(({ perSecond }) => perSecond)).toFixed(0),
          system?.process ? system.process.rssMb().toFixed(0) : '',
        ]);
      }
    }
    const head = ['system', 'c', 'CPU µs/req', '× floor', 'p50 ms', 'p99 ms', 'p99 × floor', 'added p50 ms', 'req/s', 'RSS MB'];
    sections.push(`## ${kind.name}\n\n${table(head, rows)}`);
    process.stdout.write(`${sections.at(-1)}\n`);
  }
} finally {
  await systems.stop();
}
if (!values['no-parts']) {
  sections.push(await measureParts(dir));
  process.stdout.write(`${sections.at(-1)}\n`);
}
rmSync(dir, { recursive: true, force: true });

if (values.write) {
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}, ${process.platform}`;
  const text = `Written by \`npm run bench -- --write\` on ${new Date().toISOString().slice(0, 10)}.

Machine: ${machine}. Load generator, proxy and upstream each have a process of their own on loopback; medians of ${rounds} interleaved rounds of ${seconds} s.

${sections.join('\n')}`;
  const file = join(packageRoot(), 'docs', 'performance.md');
  const document = readFileSync(file, 'utf8');
  const before = document.slice(0, document.indexOf(FIGURES_BEGIN) + FIGURES_BEGIN.length);
  writeFileSync(file, `${before}\n\n${text}\n${document.slice(document.indexOf(FIGURES_END))}`);
}
