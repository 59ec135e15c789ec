import { ERROR_CODES, ERROR_HEADERS, type ErrorCode } from '../model/error-codes.ts';

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

/** A failure with a stable code of {@link ERROR_CODES}. `message` is for people and never holds a secret, a prompt or a stack. */
export class GatewayError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly details: readonly ErrorDetail[] | undefined;

  constructor(code: ErrorCode, message: string, options?: { details?: readonly ErrorDetail[]; cause?: unknown }) {
    super(message, options?.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'GatewayError';
    this.code = code;
    this.status = ERROR_CODES[code].status;
    this.details = options?.details;
  }

  /** Header fields that go with the code, as a flat name, value list. */
  get headers(): readonly string[] {
    return ERROR_HEADERS[this.code] ?? [];
  }

  /** The JSON body every surface answers with (decision 8.1). */
  toBody(): { error: { code: string; message: string; details?: readonly ErrorDetail[] } } {
    return { error: { code: this.code, message: this.message, ...(this.details ? { details: this.details } : {}) } };
  }
}
