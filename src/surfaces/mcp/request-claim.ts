import { isJsonObject } from '../../base/json/json-object.ts';
import { shorten } from '../../base/lib/text.ts';
import { RPC, RpcError, type RpcMessage } from './json-rpc.ts';
import { type McpRevision, REVISIONS, revisionOf, STATELESS } from './mcp-revision.ts';

const VERSION = 'io.modelcontextprotocol/protocolVersion';
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';

/**
 * The revision that a message says it is of (2026-07-28 and later, in `_meta`); undefined: it says nothing, as those of
 * sessions do.
 */
export function claimOf(message: RpcMessage): unknown {
  if (message.kind !== 'request' && message.kind !== 'notification') return undefined;
  const meta = message.params['_meta'];
  const claim = isJsonObject(meta) ? meta[VERSION] : undefined;
  // A client that has begun a session may say so in each request, too.
  return revisionOf(claim)?.stateless === false ? undefined : claim;
}

/**
 * What a request that stands for itself is of.
 * @param claim as {@link claimOf} gives it
 * @throws RpcError when it says nothing, something that is not spoken here, or too little
 */
export function judgeClaim(message: RpcMessage, claim: unknown): McpRevision {
  if (typeof claim !== 'string') throw new RpcError(RPC.invalidParams, `_meta needs ${VERSION}, a text.`);
  const revision = revisionOf(claim);
  if (revision === undefined) throw unsupported(claim, STATELESS);
  const meta = message.kind === 'request' || message.kind === 'notification' ? message.params['_meta'] : undefined;
  if (message.kind === 'request' && !(isJsonObject(meta) && isJsonObject(meta[CAPABILITIES]))) {
    throw new RpcError(RPC.invalidParams, `_meta needs ${CAPABILITIES}, an object.`);
  }
  return revision;
}

/**
 * Names what is spoken, so that a client can ask again.
 * @param among what it may choose from by asking in the same way
 */
export function unsupported(requested: string, among: readonly McpRevision[] = REVISIONS): RpcError {
  const supported = among.map(({ name }) => name);
  return new RpcError(RPC.unsupportedVersion, 'Unsupported protocol version', { supported, requested: shorten(requested, 64) });
}
