import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Asker } from '../../operations/tools.ts';
import { batchAnswers, MAX_BATCH } from './batch-answers.ts';
import { errorText, invalidRequest, type RequestId, RPC, RpcError, type RpcMessage, type RpcRequest, readMessage } from './json-rpc.ts';
import type { McpDispatcher } from './mcp-dispatcher.ts';
import { judgeForms, judgeMirrors, type McpHeaders, mirrors, TransportError } from './mcp-headers.ts';
import { type McpRevision, revisionOf } from './mcp-revision.ts';
import { type McpSession, McpSessions, type SessionOwner } from './mcp-sessions.ts';
import { claimOf, judgeClaim, unsupported } from './request-claim.ts';
import { RequestsUnderWay } from './requests-under-way.ts';

/** What is posted to the endpoint, by somebody who was let in. */
export interface McpPost {
  readonly headers: McpHeaders;
  readonly asker: Asker;
  /** The body as JSON. @throws GatewayError */
  readonly json: () => Promise<unknown>;
}

/** JSON, or nothing where there is nothing to say. */
export interface McpAnswer {
  readonly status: number;
  readonly text?: string;
  /** Of the session that was begun. */
  readonly session?: string;
}

export interface McpEndpointOptions {
  readonly dispatcher: McpDispatcher;
  readonly clock: Pick<Clock, 'monotonic'>;
  /** Milliseconds. */
  readonly idleMs: number;
  readonly limits?: { readonly max: number; readonly maxOfOwner: number };
  /** Of the answers of one batch. Default: that of `REPORT_BOUNDS`. */
  readonly batchBytes?: number;
}

export const SESSION_FIELD = 'Mcp-Session-Id';
const ACCEPTED: McpAnswer = { status: 202 };

/**
 * Streamable HTTP behind one endpoint, without the HTTP: which messages are taken together, which session they are of,
 * and with which status they are answered. Revisions with sessions and those without are served side by side; what a
 * request says of itself tells them apart (decision 10.7).
 */
export class McpEndpoint {
  readonly sessions: McpSessions;
  readonly underWay: RequestsUnderWay = new RequestsUnderWay();
  readonly #dispatcher: McpDispatcher;
  readonly #batchBytes: number | undefined;

  constructor({ dispatcher, clock, idleMs, limits, batchBytes }: McpEndpointOptions) {
    this.#dispatcher = dispatcher;
    this.#batchBytes = batchBytes;
    this.sessions = new McpSessions({ clock, idleMs, ...limits });
  }

  /** @throws GatewayError `client_gone` alone: whoever asks is told of everything else */
  async post(post: McpPost): Promise<McpAnswer> {
    let id: RequestId | null = null;
    try {
      judgeForms(post.headers);
      const body = await bodyOf(post);
      if (Array.isArray(body)) return await this.#batch(body, post);
      const message = readMessage(body);
      if ('id' in message && message.id !== undefined) id = message.id;
      if (message.kind === 'invalid') throw invalidRequest('The body is no JSON-RPC 2.0 message.');
      const claim = claimOf(message);
      const isStateless = claim !== undefined || revisionOf(post.headers['mcp-protocol-version'])?.stateless === true;
      return await (isStateless ? this.#alone(message, claim, post) : this.#inSession(message, post));
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      return { status: error instanceof TransportError ? error.status : 400, text: errorText(id, error) };
    }
  }

  /** Ends the session that is named. */
  end({ headers, asker }: Pick<McpPost, 'headers' | 'asker'>): McpAnswer {
    try {
      const { id } = this.#session(headers, asker);
      this.sessions.end(id, ownerOf(asker));
      return { status: 204 };
    } catch (error) {
      if (!(error instanceof TransportError)) throw error;
      return { status: error.status, text: errorText(null, error) };
    }
  }

  /** A request that stands for itself: whoever asks is known by his key, and by nothing else. */
  async #alone(message: RpcMessage, claim: unknown, { headers, asker }: McpPost): Promise<McpAnswer> {
    if (message.kind === 'notification') return ACCEPTED;
    if (message.kind !== 'request') throw invalidRequest('Only requests and notifications are taken.');
    if (typeof claim === 'string') mirrors('MCP-Protocol-Version', headers['mcp-protocol-version'], claim);
    const revision = judgeClaim(message, claim);
    judgeMirrors(headers, message);
    const { text, failed } = await this.#answer(undefined, message, revision, asker);
    return { status: failed === RPC.methodNotFound ? 404 : 200, text };
  }

