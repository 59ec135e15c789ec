import type { HelloAlgorithms } from './hello-keys.ts';

/**
 * Of the ClientHello message that is looked at. Servers take larger ones, so a longer one is judged by what its first
 * part says.
 */
const MAX_MESSAGE_BYTES = 16_384;
/**
 * Of everything that is read for it, record headers included: a client may cut the message into records of one byte.
 */
const MAX_WIRE_BYTES = 2 * MAX_MESSAGE_BYTES;
/** RFC 8446 §5.1: content type, version, length. */
const RECORD_HEADER_BYTES = 5;
const MAX_RECORD_BYTES = 16_384;
/** RFC 8446 §4: type, length. */
const MESSAGE_HEADER_BYTES = 4;
const RANDOM_BYTES = 32;
const HANDSHAKE = 22;
const CLIENT_HELLO = 1;
const VERSION_MAJOR = 3;
/** RFC 6066 §3. */
const SERVER_NAME = 0;
const HOST_NAME = 0;
/** RFC 7301 §3.1. */
const ALPN = 16;
/** RFC 8446 §4.2: lists of numbers of two bytes, behind a length of so many bytes. */
const SUPPORTED_GROUPS = 10;
const SIGNATURE_ALGORITHMS = 13;
const SUPPORTED_VERSIONS = 43;
const NO_NAMES: readonly string[] = [];
const NOTHING: Wishes = { names: NO_NAMES, protocols: NO_NAMES, algorithms: undefined };
const NO_BYTES = Buffer.alloc(0);
/** Most are smaller; a larger one grows the buffer. */
const FIRST_CAPACITY = 2_048;

/** What a client asks for in its ClientHello. */
interface Wishes {
  readonly names: readonly string[];
  readonly protocols: readonly string[];
  /** Undefined where the message cannot be read to its end. */
  readonly algorithms: HelloAlgorithms | undefined;
}

/**
 * Reads the host names that a TLS ClientHello asks for, from bytes as they come: over any number of segments and
 * records. What is not a well-formed ClientHello names nothing. With encrypted ClientHello the name is that of the
 * outer one, as it is for everybody on the way. Never throws.
 */
export class ClientHelloReader {
  #wishes = NOTHING;
  #done = false;
  #wireBytes = 0;
  #headerBytes = 0;
  #recordLength = 0;
  /** Of the record whose header is complete. */
  #recordLeft = 0;
  #message = NO_BYTES;
  #size = 0;
  #wanted = MESSAGE_HEADER_BYTES;

  /** What stands in `server_name`, as it was sent; empty until `push` has answered true. */
  get names(): readonly string[] {
    return this.#wishes.names;
  }

  /**
   * The protocols that it offers by ALPN, in its order; empty without the extension, and until `push` has answered
   * true.
   */
  get protocols(): readonly string[] {
    return this.#wishes.protocols;
  }

  /**
   * What it says of suites and algorithms; undefined until `push` has answered true, and for what is no whole
   * ClientHello.
   */
  get algorithms(): HelloAlgorithms | undefined {
    return this.#wishes.algorithms;
  }

