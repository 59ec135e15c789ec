import { encodingOf } from '../../base/lib/decoder.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import type { BodySource } from '../../base/model/arrival.ts';
import { boundaryOf, isMultipart, refuseSeveralTypes } from '../../inbound/normalise/body.ts';
import { MultipartReader } from '../../inbound/normalise/multipart.ts';
import { clientOf } from '../client-of.ts';
import { decodeBody, refuseUnreadable } from '../decode-body.ts';
import type { Exchange } from '../exchange.ts';
import { FormUpload } from '../form-upload.ts';
import { PassingBody } from '../passing-body.ts';
import type { Pipeline, Stage } from '../stage.ts';

/** Reads the bodies that policy parses; every other body will stream through, governed by its head (`GW_MAX_BODY_BYTES`, decision section 2). */
export const read: Stage = {
  name: 'read',
  run(exchange, pipeline) {
    const { body } = exchange;
    if (!body || body.declaredLength === 0) return undefined;
    const parsed = exchange.door === 'direct' || exchange.actionType !== 'http.request';
    if (parsed && exchange.door !== 'direct') refuseSeveralTypes(exchange.head.rawHeaders);
    if (parsed) return isLargeForm(exchange, body, pipeline) ? readForm(exchange, body, pipeline) : readWhole(exchange, body, pipeline);
    exchange.streamed = new PassingBody(body.stream(), body.declaredLength);
    return undefined;
  },
};

/** A form that is larger than what policy holds, or may be. What comes compressed can only be read as a whole. */
function isLargeForm({ head, operation }: Exchange, { declaredLength }: BodySource, { settings }: Pipeline): boolean {
  if (declaredLength !== undefined && declaredLength <= settings.maxBodyBytes) return false;
  return (
    operation !== undefined &&
    isMultipart(operation, head.headers['content-type']) &&
    encodingOf(head.headers['content-encoding']) === undefined
  );
}

async function readForm(exchange: Exchange, body: BodySource, pipeline: Pipeline): Promise<undefined> {
  const reader = new MultipartReader(boundaryOf(exchange.head.headers['content-type']));
  exchange.held = pipeline.buffers.hold(clientOf(exchange));
  const upload = new FormUpload(exchange, pipeline, new PassingBody(body.stream(), body.declaredLength), reader);
  exchange.streamed = upload;
  const whole = await upload.readHead();
  exchange.form = upload.form;
  exchange.plain = upload.head;
  if (whole) {
    exchange.bytes = upload.head;
    exchange.requestBytes = upload.bytes;
    exchange.requestSha256 = upload.sha256;
    exchange.streamed = undefined;
  } else {
    exchange.upload = upload;
  }
  return undefined;
}

async function readWhole(exchange: Exchange, body: BodySource, pipeline: Pipeline): Promise<undefined> {
  const contentEncoding = exchange.head.headers['content-encoding'];
  refuseUnreadable(contentEncoding);
  const held = pipeline.buffers.hold(clientOf(exchange));
  exchange.held = held;
  const bytes = await body.readAll(pipeline.settings.maxBodyBytes, (total, stop) => {
    if (total === body.declaredLength) held.take(total - held.bytes);
    else held.arrive(total - held.bytes, stop);
  });
  held.settle();
  exchange.bytes = bytes;
  exchange.requestBytes = bytes.length;
  exchange.requestSha256 = sha256Hex(bytes);
  exchange.plain = contentEncoding === undefined ? bytes : await decodeBody(exchange, bytes, contentEncoding, pipeline);
  return undefined;
}
