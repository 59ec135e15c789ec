import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/* What the system knows of a process (proc(5)); Linux only. */

/** TCP_LISTEN as the kernel writes it. */
const LISTEN = '0A';

export interface Descriptors {
  /** Connections, and the sockets that listen. */
  readonly tcp: number;
  /** Sockets whose connection the kernel has dropped already: only this process still holds on to them. */
  readonly dead: number;
  /** Paths of open files. */
  readonly files: readonly string[];
  /** Standard streams, event queues and the like. */
  readonly others: number;
}

export function descriptors(pid: number): Descriptors {
  // Read before the tables: what is made in between would be taken for dead.
  const open = targets(pid);
  const tcp = new Set(tcpTable(pid).map(({ inode }) => inode));
  const alive = otherSockets(pid);
  const files: string[] = [];
  let connections = 0;
  let dead = 0;
  let others = 0;
  for (const target of open) {
    if (tcp.has(target)) connections += 1;
    else if (target.startsWith('socket:') && !alive.has(target)) dead += 1;
    else if (target.startsWith('/') && !target.startsWith('/dev/')) files.push(target);
    else others += 1;
  }
  return { tcp: connections, dead, files, others };
}

/** Local addresses of the sockets on which the process listens, as the kernel writes them (hexadecimal). */
export function listening(pid: number): string[] {
  const own = new Set(targets(pid));
  return tcpTable(pid)
    .filter(({ state, inode }) => state === LISTEN && own.has(inode))
    .map(({ local }) => local)
    .sort();
}

/**
 * Its connections as the kernel writes them: local address, remote one, state (RFC 9293 in the kernel's numbering),
 * bytes unsent and unread.
 */
export function connections(pid: number): string[] {
  const own = new Set(targets(pid));
  return tcpTable(pid)
    .filter(({ state, inode }) => state !== LISTEN && own.has(inode))
    .map(({ local, remote, state, queues }) => `${local} ${remote} state ${state} queues ${queues}`);
}

export function residentMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0) / 1024;
}

/** CPU milliseconds, user and system, since the process began; Linux counts in ticks of 10 ms. */
export function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/**
 * Milliseconds that its main thread was ready to run and had no core: what a busy machine takes, and no fault of the
 * program. 0 where the kernel keeps no such account.
 */
export function waitedForCoreMs(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ')[1] ?? 0) / 1_000_000;
  } catch {
    return 0;
  }
}

/**
 * As {@link waitedForCoreMs}, of all its threads together: what waits for a thread of the pool waits for that thread's
 * core.
 */
export function threadsWaitedForCoreMs(pid: number): number {
  return readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + waitedForCoreMs(Number(thread)), 0);
}

/** What the descriptors of a process lead to; one that is closed meanwhile is left out. */
function targets(pid: number): string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((name) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${name}`)];
    } catch {
      return [];
    }
  });
}

/** Sockets of the machine that are no TCP: standard streams of child processes, look-ups. */
function otherSockets(pid: number): ReadonlySet<string> {
  const inodes = (table: string, column: number): readonly string[] =>
    readFileSync(`/proc/${pid}/net/${table}`, 'latin1')
      .split('\n')
      .slice(1)
      .map((line) => `socket:[${line.trim().split(/\s+/)[column] ?? ''}]`);
  return new Set([...inodes('unix', 6), ...inodes('udp', 9), ...inodes('udp6', 9)]);
}

/** Every TCP socket of the machine; `inode` in the form that a descriptor leads to. */
function tcpTable(pid: number): readonly Readonly<Record<'local' | 'remote' | 'state' | 'queues' | 'inode', string>>[] {
  return ['tcp', 'tcp6'].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, 'latin1')
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter((fields) => fields.length > 9)
      .map(([, local = '', remote = '', state = '', queues = '', , , , , inode = '']) => ({
        local,
        remote,
        state,
        queues,
        inode: `socket:[${inode}]`,
      })),
  );
}

/**
 * Connections of a port of this machine, from both ends: what the other end has not taken, and what its own process has
 * not read, in bytes.
 */
export function queuesOf(port: number): string[] {
  const end = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const decimal = (address: string): number => Number.parseInt(address.slice(-4), 16);
  return tcpTable(process.pid)
    .filter(({ state, local, remote }) => state !== LISTEN && (local.endsWith(end) || remote.endsWith(end)))
    .map(({ local, remote, queues }) => {
      const [unsent, unread] = queues.split(':').map((text) => Number.parseInt(text, 16));
      return `${decimal(local)} to ${decimal(remote)}: ${unsent} unsent, ${unread} unread`;
    });
}