  /** Takes the next bytes. True: everything is known that there is to know, further bytes change nothing. */
  push(chunk: Uint8Array): boolean {
    let at = 0;
    while (at < chunk.length && !this.#done) {
      const before = at;
      if (this.#headerBytes < RECORD_HEADER_BYTES) this.#readHeader(chunk[at++] ?? 0);
      else at += this.#readBody(chunk, at);
      this.#wireBytes += at - before;
      if (!this.#done && this.#wireBytes >= MAX_WIRE_BYTES) this.#conclude();
    }
    return this.#done;
  }

  #readHeader(byte: number): void {
    const at = this.#headerBytes++;
    if (at === 0) this.#done = byte !== HANDSHAKE;
    else if (at === 1) this.#done = byte !== VERSION_MAJOR;
    else if (at === 3) this.#recordLength = byte << 8;
    else if (at === 4) {
      this.#recordLength |= byte;
      this.#recordLeft = this.#recordLength;
      this.#done = this.#recordLength === 0 || this.#recordLength > MAX_RECORD_BYTES;
    }
  }

  /** @returns how many bytes of the chunk were taken, at least one */
  #readBody(chunk: Uint8Array, at: number): number {
    const taken = Math.min(this.#recordLeft, this.#wanted - this.#size, chunk.length - at);
    this.#reserve(this.#size + taken);
    this.#message.set(chunk.subarray(at, at + taken), this.#size);
    this.#size += taken;
    this.#recordLeft -= taken;
    if (this.#recordLeft === 0) this.#headerBytes = 0;
    if (this.#size === this.#wanted) this.#complete();
    return taken;
  }

  /** The header of the message is there, or all of it. */
  #complete(): void {
    if (this.#size > MESSAGE_HEADER_BYTES) {
      this.#conclude();
      return;
    }
    const length = this.#message.readUIntBE(1, 3);
    if (this.#message[0] !== CLIENT_HELLO || length === 0) this.#done = true;
    else this.#wanted = Math.min(MESSAGE_HEADER_BYTES + length, MAX_MESSAGE_BYTES);
  }

  #conclude(): void {
    this.#done = true;
    this.#wishes = wishesOf(this.#message, this.#size);
  }

  #reserve(size: number): void {
    if (size <= this.#message.length) return;
    const grown = Buffer.allocUnsafe(Math.min(Math.max(size, 2 * this.#message.length, FIRST_CAPACITY), MAX_MESSAGE_BYTES));
    this.#message.copy(grown, 0, 0, this.#size);
    this.#message = grown;
  }
}

/**
 * RFC 8446 §4.1.2: version, random, session id, cipher suites, compression methods, extensions. A message that breaks
 * off is read as far as it goes.
 */
function wishesOf(message: Buffer, size: number): Wishes {
  const broken = size < MESSAGE_HEADER_BYTES + message.readUIntBE(1, 3);
  const hello = new Cursor(message, MESSAGE_HEADER_BYTES, size);
  if (!hello.skip(2 + RANDOM_BYTES) || !hello.vector(1)) return NOTHING;
  const suites = hello.vector(2);
  if (suites === undefined || !hello.vector(1)) return NOTHING;
  // Before TLS 1.2 was usual there were clients without any.
  if (hello.atEnd && !broken) return { ...NOTHING, algorithms: { suites: suites.numbers(), ...NO_LISTS } };
  const extensions = broken ? hello.skip(2) && hello : hello.vector(2);
  if (!extensions) return NOTHING;
  return readExtensions(extensions, broken, suites) ?? NOTHING;
}

type Lists = Record<keyof typeof NO_LISTS, readonly number[] | undefined>;

const NO_LISTS = { versions: undefined, signatures: undefined, groups: undefined };

function readExtensions(extensions: Cursor, broken: boolean, suites: Cursor): Wishes | undefined {
  const names: string[] = [];
  const protocols: string[] = [];
  const lists: Lists = { ...NO_LISTS };
  while (!extensions.atEnd) {
    const type = extensions.number(2);
    const data = extensions.vector(2);
    if (type === undefined || data === undefined) return broken ? { names, protocols, algorithms: undefined } : undefined;
    if (type === SERVER_NAME && !readNames(data, names)) return undefined;
    if (type === ALPN) readProtocols(data, protocols);
    else readList(type, data, lists);
  }
  return { names, protocols, algorithms: { suites: suites.numbers(), ...lists } };
}

function readList(type: number, data: Cursor, lists: Lists): void {
  if (type === SUPPORTED_GROUPS) lists.groups = data.vector(2)?.numbers();
  else if (type === SIGNATURE_ALGORITHMS) lists.signatures = data.vector(2)?.numbers();
  else if (type === SUPPORTED_VERSIONS) lists.versions = data.vector(1)?.numbers();
}

/**
 * As far as it is well-formed: servers without ALPN do not look at it, so that a fault in it must not hide the names.
 */
function readProtocols(data: Cursor, protocols: string[]): void {
  const list = data.vector(2);
  for (let protocol = list?.vector(1); protocol !== undefined; protocol = list?.vector(1)) protocols.push(protocol.text());
}

/** A server accepts one name; were there more, nobody could say which of them it takes. */
function readNames(data: Cursor, names: string[]): boolean {
  const list = data.vector(2);
  if (!list) return false;
  while (!list.atEnd) {
    const type = list.number(1);
    const name = list.vector(2);
    if (name === undefined) return false;
    if (type === HOST_NAME) names.push(name.text());
  }
  return true;
}

/** Walks over fields of a message; each step answers undefined (or false) where the bytes end. */
class Cursor {
  readonly #bytes: Buffer;
  readonly #end: number;
  #at: number;

  constructor(bytes: Buffer, at: number, end: number) {
    this.#bytes = bytes;
    this.#at = at;
    this.#end = end;
  }

  get atEnd(): boolean {
    return this.#at === this.#end;
  }

  skip(bytes: number): boolean {
    if (this.#end - this.#at < bytes) return false;
    this.#at += bytes;
    return true;
  }

  number(bytes: number): number | undefined {
    const at = this.#at;
    return this.skip(bytes) ? this.#bytes.readUIntBE(at, bytes) : undefined;
  }

  /** The rest, as numbers of two bytes. */
  numbers(): readonly number[] {
    const numbers: number[] = [];
    for (let number = this.number(2); number !== undefined; number = this.number(2)) numbers.push(number);
    return numbers;
  }

  /** A field that its length, of so many bytes, stands in front of. */
  vector(lengthBytes: number): Cursor | undefined {
    const length = this.number(lengthBytes);
    const at = this.#at;
    return length !== undefined && this.skip(length) ? new Cursor(this.#bytes, at, at + length) : undefined;
  }

  text(): string {
    return this.#bytes.toString('latin1', this.#at, this.#end);
  }
}
