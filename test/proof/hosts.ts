/*
 * Many hosts that nobody asked for before, at once: making their certificates must not hold up anybody else, must not
 * open a port, must not write a file.
 */
import { readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { connectThrough } from '../support/raw-clients.ts';
import { type Checks, prove, sleep } from './checks.ts';
import type { Phase } from './health-prober.ts';
import { startPacedUpstream } from './paced-upstream.ts';
import { Prober } from './prober.ts';
import { cpuMs, listening, waitedForCoreMs } from './process-state.ts';
import { ProofGateway, proofEnvironment, proofFolders } from './proof-gateway.ts';
import { proofSettings } from './settings.ts';

const BATCHES = 10;
const AT_ONCE = 50;
const QUIET_MS = 2_000;
/**
 * In most batches nobody may wait longer than this for `/healthz`, over what the same handshakes cost once the
 * certificates are there. One key of RSA made in the event loop holds it for about 300 ms, and a batch has 50. The
 * median over the batches is taken because a busy machine only ever adds, and not to all.
 */
const STALL_MS = 100;
/** Share of the time without a core from which on the machine is busy, and by what the limits of time grow then. */
const BUSY_SHARE = 0.1;
const BUSY_FACTOR = 4;
/** CPU time that a new host may cost over a known one. */
const CPU_MS_PER_HOST = 10;

interface Pass {
  readonly batches: readonly Phase[];
  /** Longest stall of the event loop as the gateway measures it itself, milliseconds. */
  readonly lagMs: number;
  readonly cpuMs: number;
  readonly ms: number;
  /** Share of the time for which the gateway was ready to run and had no core. */
  readonly waitedForCore: number;
}

await prove(async (checks, cleanUp) => {
  const { seed } = proofSettings();
  const count = BATCHES * AT_ONCE;
  checks.note(`hosts: ${count} new hosts, ${AT_ONCE} at once, seed ${seed}`);
  const folders = proofFolders(cleanUp);
  const upstream = await startPacedUpstream(cleanUp);
  const gateway = await ProofGateway.start(cleanUp, proofEnvironment(folders, upstream), folders.work);
  const prober = new Prober(gateway.port, cleanUp);
  // The first handshake of a process compiles what it needs.
  await shake(gateway, 'warm-up.openai.azure.com');
  await prober.phase();
  await sleep(QUIET_MS);
  const quiet = await prober.phase();
  const files = filesBelow(folders.root);
  const listeners = listening(gateway.pid);

  const hosts = Array.from({ length: count }, (_, at) => `x${seed}-${at}.openai.azure.com`);
  const errors: string[] = [];
  const fresh = await pass(gateway, prober, hosts, errors);
  const known = await pass(gateway, prober, hosts, errors);
  checks.note(`       quiet: ${inWords(quiet)}`);
  for (const [name, { batches, ms, cpuMs, lagMs, waitedForCore }] of [
    ['new hosts', fresh],
    ['the same hosts again', known],
  ] as const) {
    const typical = inWords({
      answers: 0,
      median: middle(batches, 'median'),
      p99: middle(batches, 'p99'),
      longest: middle(batches, 'longest'),
    });
    checks.note(
      `       ${name}: ${ms.toFixed(0)} ms, ${(cpuMs / count).toFixed(2)} ms CPU each; in the median batch ${typical}; loop held at most ${lagMs.toFixed(0)} ms; no core for ${(waitedForCore * 100).toFixed(0)} % of the time`,
    );
  }
  report(checks, { quiet, fresh, known, errors, count });
  const opened = listening(gateway.pid);
  checks.check(
    `no socket listens that did not before: ${listeners.length}`,
    opened.join() === listeners.join() && listeners.length === 2 ? [] : opened,
  );
  const written = filesBelow(folders.root).filter((file) => !files.includes(file) && !file.startsWith('data/store/'));
  checks.check('no file was written outside of the store, and none in the folders that are not its own', [
    ...written,
    ...[folders.work, folders.home].flatMap((folder) => filesBelow(folder).map((file) => `${folder}/${file}`)),
  ]);
  checks.check('its log reports no error', gateway.complaints());
  prober.stop();
  await gateway.stop();
  checks.check('nothing is left behind in the temporary folder', filesBelow(folders.temporary));
});

async function pass(gateway: ProofGateway, prober: Prober, hosts: readonly string[], errors: string[]): Promise<Pass> {
  await gateway.metrics();
  await prober.phase();
  const cpuBefore = cpuMs(gateway.pid);
  const waited = waitedForCoreMs(gateway.pid);
  const started = performance.now();
  const batches: Phase[] = [];
  for (let at = 0; at < hosts.length; at += AT_ONCE) {
    const shaken = hosts
      .slice(at, at + AT_ONCE)
      .map((host) => shake(gateway, host).catch((error: unknown) => errors.push(`${host}: ${String(error)}`)));
    await Promise.all(shaken);
    batches.push(await prober.phase());
  }
  const ms = performance.now() - started;
  const cpu = cpuMs(gateway.pid) - cpuBefore;
  const lag = (await gateway.metrics())['nodejs_eventloop_lag_max_seconds'] ?? Number.NaN;
  const waitedForCore = (waitedForCoreMs(gateway.pid) - waited) / ms;
  return { batches, lagMs: lag * 1_000, cpuMs: cpu, ms, waitedForCore };
}

/** A whole handshake, the certificate checked for its host; nothing is sent, so that no upstream is needed. */
async function shake(gateway: ProofGateway, host: string): Promise<void> {
  const socket = await connectThrough(gateway.port, `${host}:443`, gateway.caPem);
  socket.destroy();
}

function report(
  checks: Checks,
  { quiet, fresh, known, errors, count }: { quiet: Phase; fresh: Pass; known: Pass; errors: readonly string[]; count: number },
): void {
  checks.check(`each of ${count} hosts got a certificate of its own that verifies, twice`, errors);
  const answers = fresh.batches.reduce((sum, batch) => sum + batch.answers, 0);
  const factor = fresh.waitedForCore > BUSY_SHARE ? BUSY_FACTOR : 1;
  const limit = (Math.max(middle(known.batches, 'longest'), quiet.longest) + STALL_MS) * factor;
  const stall = middle(fresh.batches, 'longest');
  checks.check(`/healthz is answered meanwhile: in the median batch after at most ${stall.toFixed(0)} ms (limit ${limit.toFixed(0)} ms)`, [
    ...(answers < BATCHES ? [`only ${answers} answers`] : []),
    ...(stall > limit ? ['somebody had to wait for certificates of others'] : []),
  ]);
  const each = (fresh.cpuMs - known.cpuMs) / count;
  checks.check(
    `a new host costs ${each.toFixed(2)} ms CPU more than a known one (limit ${CPU_MS_PER_HOST} ms)`,
    each <= CPU_MS_PER_HOST ? [] : ['certificates are made in an expensive way'],
  );
  const lagLimit = (known.lagMs + STALL_MS * 3) * factor;
  checks.check(
    `by its own measure the event loop was held at most ${fresh.lagMs.toFixed(0)} ms (limit ${lagLimit.toFixed(0)} ms)`,
    fresh.lagMs <= lagLimit ? [] : ['it was held too long'],
  );
}

function inWords({ median, p99, longest }: Phase): string {
  return `/healthz took ${median.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, at most ${longest.toFixed(1)} ms`;
}

function middle(batches: readonly Phase[], of: 'median' | 'p99' | 'longest'): number {
  const sorted = batches.map((batch) => batch[of]).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
}
