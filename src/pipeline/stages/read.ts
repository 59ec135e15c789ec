import { encodingOf } from '../../base/lib/decoder.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import type { BodySource } from '../../base/model/arrival.ts';
import { boundaryOf, isMultipart, refuseSeveralTypes } from '../../inbound/normalise/body.ts';
import { MultipartReader } from '../../inbound/normalise/multipart.ts';
import type { BufferHold } from '../body/buffer-budget.ts';
import { clientOf } from '../body/buffer-budget.ts';
import { decodeBody, refuseUnreadable } from '../body/decode-body.ts';
import { FormUpload } from '../body/form-upload.ts';
import { PassingBody } from '../body/passing-body.ts';
import type { Pipeline } from '../parts/call-services.ts';
import type { Arrived, Intake, Parts, Proof, Received, Target } from '../parts/parts.ts';
import { type Control, defineStage, EndedWith } from '../parts/stage.ts';

type Read = Pick<Parts, 'intake' | 'received'> | EndedWith<'intake' | 'received'>;

const NO_INTAKE: Intake = { requestBytes: 0, requestSha256: undefined, held: undefined, streamed: undefined, upload: undefined };
const NOTHING: Received = { bytes: undefined, plain: undefined, form: undefined };

/**
 * Reads the bodies that policy parses; every other body will stream through, governed by its head (`GW_MAX_BODY_BYTES`,
 * decision section 2).
 */
export const read = defineStage({
  name: 'read',
  reads: ['arrival', 'target', 'proof'],
  makes: ['intake', 'received'],
  run({ arrival, target, proof }, pipeline, control) {
    const { body } = arrival;
    if (!body || body.declaredLength === 0) return { intake: NO_INTAKE, received: NOTHING };
    if (target.actionType === 'http.request') {
      const streamed = new PassingBody(body.stream(), body.declaredLength);
      control.atEnd(() => void streamed.return());
      return { intake: { ...NO_INTAKE, streamed }, received: NOTHING };
    }
    refuseSeveralTypes(arrival.head.rawHeaders);
    const held = holdFor(arrival, proof, pipeline, control);
    return isLargeForm(arrival, target, body, pipeline)
      ? readForm({ arrival, target, body, held }, pipeline, control)
      : readWhole(arrival, body, held, pipeline);
  },
});

/** Reads the envelope of a structured call. */
export const readEnvelope = defineStage({
  name: 'read',
  reads: ['arrival', 'proof'],
  makes: ['intake', 'received'],
  run({ arrival, proof }, pipeline, control) {
    const { body } = arrival;
    if (!body || body.declaredLength === 0) return { intake: NO_INTAKE, received: NOTHING };
    return readWhole(arrival, body, holdFor(arrival, proof, pipeline, control), pipeline);
  },
});

/** What a body holds is given back when its call has been sent, or will not be. */
function holdFor({ callerIp }: Arrived, proof: Proof, { buffers }: Pipeline, control: Control): BufferHold {
  const held = buffers.hold(clientOf(callerIp, proof));
  control.atEnd(() => held.keep(0));
  return held;
}

/** A form that is larger than what policy holds, or may be. What comes compressed can only be read as a whole. */
function isLargeForm({ head }: Arrived, { operation }: Target, { declaredLength }: BodySource, { settings }: Pipeline): boolean {
  if (declaredLength !== undefined && declaredLength <= settings.maxBodyBytes) return false;
  return (
    operation !== undefined &&
    isMultipart(operation, head.headers['content-type']) &&
    encodingOf(head.headers['content-encoding']) === undefined
  );
}

interface FormInput {
  readonly arrival: Arrived;
  readonly target: Target;
  readonly body: BodySource;
  readonly held: BufferHold;
}

async function readForm({ arrival, target, body, held }: FormInput, { clock, settings }: Pipeline, control: Control): Promise<Read> {
  const reader = new MultipartReader(boundaryOf(arrival.head.headers['content-type']));
  const source = new PassingBody(body.stream(), body.declaredLength);
  const { operation, path } = target;
  const upload = new FormUpload({ operation, path, held, clock, maxBodyBytes: settings.maxBodyBytes }, source, reader);
  control.atEnd(() => void upload.return());
  const begun: Intake = { ...NO_INTAKE, held, streamed: upload, upload };
  let whole: boolean;
  try {
    whole = await upload.readHead();
  } catch (error) {
    return endedBy(error, begun);
  }
  const received = { bytes: whole ? upload.head : undefined, plain: upload.head, form: upload.form };
  const intake = whole ? { requestBytes: upload.bytes, requestSha256: upload.sha256, held, streamed: undefined, upload: undefined } : begun;
  return { intake, received };
}

async function readWhole(arrival: Arrived, body: BodySource, held: BufferHold, { settings }: Pipeline): Promise<Read> {
  const contentEncoding = arrival.head.headers['content-encoding'];
  refuseUnreadable(contentEncoding);
  const { maxBodyBytes } = settings;
  const bytes = await body.readAll(maxBodyBytes, (total, stop) => {
    if (total === body.declaredLength) held.take(total - held.bytes);
    else held.arrive(total - held.bytes, stop);
  });
  held.settle();
  const intake = { requestBytes: bytes.length, requestSha256: sha256Hex(bytes), held, streamed: undefined, upload: undefined };
  if (contentEncoding === undefined) return { intake, received: { bytes, plain: bytes, form: undefined } };
  try {
    const brokenAs = arrival.line === 'direct' ? 'invalid_request' : 'ambiguous_body';
    const plain = await decodeBody({ reply: arrival.reply, brokenAs, held, maxBodyBytes }, bytes, contentEncoding);
    return { intake, received: { bytes, plain, form: undefined } };
  } catch (error) {
    return endedBy(error, intake);
  }
}

/** A body that cannot be read is refused with what is known of it. */
function endedBy(error: unknown, intake: Intake): EndedWith<'intake' | 'received'> {
  if (error instanceof GatewayError) return new EndedWith(error, { intake, received: NOTHING });
  throw error;
}
