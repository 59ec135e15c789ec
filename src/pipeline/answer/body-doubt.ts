import type { BodyKind } from '../../base/catalogue/stream-types.ts';
import { ByteCollector } from '../../base/lib/byte-collector.ts';
import { createDecoder } from '../../base/lib/decoder.ts';
import type { Decoder } from '../../base/lib/decoder-gate.ts';
import { type AnswerHead, labelledKind } from '../../inbound/reply/answer-head.ts';
import { latin1 } from '../../outbound/connectors/answer-reader.ts';
import { type BodyClues, bodyKind, kindOfSign, MAX_LOOKED_AT } from '../../outbound/connectors/body-kind.ts';
import type { ForwardedCall } from '../parts/parts.ts';

/** In nearly every answer the first byte says what it is. */
const FIRST_LOOK = 64;
const NOTHING = new Uint8Array(0);

/** Keeps the first bytes of an answer until they have said what it is, which is not always what its head says. */
export class BodyDoubt {
  readonly #clues: BodyClues;
  /** As received: the first chunk alone, where it has said it, as nearly every one does. */
  #only: Uint8Array | undefined;
  /** As received, where the first chunk did not say it. */
  #bytes: ByteCollector | undefined;
  /** The same decoded, as far as it is looked at. */
  #text = '';
  readonly #decoder: Decoder | undefined;
  /** Something came that may tell more than what was there before. */
  #mayTell = false;

  /** @param encoding one that can be decoded, in lower case */
  constructor(clues: BodyClues, encoding: string | undefined) {
    this.#clues = clues;
    this.#decoder =
      encoding === undefined ? undefined : createDecoder(encoding, { maxBytes: MAX_LOOKED_AT, onData: (plain) => this.#add(plain) });
  }

  /** Then only `pushEncoded` may be used. */
  get isEncoded(): boolean {
    return this.#decoder !== undefined;
  }

  /** @returns undefined: more is needed */
  push(chunk: Uint8Array): BodyKind | undefined {
    if (this.#text === '') {
      const known = kindOfSign(chunk[0] ?? 0, this.#clues);
      const kind = known ?? bodyKind(latin1(chunk.subarray(0, FIRST_LOOK)), this.#clues, false);
      if (kind !== undefined) this.#only = chunk;
      if (kind !== undefined) return kind;
    }
    this.#keep(chunk);
    this.#add(chunk);
    return this.#told(false);
  }

  /** The same for encoded bytes. */
  async pushEncoded(chunk: Uint8Array): Promise<BodyKind | undefined> {
    this.#keep(chunk);
    await this.#decoder?.push(chunk);
    return this.#told(this.#text.length >= MAX_LOOKED_AT);
  }

  #told(isEnd: boolean): BodyKind | undefined {
    if (!this.#mayTell) return undefined;
    this.#mayTell = false;
    return bodyKind(this.#text, this.#clues, isEnd);
  }

  /** What it is when nothing comes any more. */
  end(): BodyKind {
    return bodyKind(this.#text, this.#clues, true) ?? this.#clues.label;
  }

  /** All that came, as received. Nothing may be pushed behind that. */
  take(): Uint8Array {
    this.#decoder?.abort();
    return this.#only ?? this.#bytes?.take() ?? NOTHING;
  }

  #keep(chunk: Uint8Array): void {
    this.#bytes ??= new ByteCollector();
    this.#bytes.push(chunk);
  }

  /** Past the first bytes only the end of a line tells more: nothing is looked at again for each byte of a long one. */
  #add(chunk: Uint8Array): void {
    const piece = latin1(chunk.subarray(0, MAX_LOOKED_AT + 1 - this.#text.length));
    const isFirst = this.#text.length < FIRST_LOOK;
    this.#text += piece;
    if (isFirst || this.#text.length >= MAX_LOOKED_AT || /[\r\n]/.test(piece)) this.#mayTell = true;
  }
}

/**
 * Undefined where the head alone says what the answer is: it has no body, nobody can read it, or it belongs to no call
 * that may stream. What calls itself a stream is doubted in every AI call, any other answer where it is no error and
 * its format streams.
 */
export function doubtOf({ route }: ForwardedCall, head: AnswerHead): BodyDoubt | undefined {
  const { operation, actionType, stream } = route;
  const dialect = operation?.dialect;
  const streams = dialect?.streaming !== undefined || dialect?.stream !== undefined;
  if (head.bodiless || (actionType === 'http.request' && dialect?.streaming === undefined)) return undefined;
  if (!head.eventStream && (!streams || head.status < 200 || head.status >= 300)) return undefined;
  const mayBeList = dialect?.streaming?.orJsonArray === true && head.status === 200;
  const doubt = new BodyDoubt({ dialect, label: labelledKind(head), isAsked: stream, mayBeList }, head.contentEncoding);
  return head.contentEncoding !== undefined && !doubt.isEncoded ? undefined : doubt;
}
