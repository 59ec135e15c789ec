// ClientHellos made by hand, for what no TLS library would send.

export interface HelloParts {
  readonly suites?: readonly number[];

  /** Host names of `server_name`; none leaves the extension out. */
  readonly names?: readonly string[];
  /** Put in front of `server_name`: type, data. */
  readonly before?: readonly (readonly [number, Uint8Array])[];
  readonly after?: readonly (readonly [number, Uint8Array])[];
}

/** A GREASE value (RFC 8701), as browsers put them into lists of suites and extensions. */
export const GREASE = 0x2a2a;
/** `encrypted_client_hello` (draft-ietf-tls-esni). */
export const ECH = 0xfe0d;
export const PADDING = 21;

/** `bytes` behind their length. */
export function vector(lengthBytes: number, bytes: Uint8Array): Buffer {
  const length = Buffer.alloc(lengthBytes);
  length.writeUIntBE(bytes.length, 0, lengthBytes);
  return Buffer.concat([length, bytes]);
}

export function uint16(value: number): Buffer {
  return Buffer.from([value >> 8, value & 0xff]);
}

export function extension(type: number, data: Uint8Array): Buffer {
  return Buffer.concat([uint16(type), vector(2, data)]);
}

/** An extension that is a list of numbers of two bytes, behind a length of so many. */
export function numbers(type: number, values: readonly number[], lengthBytes = 2): readonly [number, Buffer] {
  return [type, vector(lengthBytes, Buffer.concat(values.map(uint16)))];
}

export function serverName(names: readonly string[]): Buffer {
  return vector(2, Buffer.concat(names.map((name) => Buffer.concat([Buffer.of(0), vector(2, Buffer.from(name, 'latin1'))]))));
}

/** The handshake message, without record headers. */
export function helloMessage({ names, suites = [GREASE, 0x1301, 0x1302], before = [], after = [] }: HelloParts = {}): Buffer {
  const extensions = [
    ...before.map(([type, data]) => extension(type, data)),
    ...(names ? [extension(0, serverName(names))] : []),
    ...after.map(([type, data]) => extension(type, data)),
  ];
  const body = Buffer.concat([
    uint16(0x0303),
    Buffer.alloc(32, 7),
    vector(1, Buffer.alloc(32, 9)),
    vector(2, Buffer.concat(suites.map(uint16))),
    vector(1, Buffer.of(0)),
    vector(2, Buffer.concat(extensions)),
  ]);
  return Buffer.concat([Buffer.of(1), vector(3, body)]);
}

/** A message cut into records of at most `size` bytes. */
export function records(message: Uint8Array, size = 16_384): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < message.length; at += size)
    parts.push(Buffer.concat([Buffer.of(22, 3, 1), vector(2, message.subarray(at, at + size))]));
  return Buffer.concat(parts);
}

export function hello(...names: readonly string[]): Buffer {
  return records(helloMessage({ names, before: [[GREASE, new Uint8Array(0)]] }));
}
