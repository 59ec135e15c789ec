/*
 * The gateways that were started by this user, a file each in his own folder: what a command needs to find one from any
 * folder (decision 12.15). Nothing in there is a secret: of the admin token the place is kept, where it has one.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { uptime } from 'node:os';
import { dirname, join } from 'node:path';
import { isJsonObject } from '../../base/json/json-object.ts';
import { systemClock } from '../../base/lib/clock.ts';
import { makeFolder } from '../../base/lib/file-system.ts';
import { codeOf } from '../../base/lib/gateway-error.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';

/** Settings by which a gateway is found, as text; folders and files by their whole path. */
export type FindingSettings = Readonly<Record<string, string>>;

export interface RememberedGateway {
  readonly settings: FindingSettings;
  /** In which it was started. */
  readonly folder: string;
  readonly node_id: string;
  readonly version: string;
  readonly pid: number;
  /** RFC 3339. */
  readonly started_at: string;
  /** RFC 3339; absent while it runs, and of one that was killed. */
  readonly stopped_at?: string;
  /** SHA-256 of what clients are to trust; none where nothing is intercepted. */
  readonly root_sha256: readonly string[];
}

const SCHEMA = 'gw.remembered_gateway.v1';
/** The newest are kept. */
const MOST = 32;
const MAX_BYTES = 65_536;
/** The system's own reckoning of its start is not exact. */
const SLACK_MS = 60_000;

function placeIn(userFolder: string): string {
  return join(userFolder, 'gateways');
}

function fileOf(userFolder: string, { settings }: Pick<RememberedGateway, 'settings'>): string {
  return join(placeIn(userFolder), `${sha256Hex(settings['GW_DATA_DIR'] ?? '').slice(0, 16)}.json`);
}

/** All of them, the one that was started last first. What cannot be read is none. */
export function rememberedGateways(userFolder: string | undefined): readonly RememberedGateway[] {
  if (userFolder === undefined) return [];
  const place = placeIn(userFolder);
  let names: readonly string[];
  try {
    names = readdirSync(place);
  } catch {
    return [];
  }
  const read = names.filter((name) => name.endsWith('.json')).flatMap((name) => gatewayIn(join(place, name)) ?? []);
  return read.sort((a, b) => Date.parse(b.started_at) - Date.parse(a.started_at));
}

function gatewayIn(file: string): RememberedGateway | undefined {
  try {
    if (statSync(file).size > MAX_BYTES) return undefined;
    const value: unknown = JSON.parse(readFileSync(file, 'utf8'));
    return isRemembered(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isRemembered(value: unknown): value is RememberedGateway {
  if (!isJsonObject(value) || value['schema'] !== SCHEMA || !isJsonObject(value['settings'])) return false;
  const { settings, root_sha256: roots, pid, started_at: startedAt } = value;
  const texts = [value['folder'], value['node_id'], value['version'], settings['GW_DATA_DIR'], settings['GW_PORT'], startedAt];
  return (
    [...texts, ...Object.values(settings)].every((one) => typeof one === 'string') &&
    Array.isArray(roots) &&
    roots.every((one) => typeof one === 'string') &&
    Number.isInteger(pid) &&
    !Number.isNaN(Date.parse(String(startedAt)))
  );
}

/**
 * Keeps one, in the place of what was known of its data folder, and lets go of those that are gone or too many. The
 * folder is for its user alone.
 * @returns false: the folder is another user's, as that of who called `sudo`, and is left alone
 * @throws Error of the file system
 */
export async function rememberGateway(userFolder: string, gateway: RememberedGateway): Promise<boolean> {
  if (!isOwn(userFolder)) return false;
  const place = placeIn(userFolder);
  await makeFolder(place, 0o700);
  await written(fileOf(userFolder, gateway), gateway);
  for (const [at, one] of rememberedGateways(userFolder).entries())
    if (isGone(one) || (at >= MOST && !isRunning(one))) await forgetGateway(userFolder, one);
  return true;
}

/** It has ended as it should. One that was started on its folder since is left as it is. */
export async function rememberStop(userFolder: string, gateway: RememberedGateway, stoppedAt: string): Promise<void> {
  const file = fileOf(userFolder, gateway);
  const now = gatewayIn(file);
  if (now?.pid !== gateway.pid || now.started_at !== gateway.started_at) return;
  await written(file, { ...gateway, stopped_at: stoppedAt });
}

export async function forgetGateway(userFolder: string, gateway: RememberedGateway): Promise<void> {
  await rm(fileOf(userFolder, gateway), { force: true });
}

/** A reader sees what was there before, or this. */
async function written(file: string, gateway: RememberedGateway): Promise<void> {
  const temporary = `${file}.${process.pid}`;
  try {
    const handle = await open(temporary, 'w', 0o600);
    try {
      await handle.writeFile(`${JSON.stringify({ schema: SCHEMA, ...gateway }, null, 2)}\n`);
    } finally {
      await handle.close();
    }
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Whether what is there of a path belongs to this user. */
function isOwn(path: string): boolean {
  const user = process.getuid?.();
  if (user === undefined) return true;
  let there = path;
  while (!existsSync(there) && dirname(there) !== there) there = dirname(there);
  return statSync(there).uid === user;
}

/** Its data folder is not there any more: nobody will start it again. */
export function isGone({ settings }: RememberedGateway): boolean {
  return !existsSync(settings['GW_DATA_DIR'] ?? '');
}

/** As far as this machine knows: it has not said that it ended, and its process is there. */
export function isRunning({ pid, started_at: startedAt, stopped_at: stoppedAt }: RememberedGateway): boolean {
  if (stoppedAt !== undefined || pid <= 0) return false;
  // Of before the last start of the machine: that number is another process's by now.
  if (Date.parse(startedAt) < systemClock.now() - uptime() * 1_000 - SLACK_MS) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
}
