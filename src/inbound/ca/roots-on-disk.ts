import { generateKeyPair, type KeyObject, X509Certificate } from 'node:crypto';
import { promisify } from 'node:util';
import type { Clock } from '../../base/lib/clock.ts';
import { uuidv7 } from '../../base/lib/ids.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { certificatePem, issueRoot, subjectOf } from './certificate.ts';
import { wholeSeconds } from './context-cache.ts';
import {
  createNextKey,
  createRootFiles,
  NEXT_KEY,
  promoteNextKey,
  ROOT_CERTIFICATE,
  type RootFiles,
  readRootFiles,
  readRotationFile,
  removeNextKey,
  type StagedFile,
  stagePublicFile,
} from './root-files.ts';
import { belongTogether, isOwnRoot, type NextRoot, type RootState, readRootState, splitRoots, stageRootState } from './root-state.ts';

const DAY_MS = 86_400_000;
const ROOT_LIFE_MS = 3650 * DAY_MS;
/** Valid a day ago, for clocks that are behind. */
const BACKDATED_MS = DAY_MS;

const generateKeyPairAsync = promisify(generateKeyPair);

/** An EC P-256 key pair, made off the event loop. */
export async function generateKeys(): Promise<{ publicKey: KeyObject; privateKey: KeyObject }> {
  return await generateKeyPairAsync('ec', { namedCurve: 'P-256' });
}

/** An RSA key pair of 2,048 bits, made off the event loop: what clients without ECDSA take. */
export async function generateRsaKeys(): Promise<{ publicKey: KeyObject; privateKey: KeyObject }> {
  return await generateKeyPairAsync('rsa', { modulusLength: 2048 });
}

/**
 * The roots of one folder, and the steps from one to the next. Each change has one step at which it is done, the
 * writing of `roots.json` or the rename of a key; a process that ends before or after it leaves what {@link
 * RootsOnDisk.open} makes whole (decision 12.10).
 */
export class RootsOnDisk {
  readonly #dir: string;
  readonly #clock: Clock;
  #files: RootFiles;
  #state: RootState;

  private constructor(dir: string, clock: Clock, files: RootFiles, state: RootState) {
    this.#dir = dir;
    this.#clock = clock;
    this.#files = files;
    this.#state = state;
  }

