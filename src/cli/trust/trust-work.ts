import { accessSync, constants, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { certificatePem } from '../../inbound/ca/certificate.ts';
import type { GatewayRoots } from './gateway-roots.ts';
import {
  type Entry,
  entryName,
  fingerprint,
  type Machine,
  ROOT_FILE,
  runOn,
  type Step,
  type StoreName,
  type TrustPlace,
} from './trust-place.ts';

/** `older`: a root of an earlier rotation alone. `partly`: not all of those that are handed out. */
export type TrustState = 'trusted' | 'partly' | 'older' | 'missing' | 'unknown';

/** What a store holds, and what was done there. */
export interface TrustReport {
  readonly store: StoreName;
  readonly where: string;
  readonly covers: string;
  readonly state: TrustState;
  /** Shell commands that were run, or with `--dry-run` would be. */
  readonly steps: readonly string[];
  /** Why it is not as it was asked for. */
  readonly problem?: string;
  /** True where another user has to do it. */
  readonly needs_root?: true;
  /** Names of roots that are called like ours and are not known to be: another gateway's. */
  readonly strangers: readonly string[];
}

export type Work = 'install' | 'uninstall' | 'status';

interface Change {
  readonly step: Step;
  /** The root that a step is about. */
  readonly der: Buffer;
}

/** Does the work in one place, and looks afterwards. Doing it twice does nothing the second time. */
export async function workIn(place: TrustPlace, roots: GatewayRoots, work: Work, machine: Machine, dryRun: boolean): Promise<TrustReport> {
  const { store, where, covers, lacks } = place;
  const base = { store, where, covers };
  if (lacks !== undefined) return { ...base, state: 'unknown', steps: [], problem: lacks, strangers: [] };
  const entries = await place.entries();
  const strangers = entries.filter(({ der }) => !roots.own.has(fingerprint(der))).map(({ name }) => name);
  const changes = await changesFor(place, entries, roots, work);
  const steps = changes.map(({ step, der }) => shown(step, der));
  const report = async (more: Partial<TrustReport> = {}): Promise<TrustReport> => ({
    ...base,
    state: await stateOf(place, roots),
    steps,
    strangers,
    ...more,
  });
  if (changes.length === 0 || dryRun) return report();
  if (!isWritable(place.guard)) return report({ steps: [], needs_root: true, problem: 'this user may not change it' });
  const problem = await carryOut(changes, machine);
  return problem === undefined ? report() : report({ problem });
}

async function changesFor(
  place: TrustPlace,
  entries: readonly Entry[],
  { trusted, own }: GatewayRoots,
  work: Work,
): Promise<readonly Change[]> {
  if (work === 'status') return [];
  const wanted = work === 'install' ? trusted : [];
  const isWanted = (der: Buffer) => wanted.some((one) => one.equals(der));
  const gone = entries.filter(({ der }) => own.has(fingerprint(der)) && !isWanted(der));
  const missing: Buffer[] = [];
  for (const der of wanted) if (!(await place.trusts(der))) missing.push(der);
  const changes = [
    ...gone.flatMap((entry) => place.remove(entry).map((step) => ({ step, der: entry.der }))),
    ...missing.flatMap((der) => place.add(entryName(der)).map((step) => ({ step, der }))),
  ];
  return changes.filter(({ step }, at) => !isRepeated(step, changes.slice(at + 1)));
}

/** One refreshing at the end is enough. */
function isRepeated(step: Step, later: readonly Change[]): boolean {
  return (
    'run' in step && !step.run.includes(ROOT_FILE) && later.some((other) => shown(other.step, other.der) === step.run.map(quoted).join(' '))
  );
}

async function carryOut(changes: readonly Change[], machine: Machine): Promise<string | undefined> {
  const folder = mkdtempSync(join(tmpdir(), 'gw-trust-'));
  try {
    for (const { step, der } of changes) {
      const problem = await carryOutOne(step, der, folder, machine);
      if (problem !== undefined) return problem;
    }
    return undefined;
  } catch (error) {
    return messageOf(error);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function carryOutOne(step: Step, der: Buffer, folder: string, machine: Machine): Promise<string | undefined> {
  if ('write' in step) {
    // A link in its place is replaced, not followed.
    await rm(step.write, { force: true });
    await writeFile(step.write, certificatePem(der), { mode: 0o644, flag: 'wx' });
    return undefined;
  }
  if ('remove' in step) {
    await rm(step.remove, { force: true });
    return undefined;
  }
  const file = join(folder, `${entryName(der)}.pem`);
  writeFileSync(file, certificatePem(der));
  const [program = '', ...args] = step.run.map((word) => (word === ROOT_FILE ? file : word));
  const { code, stdout, stderr } = await runOn(machine, program, args);
  if (code === 0) return undefined;
  const said = `${stderr}${stdout}`.trim().split('\n')[0] ?? '';
  return `${program} failed (${code}): ${said}`;
}

async function stateOf(place: TrustPlace, { trusted, own }: GatewayRoots): Promise<TrustState> {
  const known: boolean[] = [];
  for (const der of trusted) known.push(await place.trusts(der));
  if (known.every(Boolean)) return 'trusted';
  if (known.some(Boolean)) return 'partly';
  return (await place.entries()).some(({ der }) => own.has(fingerprint(der))) ? 'older' : 'missing';
}

function isWritable(path: string): boolean {
  try {
    if (path !== '') accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** As a person would type it. */
function shown(step: Step, der: Buffer): string {
  const file = `${entryName(der)}.pem`;
  if ('write' in step) return `install -m 644 ${file} ${quoted(step.write)}`;
  if ('remove' in step) return `rm ${quoted(step.remove)}`;
  return step.run.map((word) => quoted(word === ROOT_FILE ? file : word)).join(' ');
}

export function quoted(word: string): string {
  return /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