  async #inSession(message: RpcMessage, { headers, asker }: McpPost): Promise<McpAnswer> {
    judgeVersion(headers);
    if (message.kind === 'request' && message.method === 'initialize') {
      if (headers['mcp-session-id'] !== undefined) {
        this.#session(headers, asker);
        throw invalidRequest('The session has begun already; initialize is sent without Mcp-Session-Id.');
      }
      const { text, revision } = this.#dispatcher.initialize(message);
      return revision === undefined ? { status: 400, text } : { status: 200, text, session: this.#begin(asker, revision) };
    }
    const { revision, id } = this.#session(headers, asker);
    if (message.kind !== 'request') return this.#noted(id, message);
    return { status: 200, text: (await this.#answer(id, message, revision, asker)).text };
  }

  #noted(session: string, message: RpcMessage): McpAnswer {
    if (message.kind === 'notification' && message.method === 'notifications/cancelled')
      this.underWay.cancel(session, message.params['requestId']);
    return ACCEPTED;
  }

  /** @param session in which its id is known; undefined: of none */
  #answer(session: string | undefined, request: RpcRequest, revision: McpRevision, asker: Asker) {
    return this.underWay.answered(session, request, asker, (one) => this.#dispatcher.answer(request, revision, one));
  }

  /** In the order in which they stand, one after the other: a batch is no way to more of the gateway at a time. */
  async #batch(body: readonly unknown[], { headers, asker }: McpPost): Promise<McpAnswer> {
    judgeVersion(headers);
    const { revision, id } = this.#session(headers, asker);
    if (!revision.batches) throw invalidRequest(`Revision ${revision.name} has no batches: send one message at a time.`);
    if (body.length === 0 || body.length > MAX_BATCH) throw invalidRequest(`A batch has 1 to ${MAX_BATCH} messages.`);
    const answer = async (message: RpcMessage): Promise<string | undefined> => {
      asker.signal?.throwIfAborted();
      if (message.kind === 'request') return (await this.#answer(id, message, revision, asker)).text;
      this.#noted(id, message);
      return undefined;
    };
    const text = await batchAnswers(body, answer, this.#batchBytes);
    return text === undefined ? ACCEPTED : { status: 200, text };
  }

  #begin(asker: Asker, revision: McpRevision): string {
    return this.sessions.begin(ownerOf(asker), revision).id;
  }

  /** @throws TransportError `invalid_session` (specification, "MCP server", "Errors") */
  #session(headers: McpHeaders, asker: Asker): McpSession {
    const id = headers['mcp-session-id'];
    if (id === undefined) throw invalidSession(400, 'Mcp-Session-Id is missing: a session begins with initialize.');
    const session = this.sessions.use(id, ownerOf(asker));
    if (session === undefined) throw invalidSession(404, 'There is no such session, or no more: begin another with initialize.');
    return session;
  }
}

function invalidSession(status: number, message: string): TransportError {
  return new TransportError(status, RPC.invalidSession, message, { code: 'invalid_session' });
}

/** The operator is no org: whoever holds its tokens shares one place of its own. */
function ownerOf({ principal: { kind, id, orgId = '' } }: Asker): SessionOwner {
  return { org: orgId, key: `${kind} ${id}` };
}

/**
 * Clients of 2025-03-26 do not send the field. What the session has agreed on counts, whichever of its revisions is
 * named.
 */
function judgeVersion(headers: McpHeaders): void {
  const named = headers['mcp-protocol-version'];
  if (named !== undefined && revisionOf(named) === undefined) throw unsupported(named);
}

async function bodyOf({ json }: McpPost): Promise<unknown> {
  try {
    return await json();
  } catch (error) {
    if (!(error instanceof GatewayError) || error.code === 'client_gone') throw error;
    throw unreadable(error);
  }
}

function unreadable({ status, message, code }: GatewayError): TransportError {
  return new TransportError(status, RPC.parseError, message, { code });
}
