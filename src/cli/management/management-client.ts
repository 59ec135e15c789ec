import { isJsonObject } from '../../base/json/json-object.ts';
import { parseSafeJsonText } from '../../base/json/safe-json.ts';
import type { AnswerOf, AnswerSchema, GatewayOperation, TypedOperation } from '../../operations/operation.ts';
import { planOf, requestOf, takenNames } from '../../operations/operation-request.ts';
import { GatewayRefusal, Unusable } from '../command.ts';
import type { GatewayAddress } from '../gateway-address.ts';
import { errorOf, sendToGateway } from '../gateway-client.ts';

export type Arguments = Readonly<Record<string, unknown>>;

/** A page of a list, and what to ask for the one behind it; undefined: it is the last. */
export interface ManagementPage {
  readonly data: readonly unknown[];
  readonly next: Arguments | undefined;
}

/** Asks operations of the management API of a gateway by what they are called, with one key. */
export class ManagementClient {
  readonly #gateway: GatewayAddress;
  readonly #key: string;

  constructor(gateway: GatewayAddress, key: string) {
    this.#gateway = gateway;
    this.#key = key;
  }

  /**
   * An answer as it comes.
   * @param timeoutMs without a byte of it; default 10 s
   * @throws Unusable when nobody answers or the key is not accepted; GatewayRefusal; GatewayError for arguments that
   * make no request
   */
  async text(
    operation: GatewayOperation,
    args: Arguments = {},
    headers: Readonly<Record<string, string>> = {},
    timeoutMs?: number,
  ): Promise<string> {
    const { method, path, body, headers: more } = requestOf(planOf(operation, takenNames(operation), args, { headers }));
    const patience = timeoutMs === undefined ? {} : { timeoutMs };
    const sent = { method, headers: { ...more, Authorization: `Bearer ${this.#key}` }, body, ...patience };
    const { status, text } = await sendToGateway(this.#gateway, path, sent);
    if (status >= 200 && status < 300) return text;
    if (status === 401) throw new Unusable(`${this.#gateway.origin} does not accept the management key`);
    const { code, message } = errorOf(text);
    throw new GatewayRefusal(status, code, message || `${this.#gateway.origin} answered ${status}`);
  }

  /**
   * An answer as its operation promises it: arguments and answer are held to its schemas.
   * @throws as {@link text}; Unusable for any other answer
   */
  async ask<A extends Arguments, O extends AnswerSchema>(operation: TypedOperation<A, O>, args: A): Promise<AnswerOf<O>> {
    const answer = this.#jsonIn(await this.text(operation, args));
    const read = operation.output.schema?.safeParse(answer);
    if (read?.success !== true) throw new Unusable(`${this.#gateway.origin} answers something else than ${operation.id} promises`);
    return read.data;
  }

  /** Page by page to the end. @throws as {@link text} */
  async *pages(operation: GatewayOperation, args: Arguments): AsyncGenerator<readonly unknown[]> {
    for (let next: Arguments | undefined = args; next !== undefined; ) {
      const page: ManagementPage = await this.page(operation, next);
      yield page.data;
      next = page.next;
    }
  }

  /** One page. @throws as {@link text} */
  async page(operation: GatewayOperation, args: Arguments): Promise<ManagementPage> {
    const page = this.#jsonIn(await this.text(operation, args));
    if (!isJsonObject(page) || !Array.isArray(page['data'])) throw new Unusable(`what ${this.#gateway.origin} answers is no list`);
    const cursor = page['next_cursor'];
    return { data: page['data'], next: typeof cursor === 'string' ? { ...args, cursor } : undefined };
  }

  #jsonIn(text: string): unknown {
    try {
      return parseSafeJsonText(text, { malformed: 'invalid_request' }).value;
    } catch (error) {
      throw new Unusable(`what ${this.#gateway.origin} answers is not JSON: is it a gateway?`, { cause: error });
    }
  }
}
