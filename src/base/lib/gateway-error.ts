import { ERROR_CODES, ERROR_HEADERS, type ErrorCode } from '../model/error-codes.ts';
import { POLICY_BOUNDS } from '../model/work-bounds.ts';
import { shorten } from './text.ts';

/** Whatever a message quotes, it goes into answers, records and log lines. */
const MAX_MESSAGE = 1_024;
/** A hostile body can have a hundred thousand bad members; the first few say enough. */
export const MAX_DETAILS: number = POLICY_BOUNDS.mistakes.one;
const MAX_DETAIL_PATH = 128;
const MAX_DETAIL_MESSAGE = 512;

/** One bad member of a body, or one mistake in a bundle (decisions 5.2, 8.1). */
export interface ErrorDetail {
  readonly path: string;
  readonly message: string;
  readonly file?: string;
  readonly line?: number;
  readonly column?: number;
  readonly rule_id?: string;
  readonly code?: string;
  readonly hint?: string;
}

export interface GatewayErrorOptions {
  readonly details?: readonly ErrorDetail[];
  readonly cause?: unknown;
  /** Message and details are kept whole: they are about what an operator wrote, and nobody else sees them. */
  readonly verbose?: boolean;
  /** See {@link GatewayError.reported}. */
  readonly reported?: boolean;
  /** Sent in the place of the usual body. */
  readonly body?: Readonly<Record<string, unknown>> | undefined;
}

/**
 * A failure with a stable code of {@link ERROR_CODES}. `message` is for people, is short, and never holds a secret, a
 * prompt or a stack.
 */
export class GatewayError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly details: readonly ErrorDetail[] | undefined;
  /** It is on record, or was counted as what has none: whoever answers with it has nothing more to tell. */
  readonly reported: boolean;
  readonly #body: GatewayErrorOptions['body'];

  constructor(code: ErrorCode, message: string, options?: GatewayErrorOptions) {
    const verbose = options?.verbose === true;
    super(verbose ? message : shorten(message, MAX_MESSAGE), options?.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'GatewayError';
    this.code = code;
    this.status = ERROR_CODES[code].status;
    this.details = verbose ? options.details : options?.details?.slice(0, MAX_DETAILS).map(shortDetail);
    this.reported = options?.reported === true;
    this.#body = options?.body;
  }

  /** Header fields that go with the code, as a flat name, value list. */
  get headers(): readonly string[] {
    return ERROR_HEADERS[this.code] ?? [];
  }

  /** The JSON body every surface answers with (decision 8.1). */
  toBody(): Readonly<Record<string, unknown>> {
    if (this.#body !== undefined) return this.#body;
    return { error: { code: this.code, message: this.message, ...(this.details ? { details: this.details } : {}) } };
  }
}

function shortDetail(detail: ErrorDetail): ErrorDetail {
  return { ...detail, path: shorten(detail.path, MAX_DETAIL_PATH), message: shorten(detail.message, MAX_DETAIL_MESSAGE) };
}

/** What a thrown value says. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** The code of an error of Node or the system (`ENOENT`); empty when it has none. */
export function codeOf(thrown: unknown): string {
  return typeof thrown === 'object' && thrown !== null && 'code' in thrown && typeof thrown.code === 'string' ? thrown.code : '';
}

/** Whether a path leads to nothing: no such file, or something in the place of one of its folders. */
export function isMissing(thrown: unknown): boolean {
  return ['ENOENT', 'ENOTDIR'].includes(codeOf(thrown));
}
