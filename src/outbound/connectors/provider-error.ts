import { crc32 } from 'node:zlib';
import type { Dialect, ErrorShape, StreamRule } from '../../base/catalogue/types.ts';

/** What a refusal says to a person. */
export interface ProviderErrorText {
  /** HTTP status of the answer. */
  readonly status: number;
  /** A stable word for programs, such as `policy_denied`. */
  readonly type: string;
  /** What was refused and why. */
  readonly message: string;
}

type Members = Readonly<Record<string, unknown>>;

/** google.rpc codes by HTTP status. */
const GOOGLE_STATUS: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  409: 'ABORTED',
  429: 'RESOURCE_EXHAUSTED',
  499: 'CANCELLED',
  500: 'INTERNAL',
  501: 'UNIMPLEMENTED',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
};

/** Exceptions of Amazon Bedrock by HTTP status. */
const AWS_EXCEPTION: Readonly<Record<number, string>> = {
  400: 'ValidationException',
  403: 'AccessDeniedException',
  404: 'ResourceNotFoundException',
  409: 'ConflictException',
  429: 'ThrottlingException',
  503: 'ServiceUnavailableException',
};

const SHAPES: Readonly<Record<ErrorShape, (text: ProviderErrorText) => Members>> = {
  openai: ({ type, message }) => ({ error: { message, type, param: null, code: type } }),
  anthropic: ({ type, message }) => ({ type: 'error', error: { type, message } }),
  google: ({ status, message }) => ({
    error: { code: status, message, status: GOOGLE_STATUS[status] ?? (status >= 500 ? 'INTERNAL' : 'FAILED_PRECONDITION') },
  }),
  cohere: ({ type, message }) => ({ message, error: { message, type } }),
  // The SDKs of AWS throw the exception that `__type` names.
  aws: ({ status, type, message }) => ({
    __type: AWS_EXCEPTION[status] ?? (status >= 500 ? 'InternalServerException' : 'AccessDeniedException'),
    message,
    error: { message, type },
  }),
  replicate: ({ status, type, message }) => ({ title: type, detail: message, status, error: { message, type } }),
  mistral: ({ type, message }) => ({ object: 'error', message, type, param: null, code: type, error: { message, type } }),
};

/**
 * The members that make a provider's own SDK show the reason of a refusal (decision 8.2), to be merged with the
 * specified fields. There is always an `error` object with a `message`.
 * @param shape of the dialect; undefined for a host without one takes the commonest
 */
export function refusalBody(shape: ErrorShape | undefined, text: ProviderErrorText): Members {
  return SHAPES[shape ?? 'openai'](text);
}

const TEXT_TYPE = 7;
/** Prelude with its checksum, and the checksum at the end. */
const AROUND = 16;

/**
 * A message of an AWS event stream that tells an error with a code of its own, which every SDK throws. `code` and
 * `message` are ASCII.
 */
function awsErrorFrame(code: string, message: string, json: string): Buffer {
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

/**
 * The last event of a stream that is ended in place of its provider, in the form in which this format tells an error,
 * so that the provider's own SDK takes it for one. Each piece is written by itself.
 * @param more members beside those that the format knows
 */
export function streamError(
  dialect: Dialect,
  framing: StreamRule['framing'],
  text: ProviderErrorText,
  more: Members,
): readonly Uint8Array[] {
  const rule = dialect.streamError;
  const data = rule ? (filled(rule.data, text) as Members) : {};
  const json = JSON.stringify({ ...refusalBody(dialect.errorShape, text), ...data, ...more });
  const event = framedError(framing, { name: rule?.event, json, code: text.type, message: text.message });
  return rule?.alsoBare && framing === 'sse' ? [event, Buffer.from(`${json}\n`)] : [event];
}

/** One error as the last element of a stream of this framing. `json` holds no line end. */
export function framedError(
  framing: StreamRule['framing'],
  { name, json, code, message }: { name: string | undefined; json: string; code: string; message: string },
): Uint8Array {
  if (framing === 'aws_event_stream') return awsErrorFrame(code, message, json);
  if (framing === 'ndjson') return Buffer.from(`${json}\n`);
  if (framing === 'json_array') return Buffer.from(`,\n${json}\n]\n`);
  return Buffer.from(`${name === undefined ? '' : `event: ${name}\n`}data: ${json}\n\n`);
}

function filled(value: unknown, text: ProviderErrorText): unknown {
  if (value === '{message}') return text.message;
  if (value === '{code}') return text.type;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, filled(member, text)]));
}
