import { isJsonObject, type JsonObject } from '../../base/json/json-object.ts';
import { shownJson } from '../../base/lib/shown-text.ts';

export type RequestId = string | number;

export interface RpcRequest {
  readonly kind: 'request';
  readonly id: RequestId;
  readonly method: string;
  readonly params: JsonObject;
}

export interface RpcNotification {
  readonly kind: 'notification';
  readonly method: string;
  readonly params: JsonObject;
}

/** One message of a client. Answers are read and left: this server asks nothing. */
export type RpcMessage =
  | RpcRequest
  | RpcNotification
  | { readonly kind: 'response' }
  | { readonly kind: 'invalid'; readonly id?: RequestId };

/** Codes of JSON-RPC 2.0, and those that MCP adds. */
export const RPC = {
  parseError: -32_700,
  invalidRequest: -32_600,
  methodNotFound: -32_601,
  invalidParams: -32_602,
  internal: -32_603,
  /** Of the transport, as the official servers use them. */
  notAcceptable: -32_000,
  invalidSession: -32_001,
  /** Of a batch, a message that was not carried out because the answers before it are too long. */
  batchTooLarge: -32_010,
  headerMismatch: -32_020,
  unsupportedVersion: -32_022,
  /** As language servers use it: MCP names no code of its own. */
  cancelled: -32_800,
} as const;

/**
 * A failure of the protocol: what was asked for is not there, or is no request. Failures of tools are answers of
 * theirs.
 */
export class RpcError extends Error {
  readonly code: number;
  readonly data: JsonObject | undefined;

  constructor(code: number, message: string, data?: JsonObject) {
    super(message);
    this.name = 'RpcError';
    this.code = code;
    this.data = data;
  }
}

const NONE: JsonObject = {};
const INVALID: RpcMessage = { kind: 'invalid' };

/** What a JSON value is as a message. */
export function readMessage(value: unknown): RpcMessage {
  if (!isJsonObject(value)) return INVALID;
  const { id, method, params = NONE } = value;
  const hasId = Object.hasOwn(value, 'id');
  if (hasId && !isId(id)) return INVALID;
  const known = isId(id) ? { id } : {};
  if (value['jsonrpc'] !== '2.0') return { kind: 'invalid', ...known };
  if (method === undefined && isId(id) && ('result' in value || 'error' in value)) return { kind: 'response' };
  if (typeof method !== 'string' || !isJsonObject(params)) return { kind: 'invalid', ...known };
  return isId(id) ? { kind: 'request', id, method, params } : { kind: 'notification', method, params };
}

function isId(id: unknown): id is RequestId {
  return typeof id === 'string' || (typeof id === 'number' && Number.isSafeInteger(id));
}

/** @param result a JSON object as text */
export function resultText(id: RequestId, result: string): string {
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`;
}

/** @param id null where it could not be read */
export function errorText(id: RequestId | null, { code, message, data }: RpcError): string {
  return shownJson(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, ...(data === undefined ? {} : { data }) } }));
}

/** What was sent is no request, whatever else it is. */
export function invalidRequest(message: string): RpcError {
  return new RpcError(RPC.invalidRequest, message);
}