  /**
   * Reads them, or makes the first one, and ends what a process before has begun.
   * @throws CertificateAuthorityError when they cannot be used
   */
  static async open(dir: string, clock: Clock): Promise<{ readonly roots: RootsOnDisk; readonly created: boolean }> {
    const found = await readRootFiles(dir);
    if (found === undefined) {
      const files = await makeRoot(clock);
      await createRootFiles(dir, files);
      const roots = new RootsOnDisk(dir, clock, files, { made: [], next: undefined });
      await roots.#remember(files.certificate);
      return { roots, created: true };
    }
    const roots = new RootsOnDisk(dir, clock, found, await readRootState(dir));
    await roots.#makeWhole();
    if (roots.#state.next !== undefined && clock.now() >= roots.#state.next.switchAt) await roots.switchOver();
    else await roots.dropExpired();
    return { roots, created: false };
  }

  get next(): NextRoot | undefined {
    return this.#state.next;
  }

  get made(): readonly string[] {
    return this.#state.made;
  }

  /** What signs: the files without the roots that are trusted beside. */
  get signing(): RootFiles {
    const { signing } = this.#split();
    return { certificate: signing.length === 0 ? this.#files.certificate : signing.join('\n'), key: this.#files.key };
  }

  /** Former roots that clients still trust, PEM. */
  get former(): readonly string[] {
    const next = this.#state.next && fingerprintOf(this.#state.next.certificate);
    return this.#split().others.filter((pem) => fingerprintOf(pem) !== next);
  }

  /** True when the root that signs was made by a gateway: another one is its owner's to replace. */
  get isOwn(): boolean {
    const { signing } = this.#split();
    return signing.length === 1 && isOwnRoot(signing[0] ?? '');
  }

  /**
   * Makes the root that signs from `switchAt` on.
   * @param agreed called when everything that is needed lies ready on the disk, and before it counts; what it throws
   * ends it
   * @throws CertificateAuthorityError where there is no room; all is as before then
   */
  async plan(switchAt: number, agreed: (fingerprint: string) => Promise<void>): Promise<void> {
    const { certificate, key } = await makeRoot(this.#clock);
    await createNextKey(this.#dir, key);
    const next: NextRoot = { certificate, switchAt };
    try {
      const state: RootState = { made: withOne(this.#state.made, fingerprintOf(certificate)), next };
      await this.#agreedTo([await this.#stageState(state), () => this.#stageCertificates(undefined, next)], () =>
        agreed(fingerprintOf(certificate)),
      );
    } catch (error) {
      if (this.#state.next !== next) await removeNextKey(this.#dir);
      throw error;
    }
  }

  /** The next root signs. */
  async switchOver(): Promise<void> {
    const { next, made } = this.#state;
    if (next === undefined) return;
    // Done already where what follows could not be written the last time.
    if (!belongTogether(next.certificate, this.#files.key)) {
      const key = (await readRotationFile(this.#dir, NEXT_KEY)) ?? '';
      await promoteNextKey(this.#dir);
      this.#files = { ...this.#files, key };
    }
    await this.#writeCertificates();
    await this.#write({ made, next: undefined });
  }

  /**
   * The next root is given up; the file of certificates first, so that one that nobody remembers is not trusted for
   * ever.
   * @param agreed as for {@link plan}
   */
  async cancel(agreed: () => Promise<void>): Promise<void> {
    const { next, made } = this.#state;
    if (next === undefined) return;
    const rest = this.former;
    await this.#agreedTo([await this.#stageCertificates(rest), () => this.#stageState({ made, next: undefined })], agreed);
    await removeNextKey(this.#dir);
  }

  /** Former roots are not trusted any more. @param agreed as for {@link plan} */
  async finish(agreed: () => Promise<void>): Promise<void> {
    await this.#agreedTo([await this.#stageCertificates(this.#state.next === undefined ? [] : [this.#state.next.certificate])], agreed);
  }

  /** Former roots that have ended go. */
  async dropExpired(): Promise<void> {
    const left = this.#split().others.filter((pem) => Date.parse(new X509Certificate(pem).validTo) > this.#clock.now());
    if (left.length < this.#split().others.length) await this.#writeCertificates(left);
  }

  async #makeWhole(): Promise<void> {
    const key = await readRotationFile(this.#dir, NEXT_KEY);
    const { next, made } = this.#state;
    if (next === undefined) {
      // Made, and not remembered: nobody has been told of it.
      if (key !== undefined) await removeNextKey(this.#dir);
      return;
    }
    if (key !== undefined && belongTogether(next.certificate, key)) {
      const fingerprint = fingerprintOf(next.certificate);
      if (!this.#split().others.some((pem) => fingerprintOf(pem) === fingerprint)) await this.#writeCertificates();
      return;
    }
    const switched = belongTogether(next.certificate, this.#files.key);
    if (key !== undefined) await removeNextKey(this.#dir);
    // Its key is gone: it can sign nothing, and nobody is to trust it.
    await this.#writeCertificates(switched ? undefined : this.former);
    await this.#write({ made, next: undefined });
  }

  async #remember(certificate: string): Promise<void> {
    await this.#write({ ...this.#state, made: withOne(this.#state.made, fingerprintOf(certificate)) });
  }

  async #write(state: RootState): Promise<void> {
    await (await this.#stageState(state)).put();
  }

  async #writeCertificates(others?: readonly string[]): Promise<void> {
    await (await this.#stageCertificates(others)).put();
  }

  /** Files that replace others in their order once it is agreed; of what is not put nothing stays. */
  async #agreedTo([first, stage]: readonly [Step, (() => Promise<Step>)?], agreed: () => Promise<void>): Promise<void> {
    const steps: Step[] = [first];
    try {
      if (stage !== undefined) steps.push(await stage());
      await agreed();
      for (let step = steps.shift(); step !== undefined; step = steps.shift()) await step.put();
    } catch (error) {
      for (const step of steps) await step.drop();
      throw error;
    }
  }

  async #stageState(state: RootState): Promise<Step> {
    const file = await stageRootState(this.#dir, state, uuidv7(this.#clock.now()));
    return stepOf(file, () => {
      this.#state = state;
    });
  }

  /**
   * The one that signs first, so that what reads one certificate alone reads that.
   * @param others default: those that are there, and the next one
   * @param next default: the one of now
   */
  async #stageCertificates(others?: readonly string[], next = this.#state.next): Promise<Step> {
    const split = this.#split(next?.certificate);
    const rest = others ?? split.others;
    const certificate = `${[...split.signing, ...rest].map((one) => one.trim()).join('\n')}\n`;
    const file = await stagePublicFile(this.#dir, ROOT_CERTIFICATE, certificate, uuidv7(this.#clock.now()));
    return stepOf(file, () => {
      this.#files = { ...this.#files, certificate };
    });
  }

  /** @param and a certificate beside those of the file */
  #split(and?: string): ReturnType<typeof splitRoots> {
    const { certificate, key } = this.#files;
    const known = and === undefined || splitHas(certificate, key, and);
    return splitRoots(known ? certificate : `${certificate.trimEnd()}\n${and}`, key);
  }
}

/** A file that lies ready, and what is so once it is put. */
interface Step {
  put(): Promise<void>;
  drop(): Promise<void>;
}

function stepOf(file: StagedFile, done: () => void): Step {
  return { put: () => file.put().then(done), drop: () => file.drop() };
}

function splitHas(certificate: string, key: string, one: string): boolean {
  const { signing, others } = splitRoots(certificate, key);
  return [...signing, ...others].some((pem) => fingerprintOf(pem) === fingerprintOf(one));
}

/** Lower-case hex SHA-256 of the DER. */
export function fingerprintOf(pem: string): string {
  return sha256Hex(new X509Certificate(pem).raw);
}

function withOne(all: readonly string[], one: string): readonly string[] {
  return all.includes(one) ? all : [...all, one];
}

async function makeRoot(clock: Clock): Promise<RootFiles> {
  const { publicKey, privateKey } = await generateKeys();
  const notBefore = wholeSeconds(clock.now() - BACKDATED_MS);
  const der = await issueRoot(subjectOf(publicKey), privateKey, { notBefore, notAfter: notBefore + ROOT_LIFE_MS });
  return { certificate: certificatePem(der), key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
}
