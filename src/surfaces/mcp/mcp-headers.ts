import { RPC, RpcError, type RpcRequest } from './json-rpc.ts';

/** Header fields of a request; lower-case names. */
export type McpHeaders = Readonly<Record<string, string | undefined>>;

/** A refusal with the HTTP status that it is sent with. */
export class TransportError extends RpcError {
  readonly status: number;

  constructor(status: number, ...[code, message, data]: ConstructorParameters<typeof RpcError>) {
    super(code, message, data);
    this.name = 'TransportError';
    this.status = status;
  }
}

const NAMED: Readonly<Record<string, string>> = { 'tools/call': 'name', 'prompts/get': 'name', 'resources/read': 'uri' };

/** Answers are JSON, whole: nothing is ever streamed. @throws TransportError 415, 406 */
export function judgeForms(headers: McpHeaders): void {
  const [type = ''] = (headers['content-type'] ?? '').split(';');
  if (type.trim().toLowerCase() !== 'application/json') {
    throw new TransportError(415, RPC.notAcceptable, 'Content-Type is application/json.');
  }
  const accepted = (headers['accept'] ?? '*/*').toLowerCase().split(',');
  const ranges = accepted.map((range) => range.split(';')[0]?.trim() ?? '');
  if (!ranges.some((range) => range === 'application/json' || range === 'application/*' || range === '*/*')) {
    throw new TransportError(406, RPC.notAcceptable, 'Accept has to allow application/json.');
  }
}

/**
 * From 2026-07-28 on, what stands in the body stands in header fields too, for those on the way who read no bodies:
 * they must not be told anything else.
 * @throws TransportError 400
 */
export function judgeMirrors(headers: McpHeaders, { method, params }: RpcRequest): void {
  mirrors('Mcp-Method', headers['mcp-method'], method);
  const named = Object.hasOwn(NAMED, method) ? NAMED[method] : undefined;
  const value = named === undefined ? undefined : params[named];
  if (typeof value === 'string') mirrors('Mcp-Name', decoded(headers['mcp-name']), value);
}

/** @throws TransportError 400 unless the field has this value */
export function mirrors(field: string, given: string | undefined, expected: string): void {
  if (given === expected) return;
  const problem = given === undefined ? `${field} is missing` : `${field} does not say what the body says`;
  throw new TransportError(400, RPC.headerMismatch, `Header mismatch: ${problem}.`);
}

/** What cannot stand in a header field as it is comes in Base64. */
function decoded(value: string | undefined): string | undefined {
  const encoded = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/.exec(value ?? '')?.[1];
  return encoded === undefined ? value : Buffer.from(encoded, 'base64').toString('utf8');
}
