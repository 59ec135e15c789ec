import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { parseSafeJson } from '../../base/json/safe-json.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Asker } from '../../operations/tools.ts';
import { batchAnswers, MAX_BATCH } from '../../surfaces/mcp/batch-answers.ts';
import { errorText, invalidRequest, RPC, RpcError, type RpcMessage, type RpcRequest, readMessage } from '../../surfaces/mcp/json-rpc.ts';
import type { McpDispatcher } from '../../surfaces/mcp/mcp-dispatcher.ts';
import type { McpRevision } from '../../surfaces/mcp/mcp-revision.ts';
import { claimOf, judgeClaim } from '../../surfaces/mcp/request-claim.ts';
import { RequestsUnderWay } from '../../surfaces/mcp/requests-under-way.ts';
import { LineReader } from './line-reader.ts';

/** The one client needs no name among others. */
const ONE = '';
const MAX_LINE = 4 * 1024 * 1024;
/** Requests under way; more are read when one of them is answered. */
const MAX_UNDER_WAY = 32;

export interface StdioOptions {
  readonly dispatcher: McpDispatcher;
  readonly asker: Asker;
  readonly input: Readable;
  readonly output: Writable;
}

/**
 * The one client at the other end of standard input and output: a message a line, in both directions, and nothing else.
 */
export class StdioConnection {
  readonly #options: StdioOptions;
  /** What `initialize` has agreed on. */
  #revision: McpRevision | undefined;
  /** Requests that are not answered yet. */
  readonly #requests = new RequestsUnderWay();
  readonly #running = new Set<Promise<void>>();
  /** The first fault, such as of an output that nobody reads any more. */
  #fault: { readonly error: unknown } | undefined;

  constructor(options: StdioOptions) {
    this.#options = options;
  }

  /** Answers until the input ends, and then what is still under way. Rejects when either stream breaks. */
  async serve(): Promise<void> {
    const { input } = this.#options;
    const lines = new LineReader(MAX_LINE);
    for await (const chunk of input as AsyncIterable<Buffer>) {
      for (const read of lines.read(chunk)) {
        if ('tooLong' in read) await this.#say(errorText(null, invalidRequest(`A message has at most ${MAX_LINE} bytes.`)));
        else if (read.line.length > 0) await this.#begin(read.line);
      }
    }
    await Promise.all(this.#running);
    this.#judgeFault();
  }

  #judgeFault(): void {
    if (this.#fault !== undefined) throw this.#fault.error;
  }

  /** Waits where too much is under way already. */
  async #begin(line: Buffer): Promise<void> {
    while (this.#running.size >= MAX_UNDER_WAY) await Promise.race(this.#running);
    this.#judgeFault();
    const running = this.#answer(line)
      .catch((error: unknown) => {
        this.#fault ??= { error };
      })
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  async #answer(line: Buffer): Promise<void> {
    let value: unknown;
    try {
      value = parseSafeJson(line, { malformed: 'invalid_request' }).value;
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      return this.#say(errorText(null, new RpcError(RPC.parseError, error.message)));
    }
    const text = Array.isArray(value) ? await this.#batch(value) : await this.#one(readMessage(value));
    if (text !== undefined) await this.#say(text);
  }

  async #batch(values: readonly unknown[]): Promise<string | undefined> {
    if (this.#revision?.batches !== true) return errorText(null, invalidRequest('There are no batches here: send one message at a time.'));
    if (values.length === 0 || values.length > MAX_BATCH) return errorText(null, invalidRequest(`A batch has 1 to ${MAX_BATCH} messages.`));
    return batchAnswers(values, (message) => this.#one(message));
  }

  async #one(message: RpcMessage): Promise<string | undefined> {
    if (message.kind === 'invalid') return errorText(message.id ?? null, invalidRequest('This is no JSON-RPC 2.0 message.'));
    if (message.kind === 'notification' && message.method === 'notifications/cancelled')
      this.#requests.cancel(ONE, message.params['requestId']);
    if (message.kind !== 'request') return undefined;
    const answer = async (asker: Asker) => ({ text: await this.#request(message, asker) });
    const answered = await this.#requests.answered(ONE, message, this.#options.asker, answer);
    // One that was cancelled is never answered.
    return 'failed' in answered ? undefined : answered.text;
  }

  async #request(request: RpcRequest, asker: Asker): Promise<string> {
    const { dispatcher } = this.#options;
    const claim = claimOf(request);
    try {
      if (claim === undefined && request.method === 'initialize') {
        const { text, revision } = dispatcher.initialize(request);
        this.#revision = revision ?? this.#revision;
        return text;
      }
      const revision = claim === undefined ? this.#revision : judgeClaim(request, claim);
      if (revision === undefined) throw invalidRequest('A session begins with initialize.');
      return (await dispatcher.answer(request, revision, asker)).text;
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      return errorText(request.id, error);
    }
  }

  async #say(text: string): Promise<void> {
    const { output } = this.#options;
    if (!output.write(`${text}\n`)) await once(output, 'drain');
  }
}
