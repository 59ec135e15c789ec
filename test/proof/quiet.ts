import { type Checks, sleep } from './checks.ts';
import { connections, descriptors, residentMb } from './process-state.ts';
import { collectGarbage, type ProofGateway } from './proof-gateway.ts';

/* What a gateway holds once its load has gone: nothing may be left of it. */

/** Longer than it takes to give up a connection that is being made, and then to close an idle one. */
const QUIET_LIMIT_MS = 60_000;
/**
 * What a heap may grow by beyond the measurement after the warm-up: fragmentation, and compiled code that arrives late.
 */
const HEAP_GROWTH_MB = 6;
/** The same outside the JavaScript heap's own buffers. */
const EXTERNAL_GROWTH_MB = 4;
/**
 * The index behind the journal has two write buffers of 16 MiB and a cache of 8 MiB, filled as records come; the
 * allocator's slack comes on top.
 */
const RESIDENT_GROWTH_MB = 56;

export interface Quiet {
  /** How long it took until no connection was left, milliseconds. */
  readonly quietAfter: number;
  readonly tcp: number;
  readonly dead: number;
  /** Connections that are left. */
  readonly connections: readonly string[];
  readonly filesElsewhere: readonly string[];
  readonly others: number;
  readonly heapMb: number;
  readonly externalMb: number;
  readonly residentMb: number;
  readonly tunnels: number;
  readonly buffered: number;
}

/** What is left when every client and every idle upstream connection is gone and the heap was collected. */
export async function quiet(gateway: ProofGateway, listeners: number): Promise<Quiet> {
  const { pid } = gateway;
  const from = performance.now();
  let { tcp, dead } = descriptors(pid);
  while (tcp + dead > listeners && performance.now() - from < QUIET_LIMIT_MS) {
    await sleep(250);
    ({ tcp, dead } = descriptors(pid));
  }
  const quietAfter = performance.now() - from;
  await gateway.metrics();
  // More than once: finalizers of the first collection free what only the next one finds.
  await collectGarbage(pid);
  const metrics = await gateway.metrics();
  const { files, others } = descriptors(pid);
  const mb = (name: string) => (metrics[name] ?? Number.NaN) / 1_048_576;
  return {
    quietAfter,
    tcp,
    dead,
    connections: connections(pid),
    // The store's own grow with its files; the index and the journal bound them.
    filesElsewhere: files.filter((file) => !file.includes('/data/store/')).sort(),
    others,
    heapMb: mb('nodejs_heap_size_used_bytes'),
    externalMb: mb('nodejs_external_memory_bytes'),
    residentMb: residentMb(pid),
    tunnels: metrics['gw_tunnels_open'] ?? Number.NaN,
    buffered: metrics['gw_buffered_bytes'] ?? Number.NaN,
  };
}

export function describe(state: Quiet): string {
  const memory = `heap ${state.heapMb.toFixed(1)} MB, external ${state.externalMb.toFixed(1)} MB, resident ${state.residentMb.toFixed(0)} MB`;
  return `${memory}, ${state.tcp} TCP sockets (after ${(state.quietAfter / 1_000).toFixed(1)} s), ${state.filesElsewhere.length} files beside the store, ${state.others} other descriptors`;
}

export function checkQuiet(checks: Checks, before: Quiet, after: Quiet, listeners: number): void {
  const grown = (name: string, from: number, to: number, limit: number) =>
    to - from <= limit ? [] : [`${name} grew by ${(to - from).toFixed(1)} MB, ${limit} MB are allowed`];
  const same = (name: string, from: unknown, to: unknown) =>
    String(from) === String(to) ? [] : [`${name}: ${String(from)} at first, ${String(to)} now`];
  checks.check('no socket but the listening ones is left open, no tunnel, no buffer', [
    ...same('after the warm-up', listeners, before.tcp),
    ...same('after the load', listeners, after.tcp),
    ...same('dead sockets', 0, after.dead),
    ...before.connections,
    ...after.connections,
    ...same('gw_tunnels_open', 0, after.tunnels),
    ...same('gw_buffered_bytes', 0, after.buffered),
  ]);
  checks.check('file descriptors are as many as after the warm-up', [
    ...same('files beside the store', before.filesElsewhere, after.filesElsewhere),
    ...same('other descriptors', before.others, after.others),
  ]);
  checks.check(`the heap is as large as after the warm-up: ${(after.heapMb - before.heapMb).toFixed(1)} MB more`, [
    ...grown('the heap', before.heapMb, after.heapMb, HEAP_GROWTH_MB),
    ...grown('external memory', before.externalMb, after.externalMb, EXTERNAL_GROWTH_MB),
  ]);
  checks.check(
    `resident memory stays within the store's buffers: ${(after.residentMb - before.residentMb).toFixed(0)} MB more`,
    grown('resident memory', before.residentMb, after.residentMb, RESIDENT_GROWTH_MB),
  );
}
