import type { Operation } from '../../base/catalogue/types.ts';
import { ByteCollector } from '../../base/lib/byte-collector.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { refuseLatePart } from '../../inbound/normalise/body.ts';
import type { Form } from '../../inbound/normalise/form.ts';
import type { MultipartReader } from '../../inbound/normalise/multipart.ts';
import { lacksModel } from '../../inbound/normalise/places.ts';
import type { BufferHold } from './buffer-budget.ts';
import type { PassingBody, StreamedForm } from './passing-body.ts';

const NOTHING = new Uint8Array(0);
/** What is held must arrive within this; what passes may take as long as it needs. */
const HEAD_LIMIT_MS = 300_000;
/**
 * More than the head of a part and the delimiter before it: a form is not refused because its limit lies just there.
 */
const BETWEEN_PARTS = 16_384;

/** The call that the form belongs to. */
export interface FormCall {
  readonly operation: Operation | undefined;
  /** Canonical, with query. */
  readonly path: string;
  readonly held: BufferHold;
  readonly clock: Clock;
  readonly maxBodyBytes: number;
}

/**
 * A multipart form of which policy reads the fields while it arrives. A form that fits into `GW_MAX_BODY_BYTES` is
 * held; of a larger one only what precedes its files is: once a file arrives and the model is known the call is
 * decided, and the rest passes through, looked at on the way. What comes then may be files and nothing that policy
 * would have had to see (decision 3.19).
 */
export class FormUpload implements StreamedForm {
  readonly #call: FormCall;
  readonly #source: PassingBody;
  readonly #reader: MultipartReader;
  /** What is sent first; undefined once it was. */
  #head: Uint8Array | undefined;
  #headGrowth = 0;
  #ended = false;
  /** Why its head is not read to the end. */
  #refusal: GatewayError | undefined;
  /** Of the parts that were looked at so far: they are not listed anew with each piece that comes. */
  readonly #names = new Set<string>();
  #named = 0;
  /** With the names of its params. */
  #decided: { readonly params: Readonly<Record<string, true>>; readonly operation: Operation; known: number } | undefined;

  constructor(call: FormCall, source: PassingBody, reader: MultipartReader) {
    this.#call = call;
    this.#source = source;
    this.#reader = reader;
  }

  get length(): number | undefined {
    return this.#source.length === undefined ? undefined : this.#source.length + this.#headGrowth;
  }

  get bytes(): number {
    return this.#source.bytes;
  }

  get sha256(): string | undefined {
    return this.#source.sha256;
  }

  get form(): Form {
    return this.#reader.form;
  }

  /** What was read of the body. */
  get head(): Uint8Array {
    return this.#head ?? NOTHING;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /**
   * Reads what policy needs.
   * @returns true when that was the whole body
   * @throws GatewayError `ambiguous_body`, `body_too_large`, `overloaded`, `client_gone`, `request_timeout`
   */
  async readHead(): Promise<boolean> {
    const late = new GatewayError('request_timeout', 'The fields of the form did not arrive in time.');
    const cancel = this.#call.clock.after(HEAD_LIMIT_MS, () => this.#stop(late));
    try {
      return await this.#hold();
    } finally {
      cancel();
    }
  }

  async #hold(): Promise<boolean> {
    const { held } = this.#call;
    const pieces = new ByteCollector();
    let whole = false;
    while (!whole && !this.#mayGoOn()) {
      const chunk = await this.#source.take();
      if (this.#refusal) throw this.#refusal;
      whole = chunk === undefined;
      held.arrive(chunk?.length ?? 0, this.#stop);
      pieces.push(this.#read(chunk));
    }
    held.settle();
    this.#head = pieces.take();
    return whole;
  }

  replaceHead(bytes: Uint8Array): void {
    this.#headGrowth += bytes.length - this.head.length;
    this.#head = bytes;
  }

  settle(params: Readonly<Record<string, unknown>>, operation: Operation | undefined): void {
    const names = Object.fromEntries(Object.keys(params).map((name) => [name, true as const]));
    if (operation) this.#decided = { params: names, operation, known: this.#reader.fields.length };
  }

  async next(): Promise<IteratorResult<Uint8Array>> {
    if (this.#head) return { done: false, value: this.#takeHead() };
    while (!this.#ended) {
      const chunk = await this.#source.take();
      this.#ended = chunk === undefined;
      const certain = this.#read(chunk);
      this.#judgeParts();
      if (certain.length > 0) return { done: false, value: certain };
    }
    return { done: true, value: undefined };
  }

  return(): Promise<IteratorResult<Uint8Array>> {
    return this.#source.return();
  }

  readonly #stop = (reason: GatewayError): void => {
    this.#refusal = reason;
    void this.return();
  };

  #read(chunk: Uint8Array | undefined): Uint8Array {
    return chunk ? this.#reader.push(chunk) : this.#reader.end();
  }

  /** True once the rest may pass. @throws GatewayError `body_too_large` when it may not and nothing more can be held */
  #mayGoOn(): boolean {
    const { maxBodyBytes, operation, path } = this.#call;
    const { open, fields } = this.#reader;
    const isTooLarge = (this.#source.length ?? this.bytes) > maxBodyBytes;
    if (!isTooLarge) return false;
    for (; this.#named < fields.length; this.#named += 1) this.#names.add(fields[this.#named]?.name ?? '');
    if (open?.file && !lacksModel(operation?.dialect, path, this.#names)) return true;
    if (this.bytes <= maxBodyBytes + (open ? 0 : BETWEEN_PARTS)) return false;
    throw new GatewayError(
      'body_too_large',
      `A form of more than ${maxBodyBytes} bytes passes while it arrives, which needs its text fields (the model among them) before its files.`,
    );
  }

  #takeHead(): Uint8Array {
    const { head } = this;
    this.#head = undefined;
    this.#call.held.keep(0);
    return head;
  }

  #judgeParts(): void {
    const decided = this.#decided;
    const { fields } = this.#reader;
    while (decided && decided.known < fields.length) {
      const part = fields[decided.known];
      decided.known += 1;
      if (part) refuseLatePart(part, decided.params, decided.operation);
    }
  }
}
