import { crc32 } from 'node:zlib';

/** One message of an AWS event stream, written after the format's description: every header is text. */
export function awsMessage(headers: Readonly<Record<string, string>>, payload: string | Uint8Array = ''): Buffer {
  const fields = Object.entries(headers).map(([name, value]) => {
    const length = Buffer.alloc(2);
    length.writeUInt16BE(Buffer.byteLength(value));
    return Buffer.concat([Buffer.from([Buffer.byteLength(name)]), Buffer.from(name), Buffer.from([7]), length, Buffer.from(value)]);
  });
  const head = Buffer.concat(fields);
  const message = Buffer.concat([Buffer.alloc(12), head, Buffer.from(payload), Buffer.alloc(4)]);
  message.writeUInt32BE(message.length, 0);
  message.writeUInt32BE(head.length, 4);
  return withChecksums(message);
}

/** An event as Bedrock's Converse streams it. */
export function awsEvent(type: string, event: unknown): Buffer {
  const headers = { ':event-type': type, ':content-type': 'application/json', ':message-type': 'event' };
  return awsMessage(headers, JSON.stringify(event));
}

/** A vendor's event as Bedrock's InvokeModelWithResponseStream wraps it. */
export function awsChunk(event: unknown): Buffer {
  return awsEvent('chunk', { bytes: Buffer.from(JSON.stringify(event)).toString('base64'), p: 'abcdefgh' });
}

/** The message with the checksums that its lengths and its content have. */
export function withChecksums(message: Buffer): Buffer {
  message.writeUInt32BE(crc32(message.subarray(0, 8)), 8);
  message.writeUInt32BE(crc32(message.subarray(0, -4)), message.length - 4);
  return message;
}
