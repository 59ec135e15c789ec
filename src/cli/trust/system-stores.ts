import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { certificatesIn } from '../../base/lib/pem.ts';
import { findProgram } from './run-program.ts';
import { derOf, type Entry, type Machine, NAME, ROOT_FILE, runOn, sha1Hex, type TrustPlace } from './trust-place.ts';

/** A system that reads a folder of roots and makes one file of them, which programs read. */
interface AnchorRow {
  readonly system: string;
  /** Where roots are put. */
  readonly folder: string;
  readonly suffix: string;
  readonly refresh: readonly string[];
  /** Behind the command when something was taken out. */
  readonly fresh?: readonly string[];
  /** Arguments for an image below a folder; undefined: it has to be run inside. */
  readonly below?: (root: string) => readonly string[];
  /** What comes of it. */
  readonly bundle: string;
}

const ANCHORS: readonly AnchorRow[] = [
  {
    system: 'Debian, Ubuntu, Alpine',
    folder: '/usr/local/share/ca-certificates',
    suffix: '.crt',
    refresh: ['update-ca-certificates'],
    fresh: ['--fresh'],
    below: (root) => [
      ...['--certsconf', join(root, '/etc/ca-certificates.conf'), '--certsdir', join(root, '/usr/share/ca-certificates')],
      ...['--localcertsdir', join(root, '/usr/local/share/ca-certificates'), '--etccertsdir', join(root, '/etc/ssl/certs')],
      ...['--hooksdir', join(root, '/etc/ca-certificates/update.d')],
    ],
    bundle: '/etc/ssl/certs/ca-certificates.crt',
  },
  {
    system: 'Fedora, RHEL',
    folder: '/etc/pki/ca-trust/source/anchors',
    suffix: '.pem',
    refresh: ['update-ca-trust', 'extract'],
    bundle: '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  },
  {
    system: 'openSUSE',
    folder: '/etc/pki/trust/anchors',
    suffix: '.pem',
    refresh: ['update-ca-certificates'],
    bundle: '/var/lib/ca-certificates/ca-bundle.pem',
  },
  {
    system: 'Arch',
    folder: '/etc/ca-certificates/trust-source/anchors',
    suffix: '.crt',
    refresh: ['update-ca-trust'],
    bundle: '/etc/ca-certificates/extracted/tls-ca-bundle.pem',
  },
];

const SYSTEM_COVERS = 'curl, git, wget, OpenSSL, Python’s ssl, Go, Ruby, PHP, .NET; Node with NODE_USE_SYSTEM_CA=1';

/** A store that is asked and changed by commands alone. */
interface CommandRow {
  readonly platform: string;
  readonly where: string;
  readonly covers: string;
  /** Prints certificates that are called like ours, as PEM or as one line of base64 each. */
  readonly list: readonly string[];
  readonly add: readonly string[];
  /** `{sha1}` stands for the entry. */
  readonly remove: readonly string[];
  /** Who may change it; the path of something that only they can write. */
  readonly guard: string;
}

const KEYCHAIN = '/Library/Keychains/System.keychain';
const COMMANDS: readonly CommandRow[] = [
  {
    platform: 'darwin',
    where: KEYCHAIN,
    covers: 'Safari, Chrome, Edge, curl, Go, Swift; Firefox with security.enterprise_roots.enabled',
    list: ['security', 'find-certificate', '-a', '-c', 'AI Request Gateway Root', '-p', KEYCHAIN],
    add: ['security', 'add-trusted-cert', '-d', '-r', 'trustRoot', '-k', KEYCHAIN, ROOT_FILE],
    remove: ['security', 'delete-certificate', '-Z', '{sha1}', '-t', KEYCHAIN],
    guard: KEYCHAIN,
  },
  {
    platform: 'win32',
    where: 'Cert:\\CurrentUser\\Root',
    covers: 'Edge, Chrome, .NET, PowerShell, curl of Windows; Firefox with security.enterprise_roots.enabled',
    list: [
      ...['powershell', '-NoProfile', '-Command'],
      "Get-ChildItem Cert:\\CurrentUser\\Root | Where-Object Subject -like '*AI Request Gateway Root*' | ForEach-Object { [Convert]::ToBase64String($_.RawData) }",
    ],
    add: ['certutil', '-user', '-addstore', '-f', 'Root', ROOT_FILE],
    remove: ['certutil', '-user', '-delstore', 'Root', '{sha1}'],
    guard: '',
  },
];

/** The stores of the operating system that are there. */
export function systemStores(machine: Machine): readonly TrustPlace[] {
  const command = COMMANDS.filter(({ platform }) => platform === machine.platform).map((row) => commandPlace(row, machine));
  if (machine.platform !== 'linux') return command;
  const row = ANCHORS.find(({ folder }) => existsSync(join(machine.root, folder)));
  return row === undefined ? [] : [anchorPlace(row, machine)];
}

function anchorPlace(row: AnchorRow, machine: Machine): TrustPlace {
  const folder = join(machine.root, row.folder);
  const [program = '', ...rest] = row.refresh;
  const path = findProgram(program, machine.env);
  const below = machine.root === '' ? [] : row.below?.(machine.root);
  const refresh = [path ?? program, ...rest, ...(below ?? [])];
  return {
    store: 'system',
    where: folder,
    covers: SYSTEM_COVERS,
    lacks: lackOf(program, path, below),
    guard: folder,
    entries: () => Promise.resolve(filesIn(folder)),
    trusts: (root) => Promise.resolve(ownCertificates(join(machine.root, row.bundle)).some((der) => der.equals(root))),
    add: (name) => [{ write: join(folder, `${name}${row.suffix}`) }, { run: refresh }],
    remove: ({ name }) => [{ remove: name }, { run: [...refresh, ...(row.fresh ?? [])] }],
  };
}

function lackOf(program: string, path: string | undefined, below: readonly string[] | undefined): string | undefined {
  if (below === undefined) return `${program} cannot work on a system below a folder: run gw trust inside of it`;
  return path === undefined ? `${program} is not there: install the package ca-certificates` : undefined;
}

function filesIn(folder: string): readonly Entry[] {
  return readdirSync(folder)
    .filter((name) => name.startsWith(NAME))
    .flatMap((name) => ownCertificates(join(folder, name)).map((der) => ({ name: join(folder, name), der })));
}

function ownCertificates(file: string): readonly Buffer[] {
  try {
    return certificatesIn(readFileSync(file, 'utf8')).map(derOf);
  } catch {
    // Not there yet: nothing is trusted.
    return [];
  }
}

function commandPlace(row: CommandRow, machine: Machine): TrustPlace {
  const entries = async (): Promise<readonly Entry[]> => {
    const [program = '', ...args] = row.list;
    const { stdout } = await runOn(machine, program, args);
    const pem = certificatesIn(stdout);
    const texts = pem.length > 0 ? pem : stdout.split(/\r?\n/).filter((line) => /^[A-Za-z0-9+/=]{64,}$/.test(line));
    return texts.map(derOf).map((der) => ({ name: sha1Hex(der), der }));
  };
  return {
    store: 'system',
    where: row.where,
    covers: row.covers,
    lacks: machine.root === '' ? undefined : 'only Linux systems can be changed below a folder',
    guard: row.guard,
    entries,
    trusts: async (root) => (await entries()).some(({ der }) => der.equals(root)),
    add: () => [{ run: row.add }],
    remove: ({ name }) => [{ run: row.remove.map((word) => word.replace('{sha1}', name)) }],
  };
}
