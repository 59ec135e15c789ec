import { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

const ALGORITHM = 'aes-256-gcm';
const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Something encrypted at rest: a data key that is wrapped by the gateway's key, and the text under that data key. All
 * base64. JSON data.
 */
export interface Sealed {
  /** Which of the gateway's keys wraps the data key. */
  readonly kid: string;
  readonly key: string;
  readonly text: string;
}

/** A sealed text that cannot be read: its key is not there, or it was changed, or it belongs elsewhere. */
export class SealError extends Error {
  override readonly name = 'SealError';
}

/**
 * Envelope encryption with AES-256-GCM (NIST SP 800-38D): every text has a data key of its own, so that a new gateway
 * key only needs the data keys wrapped again. The context (what the text is for) is authenticated with it: a sealed
 * text moved to another place does not open.
 */
export class SecretBox {
  readonly #keys: ReadonlyMap<string, Buffer>;
  readonly #current: string;

  /**
   * @param keys 32 bytes each; the first one seals, all of them open
   * @throws RangeError when there is none, or one has another length
   */
  constructor(keys: readonly Uint8Array[]) {
    const known = keys.map((key) => [keyId(key), Buffer.from(key)] as const);
    const [first] = known;
    if (first === undefined || known.some(([, key]) => key.length !== KEY_BYTES)) throw new RangeError('a secrets key has 32 bytes');
    this.#keys = new Map(known);
    this.#current = first[0];
  }

  seal(text: Uint8Array | string, context: string): Sealed {
    const dataKey = randomBytes(KEY_BYTES);
    return { kid: this.#current, key: this.#wrap(dataKey, context), text: encrypt(dataKey, Buffer.from(text), context).toString('base64') };
  }

  /** @throws SealError */
  open(sealed: Sealed, context: string): Buffer {
    return decrypt(this.#unwrap(sealed, context), Buffer.from(sealed.text, 'base64'), context);
  }

  /** The same text with its data key wrapped by the current key; undefined when it is already. @throws SealError */
  rewrap(sealed: Sealed, context: string): Sealed | undefined {
    if (sealed.kid === this.#current) return undefined;
    return { kid: this.#current, key: this.#wrap(this.#unwrap(sealed, context), context), text: sealed.text };
  }

  /**
   * What names a secret to whoever has one of the gateway's keys, and tells nobody else anything about it: by the
   * current key first, then by the others.
   */
  fingerprints(secret: string, context: string): readonly [string, ...string[]] {
    const by = (key: Uint8Array): string => {
      const own = createHmac('sha256', key).update('fingerprint of a secret').digest();
      return createHmac('sha256', own).update(`${context}\0${secret}`).digest('hex');
    };
    const [first = new Uint8Array(0), ...others] = this.#keys.values();
    return [by(first), ...others.map(by)];
  }

  #wrap(dataKey: Buffer, context: string): string {
    const key = this.#keys.get(this.#current);
    if (key === undefined) throw new SealError('there is no current key');
    return encrypt(key, dataKey, `${this.#current}:${context}`).toString('base64');
  }

  #unwrap({ kid, key }: Sealed, context: string): Buffer {
    const known = this.#keys.get(kid);
    if (known === undefined) throw new SealError(`it was sealed with the key ${kid}, which this gateway does not have`);
    return decrypt(known, Buffer.from(key, 'base64'), `${kid}:${context}`);
  }
}

/** Names a key without telling anything about it. */
export function keyId(key: Uint8Array): string {
  return createHash('sha256').update('gw secrets key').update(key).digest('hex').slice(0, 16);
}

function encrypt(key: Buffer, plain: Buffer, context: string): Buffer {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(ALGORITHM, key, iv).setAAD(Buffer.from(context));
  return Buffer.concat([iv, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

function decrypt(key: Buffer, box: Buffer, context: string): Buffer {
  if (box.length < IV_BYTES + TAG_BYTES) throw new SealError('it is cut short');
  const decipher = createDecipheriv(ALGORITHM, key, box.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(context)).setAuthTag(box.subarray(box.length - TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(box.subarray(IV_BYTES, box.length - TAG_BYTES)), decipher.final()]);
  } catch (error) {
    throw new SealError('it was changed, or sealed for another place', { cause: error });
  }
}

/**
 * Compares two secrets in a time that tells nothing about where they differ. Both are hashed first, so that different
 * lengths take the same way.
 */
export function sameSecret(presented: string, expected: string): boolean {
  return timingSafeEqual(digest(presented), digest(expected));
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text, 'utf8').digest();
}
