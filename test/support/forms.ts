import { createHash } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Governed } from './governed.ts';
import { connectPlain, type RawResponse, readResponse } from './raw-clients.ts';
import type { HasTeardown } from './temp-dir.ts';

/** What a gateway of these tests holds of a body, so that forms of a megabyte are large. */
export const LIMIT = 100_000;
export const SMALL = { GW_MAX_BODY_BYTES: String(LIMIT) };
export const TYPE = 'multipart/form-data; boundary=BB';
export const AUDIO = '/proxy/openai/v1/audio/transcriptions';
export const AZURE = '/proxy/azure_openai/openai/deployments/ears/audio/transcriptions?api-version=1';
/** Some times what is held, with every byte that a delimiter is made of. */
export const SOUND = Buffer.alloc(6 * LIMIT, 'sound\r\n--B\r\n-');

export type Part = readonly [disposition: string, value: string | Buffer];
export const model = (value: string): Part => ['name="model"', value];
export const file = (value: Buffer = SOUND, name = 'file'): Part => [`name="${name}"; filename="a.wav"`, value];

export function form(...parts: readonly Part[]): Buffer {
  const pieces = parts.flatMap(([disposition, value]) => [
    Buffer.from(`--BB\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n`),
    Buffer.from(value),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...pieces, Buffer.from('--BB--\r\n')]);
}

export const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
export const chunk = (bytes: Buffer) => Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);

/** The head of an upload, with its length or chunked. */
export function head(path: string, length: number | undefined, extra = ''): string {
  const framing = length === undefined ? 'Transfer-Encoding: chunked' : `Content-Length: ${length}`;
  return `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer sk-client\r\nContent-Type: ${TYPE}\r\n${extra}${framing}\r\n\r\n`;
}

export async function connected(t: HasTeardown, { gw }: Governed): Promise<Socket> {
  const socket = await connectPlain(gw.port);
  t.teardown(() => socket.destroy());
  return socket;
}

export async function upload(
  t: HasTeardown,
  on: Governed,
  body: Buffer,
  { path = AUDIO, chunked = false, extra = '' } = {},
): Promise<RawResponse> {
  const socket = await connected(t, on);
  socket.on('error', () => undefined);
  socket.write(head(path, chunked ? undefined : body.length, extra));
  const answer = readResponse(socket, 'POST');
  if (!chunked) socket.write(body);
  for (let at = 0; chunked && at < body.length; at += 7919) socket.write(chunk(body.subarray(at, at + 7919)));
  if (chunked) socket.write('0\r\n\r\n');
  return answer;
}
