import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { canonicalJson } from '../../base/json/jcs.ts';
import { readRegularFile } from '../../base/lib/file-system.ts';
import { codeOf } from '../../base/lib/gateway-error.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { Unusable } from '../command.ts';
import { whyUnreadable } from '../process-io.ts';

const MAX_KEY_BYTES = 16_384;

/**
 * The private key of an issuer of delegation tokens, or of a witness. It never leaves the machine on which it signs;
 * others have the public one alone.
 */
export class SigningKey {
  readonly #key: KeyObject;
  /** Of 32 bytes, base64. */
  readonly publicKey: string;

  private constructor(key: KeyObject) {
    this.#key = key;
    this.publicKey = Buffer.from(createPublicKey(key).export({ format: 'jwk' }).x ?? '', 'base64url').toString('base64');
  }

  static make(): SigningKey {
    return new SigningKey(generateKeyPairSync('ed25519').privateKey);
  }

  /** @param maker the command that makes one @throws Unusable for a file that holds no private Ed25519 key in PEM */
  static async read(file: string, maker = 'gw delegate keygen'): Promise<SigningKey> {
    const bytes = await readRegularFile(file, MAX_KEY_BYTES).catch((error: unknown) => {
      throw new Unusable(`${file}: ${whyUnreadable(error)}`);
    });
    const key = privateKeyIn(bytes);
    if (key?.asymmetricKeyType !== 'ed25519') throw new Unusable(`${file} holds no private Ed25519 key in PEM; ${maker} makes one`);
    return new SigningKey(key);
  }

  /** A name for it that says nothing else: the first characters of the SHA-256 of the public key. */
  get kid(): string {
    return sha256Hex(Buffer.from(this.publicKey, 'base64')).slice(0, 12);
  }

  /** Into a new file that its owner alone reads. @throws Unusable when there is one already, or none can be made */
  async write(file: string): Promise<void> {
    const pem = this.#key.export({ type: 'pkcs8', format: 'pem' });
    await writeFile(file, pem, { mode: 0o600, flag: 'wx' }).catch(async (error: unknown) => {
      // Half of a key, as a full disk leaves it, is none, and would be in the way of the next one.
      if (codeOf(error) !== 'EEXIST') await rm(file, { force: true }).catch(() => undefined);
      throw new Unusable(`${file}: ${whyUnreadable(error)}`);
    });
  }

  /** Ed25519 over a message. */
  signature(message: Uint8Array): Buffer {
    return sign(null, message, this.#key);
  }

  /** Base64 of the token with its signature (decision 9.4). */
  token(fields: Readonly<Record<string, unknown>>, kid: string): string {
    const signature = this.signature(Buffer.from(canonicalJson(fields), 'utf8'));
    const token = { ...fields, sig: { alg: 'ed25519', kid, sig: signature.toString('base64') } };
    return Buffer.from(JSON.stringify(token), 'utf8').toString('base64');
  }
}

function privateKeyIn(bytes: Uint8Array): KeyObject | undefined {
  try {
    return createPrivateKey(Buffer.from(bytes));
  } catch {
    return undefined;
  }
}
