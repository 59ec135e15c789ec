import { isJsonObject } from '../../base/json/json-object.ts';
import { parseSafeJsonText } from '../../base/json/safe-json.ts';
import { type ErrorDetail, GatewayError, messageOf } from '../../base/lib/gateway-error.ts';
import { ERROR_CODES, type ErrorCode } from '../../base/model/error-codes.ts';
import type { GatewayAddress } from '../gateway-address.ts';
import { type SentToGateway, sendToGateway } from '../gateway-client.ts';

/** Some operations ask others themselves, as the test of an alert channel does. */
const TIMEOUT_MS = 60_000;

/** A request of the management or the admin API of a gateway. */
export interface LinkRequest extends SentToGateway {
  /** With its query. */
  readonly path: string;
}

/**
 * Asks a gateway, and gives what it answers as JSON (an empty object where there is nothing). What it refuses is thrown
 * as it said it; everything else that is no answer of a gateway's own is `gateway_error` (specification, "Errors").
 * @throws GatewayError
 */
export async function askGateway(gateway: GatewayAddress, { path, ...sent }: LinkRequest): Promise<unknown> {
  const { status, text } = await sendToGateway(gateway, path, { ...sent, timeoutMs: TIMEOUT_MS }).catch((error: unknown) => {
    throw new GatewayError('gateway_error', messageOf(error), { cause: error });
  });
  const value = jsonOf(text);
  if (status >= 200 && status < 300) {
    if (text !== '' && value === undefined)
      throw new GatewayError('gateway_error', `What ${gateway.origin} answers is no JSON: is it a gateway?`);
    return value ?? {};
  }
  throw errorOf(value) ?? new GatewayError('gateway_error', `${gateway.origin} answered ${status}.`);
}

function jsonOf(text: string): unknown {
  try {
    return text === '' ? undefined : parseSafeJsonText(text, { malformed: 'invalid_request' }).value;
  } catch (error) {
    if (error instanceof GatewayError) return undefined;
    throw error;
  }
}

/**
 * The error that a body tells of; undefined: none. A code that this program does not know may be one of a newer
 * gateway.
 */
function errorOf(value: unknown): GatewayError | undefined {
  const error = isJsonObject(value) ? value['error'] : undefined;
  if (!isJsonObject(error)) return undefined;
  const { code, message, details } = error;
  if (typeof code !== 'string' || typeof message !== 'string') return undefined;
  if (!isErrorCode(code)) return new GatewayError('gateway_error', `${code}: ${message}`);
  return new GatewayError(code, message, Array.isArray(details) ? { details: details.filter(isDetail) } : {});
}

function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_CODES, code);
}

function isDetail(value: unknown): value is ErrorDetail {
  return isJsonObject(value) && typeof value['path'] === 'string' && typeof value['message'] === 'string';
}
