import { Sha256, sha256Hex } from '../../base/lib/sha256.ts';
import type { BodySource } from '../../base/model/arrival.ts';
import { decodeBody, refuseUnreadable } from '../decode-body.ts';
import type { Exchange } from '../exchange.ts';
import type { Pipeline, Stage } from '../stage.ts';

/** Reads the bodies that policy parses; every other body will stream through, governed by its head (`GW_MAX_BODY_BYTES`, decision section 2). */
export const read: Stage = {
  name: 'read',
  run(exchange, pipeline) {
    const { body } = exchange;
    if (!body || body.declaredLength === 0) return undefined;
    const parsed = exchange.door === 'direct' || exchange.actionType !== 'http.request';
    if (parsed) return readWhole(exchange, body, pipeline);
    exchange.streamBody = hashed(exchange, body);
    return undefined;
  },
};

async function readWhole(exchange: Exchange, body: BodySource, pipeline: Pipeline): Promise<undefined> {
  const { buffers, settings } = pipeline;
  const contentEncoding = exchange.head.headers['content-encoding'];
  refuseUnreadable(contentEncoding);
  const declared = body.declaredLength ?? 0;
  if (declared <= settings.maxBodyBytes) {
    buffers.take(declared);
    exchange.buffered = declared;
  }
  const bytes = await body.readAll(settings.maxBodyBytes, (total) => {
    if (total <= exchange.buffered) return;
    buffers.take(total - exchange.buffered);
    exchange.buffered = total;
  });
  exchange.bytes = bytes;
  exchange.requestBytes = bytes.length;
  exchange.requestSha256 = sha256Hex(bytes);
  exchange.plain = contentEncoding === undefined ? bytes : await decodeBody(exchange, bytes, contentEncoding, pipeline);
  return undefined;
}

/** Counts and hashes what streams through; the figures are complete when the upstream has taken the last byte. */
async function* hashed(exchange: Exchange, body: BodySource): AsyncGenerator<Uint8Array> {
  const hash = new Sha256();
  for await (const chunk of body.stream()) {
    hash.update(chunk);
    exchange.requestBytes += chunk.length;
    // With the last byte, not after it: an upstream may have answered before this is asked for more.
    if (exchange.requestBytes === body.declaredLength) exchange.requestSha256 = hash.hex();
    yield chunk;
  }
  exchange.requestSha256 ??= hash.hex();
}
