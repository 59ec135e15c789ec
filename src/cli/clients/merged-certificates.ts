import { createHash, X509Certificate } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { inFolder, makeFolder } from '../../base/lib/file-system.ts';
import { javaTrustStore } from '../../inbound/ca/java-trust-store.ts';

const CERTIFICATE = /-----BEGIN (?:TRUSTED )?CERTIFICATE-----[\s\S]*?-----END (?:TRUSTED )?CERTIFICATE-----/g;
/** First line of a file that was made here: what it was made from besides the root. */
const MADE_FROM = /^# gw env: (.+)$/m;

export interface MergedCertificates {
  /** What the variable is to name. */
  readonly file: string;
  /** Why what it named before is not in there. */
  readonly problem?: string;
}

/**
 * A file that holds what a variable names already, such as a company's own root, and the gateway's root: naming the
 * gateway's file alone would take the former away from every program of the shell.
 * @param existing value of the variable, a PEM file or a folder of such
 * @param own the file that is named where nothing is to be kept
 * @param rootFile PEM of the gateway's root, or of a company's intermediate with its issuers behind it
 * @param folder where merged files are kept; made when needed
 * @throws Error when the merged file cannot be written
 */
export async function mergeCertificates(existing: string, own: string, rootFile: string, folder: string): Promise<MergedCertificates> {
  const path = resolve(existing);
  if (existing === '' || path === resolve(own) || path === resolve(rootFile)) return { file: own };
  // A company's chain may stand there, and even a key, which must not come along. While a root is replaced there are
  // two (decision 12.10).
  const roots = readFileSync(rootFile, 'utf8').match(CERTIFICATE) ?? [];
  const anchors = anchorsOf(roots);
  let source = path;
  let text = textOf(path);
  const madeFrom = text === undefined ? undefined : MADE_FROM.exec(text)?.[1];
  if (madeFrom !== undefined && path.startsWith(join(folder, 'trust-'))) {
    // Of an earlier time, perhaps with an earlier root.
    source = madeFrom;
    text = textOf(source);
  }
  if (text === undefined) return { file: own, problem: `${source} cannot be read` };
  const certificates = text.match(CERTIFICATE);
  if (certificates === null) return { file: own, problem: `${source} holds no certificate` };
  const known = anchors.length > 0 && anchors.every((anchor) => certificates.some((one) => same(one, anchor)));
  if (madeFrom === undefined && known) return { file: path };
  return { file: await written(folder, `# gw env: ${source}\n${[...roots, ...certificates].join('\n')}\n`) };
}

/** Those that sign themselves; where none does, the last of the chain. */
function anchorsOf(roots: readonly string[]): readonly string[] {
  const selfSigned = roots.filter(isSelfSigned);
  return selfSigned.length > 0 ? selfSigned : roots.slice(-1);
}

/** What cannot be read as a certificate is kept as text, and is no anchor. */
function isSelfSigned(pem: string): boolean {
  try {
    const { subject, issuer } = new X509Certificate(pem);
    return subject === issuer;
  } catch {
    return false;
  }
}

function same(one: string, other: string): boolean {
  return one.replace(/\s+/g, '') === other.replace(/\s+/g, '');
}

function textOf(path: string): string | undefined {
  try {
    if (!statSync(path).isDirectory()) return readFileSync(path, 'utf8');
    const files = readdirSync(path, { withFileTypes: true }).filter((entry) => !entry.isDirectory());
    return files.map(({ name }) => textOf(join(path, name)) ?? '').join('\n');
  } catch {
    return undefined;
  }
}

/** What a file of {@link mergeCertificates} stands in the place of; undefined for any other file. */
export function mergedFrom(file: string, folder: string): string | undefined {
  if (!resolve(file).startsWith(join(folder, 'trust-'))) return undefined;
  return MADE_FROM.exec(textOf(file) ?? '')?.[1];
}

/**
 * A trust store for Java of the certificates of a PEM file.
 * @param folder where it is kept; made when needed
 * @throws Error when the PEM file cannot be read or the store cannot be written
 */
export async function javaStoreOf(pemFile: string, folder: string): Promise<string> {
  const certificates = readFileSync(pemFile, 'utf8').match(CERTIFICATE) ?? [];
  return written(folder, javaTrustStore(certificates.map((one) => new X509Certificate(one).raw)), 'p12');
}

/** Named after its content, so that one that a program reads at the moment never changes. */
async function written(folder: string, content: string | Uint8Array, ending = 'pem'): Promise<string> {
  const file = join(folder, `trust-${createHash('sha256').update(content).digest('hex').slice(0, 16)}.${ending}`);
  if (existsSync(file)) return file;
  await inFolder('XDG_CACHE_HOME', folder, async () => {
    await makeFolder(folder, 0o700);
    const temporary = `${file}.${process.pid}`;
    writeFileSync(temporary, content, { mode: 0o600 });
    renameSync(temporary, file);
  });
  return file;
}
