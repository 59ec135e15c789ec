/** One value of DER (X.690), as it stands in bytes that somebody else has made. */
export interface DerValue {
  /** Of the first byte: class, whether it is constructed, and number; numbers above 30 are not read. */
  readonly tag: number;
  /** Tag and length included. */
  readonly whole: Buffer;
  readonly content: Buffer;
}

/** What is no DER, or not of the shape that is expected. */
export class DerError extends Error {}

export const DER_TAG = {
  integer: 0x02,
  octets: 0x04,
  oid: 0x06,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const;

const LONG_FORM = 0x80;
const MOST_LENGTH_BYTES = 4;
const HIGH_NUMBER = 0x1f;

/** The tag of `[number]`. */
export function contextTag(number: number, isConstructed = true): number {
  return 0x80 + (isConstructed ? 0x20 : 0) + number;
}

/** The one value that these bytes are. @throws DerError */
export function readDer(bytes: Buffer): DerValue {
  const value = valueAt(bytes, 0);
  if (value.whole.length !== bytes.length) throw new DerError('something stands behind the value');
  return value;
}

/** The values in a constructed one, such as a sequence. @throws DerError */
export function membersOf({ content }: DerValue): readonly DerValue[] {
  const members: DerValue[] = [];
  for (let at = 0; at < content.length; ) {
    const member = valueAt(content, at);
    members.push(member);
    at += member.whole.length;
  }
  return members;
}

/** The same value, where it has this tag. @throws DerError that names it */
export function expectTag(value: DerValue | undefined, tag: number, what: string): DerValue {
  if (value?.tag !== tag) throw new DerError(`${what} is not there, or of another type`);
  return value;
}

/** Members of a sequence or set. @throws DerError that names it */
export function membersIn(value: DerValue | undefined, tag: number, what: string): readonly DerValue[] {
  return membersOf(expectTag(value, tag, what));
}

/** An object identifier in dotted form. @throws DerError */
export function oidOf(value: DerValue | undefined, what: string): string {
  const { content } = expectTag(value, DER_TAG.oid, what);
  const arcs: number[] = [];
  let arc = 0;
  for (const byte of content) {
    arc = arc * 128 + (byte % 128);
    if (byte >= 128) continue;
    arcs.push(arc);
    arc = 0;
  }
  const [first = 0, ...rest] = arcs;
  const top = Math.min(2, Math.floor(first / 40));
  return [top, first - top * 40, ...rest].join('.');
}

/** Bytes of a value of this tag. */
export function derBytes(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(contents);
  return Buffer.concat([Buffer.of(tag), lengthBytes(content.length), content]);
}

/** A whole number that is not negative, from its bytes, the highest first. */
export function derInteger(bytes: Uint8Array): Buffer {
  let from = 0;
  while (from < bytes.length - 1 && bytes[from] === 0) from++;
  const digits = bytes.subarray(from);
  return derBytes(DER_TAG.integer, (digits[0] ?? 0) >= 0x80 ? Buffer.of(0) : Buffer.alloc(0), digits);
}

function lengthBytes(length: number): Buffer {
  if (length < LONG_FORM) return Buffer.of(length);
  const digits: number[] = [];
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) digits.unshift(rest % 256);
  return Buffer.of(LONG_FORM + digits.length, ...digits);
}

function valueAt(bytes: Buffer, at: number): DerValue {
  const tag = bytes[at];
  const first = bytes[at + 1];
  if (tag === undefined || first === undefined || tag % 32 === HIGH_NUMBER)
    throw new DerError('it ends too early, or a tag cannot be read');
  const more = first < LONG_FORM ? 0 : first - LONG_FORM;
  const begin = at + 2 + more;
  if ((first >= LONG_FORM && more === 0) || more > MOST_LENGTH_BYTES || begin > bytes.length) throw new DerError('a length cannot be read');
  const length = more === 0 ? first : bytes.readUIntBE(at + 2, more);
  const end = begin + length;
  if (end > bytes.length) throw new DerError('it ends too early');
  return { tag, whole: bytes.subarray(at, end), content: bytes.subarray(begin, end) };
}
