import { homedir, platform } from 'node:os';
import { resolve } from 'node:path';
import { shellVariable, wholeEnvironment } from '../../base/config/settings-reader.ts';
import { badValue, parseOptions } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK } from '../command.ts';
import { URL_OPTION } from '../gateway-client.ts';
import { programForSudo } from '../program-name.ts';
import { settingsOf } from '../settings-of.ts';
import { printJson, terminalText } from '../terminal-text.ts';
import { type GatewayRoots, gatewayRoots } from './gateway-roots.ts';
import { javaStores } from './java-stores.ts';
import { nssStores } from './nss-stores.ts';
import { systemStores } from './system-stores.ts';
import { fingerprint, type Machine, STORES, type StoreName, type TrustPlace } from './trust-place.ts';
import { quoted, type TrustReport, type TrustState, type Work, workIn } from './trust-work.ts';

const FINDERS: Readonly<Record<StoreName, (machine: Machine) => readonly TrustPlace[]>> = {
  system: systemStores,
  nss: nssStores,
  java: javaStores,
};
const CHOICES = [...STORES, 'all'].join('|');
const USAGE = `[--store ${CHOICES}] [--root DIR] [--json] [--url http://HOST:PORT]`;
const OPTIONS = { store: { type: 'string' }, root: { type: 'string' }, json: { type: 'boolean' }, ...URL_OPTION } as const;
const CHANGING = { ...OPTIONS, 'dry-run': { type: 'boolean' } } as const;
const HELP = `  --store STORE   system: that of the operating system; nss: Chromium and Firefox; java: each Java (default: all that are there)
  --root DIR      a system below a folder, such as an image that is being made (Debian and its like)
  --dry-run       says what would be done, and does nothing
  --url URL       takes the root from a running gateway, not from GW_CA_DIR
`;

export const installRoot: Command = {
  name: 'trust install',
  usage: USAGE.replace('[--json]', '[--dry-run] [--json]'),
  summary: 'Puts the root into the trust stores of this machine: system, browsers (NSS), Java; exit code 0 when all trust it.',
  help: HELP,
  run: (args, io) => workOn('install', parseOptions(args, CHANGING), io),
};

export const uninstallRoot: Command = {
  name: 'trust uninstall',
  usage: USAGE.replace('[--json]', '[--dry-run] [--json]'),
  summary: "Takes this gateway's roots, those of earlier rotations included, out of the trust stores, and nothing else.",
  help: HELP,
  run: (args, io) => workOn('uninstall', parseOptions(args, CHANGING), io),
};

export const trustStatus: Command = {
  name: 'trust status',
  usage: USAGE,
  summary: 'Shows which trust stores have the root; exit code 0 only when all that are there do.',
  help: HELP,
  run: (args, io) => workOn('status', parseOptions(args, OPTIONS), io),
};

interface Asked {
  readonly store?: string | undefined;
  readonly root?: string | undefined;
  readonly json?: boolean | undefined;
  readonly url?: string | undefined;
  readonly 'dry-run'?: boolean | undefined;
}

async function workOn(
  work: Work,
  { store = 'all', root, json = false, url, 'dry-run': dryRun = false }: Asked,
  io: CliIo,
): Promise<number> {
  const stores = store === 'all' ? STORES : STORES.filter((one) => one === store);
  if (stores.length === 0) throw badValue('--store', `one of ${CHOICES}`, store);
  const roots = await gatewayRoots(url, io);
  const machine = machineOf(io, root);
  const reports: TrustReport[] = [];
  for (const place of stores.flatMap((one) => FINDERS[one](machine))) reports.push(await workIn(place, roots, work, machine, dryRun));
  const again = `sudo ${sudoEnvironment(url, io)}${programForSudo(io.program)} trust ${work} --store `;
  if (json) printJson({ roots: roots.trusted.map(fingerprint), from: roots.from, stores: reports }, io);
  else print(work, roots, reports, again, dryRun, io);
  if (reports.length === 0) return work === 'uninstall' ? EXIT_OK : EXIT_NO;
  return reports.every((report) => isDone(report, work, dryRun)) ? EXIT_OK : EXIT_NO;
}

function machineOf(io: CliIo, root: string | undefined): Machine {
  const env = wholeEnvironment(io.env);
  return { env, platform: platform(), home: shellVariable('HOME', env) ?? homedir(), root: root === undefined ? '' : resolve(root) };
}

/** Without what the shell has, another user would look for the root elsewhere. */
function sudoEnvironment(url: string | undefined, io: CliIo): string {
  return url === undefined ? `GW_CA_DIR=${quoted(resolve(settingsOf(io).caDir))} ` : '';
}

function isDone({ state, problem }: TrustReport, work: Work, dryRun: boolean): boolean {
  if (problem !== undefined) return false;
  // A store that trusts it still has it from somebody else, such as the company that it is of.
  return dryRun || work === 'uninstall' || state === 'trusted';
}

const STATES: Readonly<Record<TrustState, string>> = {
  trusted: 'trusts the root',
  partly: 'trusts one of the roots alone: install again',
  older: 'has an older root alone: install again',
  missing: 'does not have the root',
  unknown: 'could not be asked',
};

function print(work: Work, roots: GatewayRoots, reports: readonly TrustReport[], again: string, dryRun: boolean, io: CliIo): void {
  io.stdout(`root  ${roots.trusted.map(fingerprint).join(', ')}\n      from ${terminalText(roots.from)}\n`);
  if (reports.length === 0) io.stdout('There is no trust store of that kind here.\n');
  for (const { store, where, covers, state, steps, problem, needs_root: needsRoot, strangers } of reports) {
    io.stdout(`\n${store.padEnd(6)}  ${terminalText(where)}: ${STATES[state]}\n        for ${covers}\n`);
    for (const step of steps) io.stdout(`        ${dryRun ? 'would run' : 'did'}  ${terminalText(step)}\n`);
    if (problem !== undefined) io.stdout(`        not done: ${terminalText(problem)}\n`);
    if (needsRoot) io.stdout(`        run  ${terminalText(again)}${store}\n`);
    if (work !== 'install' && strangers.length > 0)
      io.stdout(`        left: ${strangers.map(terminalText).join(', ')} (not known to be of this gateway)\n`);
  }
}
