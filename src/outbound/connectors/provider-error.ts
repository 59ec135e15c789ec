import type { ErrorShape } from '../../base/catalogue/types.ts';

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
 * The members that make a provider's own SDK show the reason of a refusal (decision 8.2), to be merged with the specified fields. There is always an
 * `error` object with a `message`.
 * @param shape of the dialect; undefined for a host without one takes the commonest
 */
export function refusalBody(shape: ErrorShape | undefined, text: ProviderErrorText): Members {
  return SHAPES[shape ?? 'openai'](text);
}
