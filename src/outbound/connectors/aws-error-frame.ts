import { crc32 } from 'node:zlib';

const TEXT_TYPE = 7;
/** Prelude with its checksum, and the checksum at the end. */
const AROUND = 16;

/** A message of an AWS event stream that tells an error with a code of its own, which every SDK throws. `code` and `message` are ASCII. */
export function awsErrorFrame(code: string, message: string, json: string): Buffer {
  const fields = { ':message-type': 'error', ':error-code': code, ':error-message': message, ':content-type': 'application/json' };
  const headers = Buffer.concat(Object.entries(fields).map(([name, value]) => textHeader(name, value)));
  const payload = Buffer.from(json);
  const frame = Buffer.alloc(AROUND + headers.length + payload.length);
  frame.writeUInt32BE(frame.length, 0);
  frame.writeUInt32BE(headers.length, 4);
  frame.writeUInt32BE(crc32(frame.subarray(0, 8)), 8);
  headers.copy(frame, 12);
  payload.copy(frame, 12 + headers.length);
  frame.writeUInt32BE(crc32(frame.subarray(0, -4)), frame.length - 4);
  return frame;
}

function textHeader(name: string, value: string): Buffer {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(Buffer.byteLength(value));
  return Buffer.concat([Buffer.from([name.length]), Buffer.from(name), Buffer.from([TEXT_TYPE]), length, Buffer.from(value)]);
}
