/*
 * Independent programs that tests hold the gateway against, and where they are on this machine. `npm run peers`
 * installs them; a test without its peer skips and says so, so that a machine with nothing but Node still passes.
 */
import { spawnSync } from 'node:child_process';
import { accessSync, constants, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { packageRoot } from '../../src/base/lib/package-root.ts';

interface Row {
  /** It asks the machine, and does not see a clock that `npm run dates` moves. */
  readonly clock?: 'own';
  readonly commands?: readonly string[];
  readonly extract?: string;
  /** CI passes without it. */
  readonly optional?: true;
  /** A Python environment; `extract` is its Python. */
  readonly pip?: readonly string[];
  readonly probe?: readonly string[];
  /** A program of npm with a folder of its own; `extract` is where it is in there. */
  readonly tool?: string;
}

/** The rows of scripts/peers.json. */
export type PeerName =
  | 'chromium'
  | 'certutil'
  | 'update-ca-certificates'
  | 'java'
  | 'keytool'
  | 'python3'
  | 'python3-requests'
  | 'python3-httpx'
  | 'python3-aiosmtpd'
  | 'spin'
  | 'gcc'
  | 'libc6-dev'
  | 'rsyslog'
  | 'syslog-ng'
  | 'coreutils'
  | 'openssl'
  | 'curl'
  | 'git'
  | 'npm'
  | 'pip'
  | 'systemd-analyze'
  | 'shellcheck'
  | 'kubectl'
  | 'postgresql'
  | 'prometheus'
  | 'promtool'
  | 'node22'
  | 'node24'
  | 'node26'
  | 'python-sdks'
  | 'boto3'
  | 'go'
  | 'fish'
  | 'zsh'
  | 'claude'
  | 'codex'
  | 'gemini'
  | 'opencode'
  | 'copilot';

const rows: ReadonlyMap<string, Row> = new Map(
  Object.entries(JSON.parse(readFileSync(join(packageRoot(), 'scripts', 'peers.json'), 'utf8')) as Record<string, Row>),
);
const found = new Map<PeerName, string | undefined>();

/**
 * The absolute path of a peer's program (for a Python package: the Python that has it), or undefined when this machine
 * has none.
 */
export function peer(name: PeerName): string | undefined {
  if (!found.has(name)) found.set(name, look(name));
  return found.get(name);
}

/** For tap's `skip` option: false when every named peer is there, else the reason. */
export function skipWithout(names: readonly PeerName[]): false | string {
  const missing = names.filter((name) => peer(name) === undefined);
  if (missing.length === 0) return false;
  if (missing.some((name) => hasOtherClock(rows.get(name)))) return `${missing.join(', ')}: does not follow a clock that is moved`;
  // The words by which scripts/tap-count.mjs knows what CI may skip.
  const where = missing.every((name) => rows.get(name)?.optional) ? ' if it can (optional)' : '';
  return `${missing.join(', ')} not found, npm run peers installs it${where}`;
}

/** The path of a peer in a test that {@link skipWithout} lets run. */
export function requirePeer(name: PeerName): string {
  const path = peer(name);
  if (path === undefined) throw new Error(`${name} not found, npm run peers installs it`);
  return path;
}

function look(name: PeerName): string | undefined {
  const row = rows.get(name);
  if (row === undefined) throw new Error(`scripts/peers.json has no ${name}`);
  // As on a machine that has nothing but Node; scripts/child-environment.mjs takes the rest out of PATH.
  if (process.env['TEST_NO_PEERS'] === '1' || hasOtherClock(row)) return undefined;
  const cached =
    row.extract === undefined
      ? []
      : [join(peersFolder(), name, row.pip || row.tool ? row.extract : row.extract.slice(row.extract.lastIndexOf('/') + 1))];
  const path = [...cached, ...(row.commands ?? []).flatMap(candidates)].find(executable);
  if (path === undefined || row.probe === undefined) return path;
  return spawnSync(path, row.probe, { stdio: 'ignore' }).status === 0 ? path : undefined;
}

function hasOtherClock(row: Row | undefined): boolean {
  return row?.clock === 'own' && process.env['FAKETIME'] !== undefined;
}

function peersFolder(): string {
  return process.env['AI_REQUEST_GATEWAY_PEERS'] ?? join(homedir(), '.cache', 'ai-request-gateway', 'peers');
}

function candidates(command: string): readonly string[] {
  if (command.includes('/')) return [command];
  return (process.env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, command));
}

function executable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
