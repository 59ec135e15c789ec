import { stat } from 'node:fs/promises';
import type { PriceListSource } from '../../base/config/price-list-source.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { encodingOf } from '../../base/lib/decoder.ts';
import { readRegularFile } from '../../base/lib/file-system.ts';
import { GatewayError, messageOf } from '../../base/lib/gateway-error.ts';
import { decodeUtf8 } from '../../base/lib/text.ts';
import { OUTBOUND_BOUNDS } from '../../base/model/traffic-bounds.ts';
import type { Fetching } from '../../outbound/destinations/way-out.ts';

/** Of the text of a list; the published one has half a megabyte. */
export const MAX_LIST_BYTES = OUTBOUND_BOUNDS.priceList.one;
const ANSWER_MS = 60_000;
const LONGEST_TAG = 256;

/** The text of a list, as somebody or something has given it. */
export interface GivenList {
  readonly text: string;
  /** `given`: with the request that asks for it. */
  readonly kind: 'file' | 'address' | 'given';
  /** How people are told of where it comes from. */
  readonly name: string;
  /** The day that it is of where it does not say so itself: `2026-11-21`. */
  readonly day: string;
  /** Of the answer that it came with. */
  readonly etag?: string | undefined;
}

/** A source that is read. */
export type NamedSource = Exclude<PriceListSource, { kind: 'shipped' }>;

export interface ListSourcesOptions {
  readonly door: Fetching;
  readonly clock: Clock;
}

/** Reads price lists from where they are: files, and addresses by the door for what is no call. */
export class ListSources {
  readonly #options: ListSourcesOptions;

  constructor(options: ListSourcesOptions) {
    this.#options = options;
  }

  /**
   * @param etag of an answer that is known: undefined comes back where the address still has that
   * @throws GatewayError `price_list_unavailable`, in one line
   */
  async read(source: NamedSource, signal: AbortSignal, etag?: string): Promise<GivenList | undefined> {
    try {
      return source.kind === 'file' ? await this.#readFile(source) : await this.#ask(source, signal, etag);
    } catch (error) {
      const why = messageOf(error).replace(/\.$/, '');
      // biome-ignore lint/style/useErrorCause: the cause is in the third argument
      throw new GatewayError(
        'price_list_unavailable',
        `The price list of ${source.name} could not be had; the one before stays in force: ${why}.`,
        { cause: error },
      );
    }
  }

  async #readFile({ name, path }: Extract<PriceListSource, { kind: 'file' }>): Promise<GivenList> {
    const { mtimeMs } = await stat(path);
    const text = textOf(await readRegularFile(path, MAX_LIST_BYTES));
    return { text, kind: 'file', name, day: dayOf(mtimeMs) };
  }

  async #ask(
    { name, address: to }: Extract<PriceListSource, { kind: 'address' }>,
    signal: AbortSignal,
    etag: string | undefined,
  ): Promise<GivenList | undefined> {
    const { door, clock } = this.#options;
    const condition = etag === undefined ? [] : ['if-none-match', etag];
    const headers = ['accept', 'application/json', 'accept-encoding', 'identity', ...condition];
    const answer = await door.get({ to, headers, signal, timeoutMs: ANSWER_MS, maxBytes: MAX_LIST_BYTES });
    if (answer.status === 304 && etag !== undefined) return undefined;
    if (answer.status >= 300 && answer.status < 400) throw new Error(`it answered HTTP ${answer.status}, and no redirect is followed`);
    if (answer.status !== 200) throw new Error(`it answered HTTP ${answer.status}`);
    const encoding = encodingOf(answer.headers.get('content-encoding'));
    if (encoding !== undefined) throw new Error(`it answered in the encoding ${encoding.slice(0, 40)}, which was not asked for`);
    const changedAt = Date.parse(answer.headers.get('last-modified') ?? '');
    const day = dayOf(Number.isNaN(changedAt) ? clock.now() : changedAt);
    const tag = answer.headers.get('etag') ?? '';
    return { text: textOf(answer.body), kind: 'address', name, day, etag: tag.length <= LONGEST_TAG && tag !== '' ? tag : undefined };
  }
}

function textOf(bytes: Uint8Array): string {
  const text = decodeUtf8(bytes);
  if (typeof text !== 'string') throw new Error('it is not UTF-8 text');
  return text;
}

/** The day of a moment in UTC, as lists write it. @param at epoch milliseconds */
export function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}
