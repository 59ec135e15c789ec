import type { DeferredRule } from '../../base/catalogue/dialect-rules.ts';
import { compilePath, type Path, valueAt } from './answer-paths.ts';

const MAX_ID = 256;

/** Which response an answer tells of, and whether that has ended: followed where a response may be made after the answer to its call. */
export class ResponseState {
  /** Undefined while the answer has named none. */
  id: string | undefined;
  #status: string | undefined;
  readonly #open: readonly string[];
  /** Of id and status, in a response object. */
  readonly paths: readonly [id: Path, status: Path];
  /** The same in the data of an event. */
  readonly eventPaths: readonly [id: Path, status: Path];
  /** Stands in the text of every event that has a response object in it. */
  readonly needle: string;

  constructor(rule: DeferredRule) {
    this.#open = rule.open;
    this.paths = [compilePath(rule.id), compilePath(rule.status)];
    this.eventPaths = [
      [rule.inEvent, ...this.paths[0]],
      [rule.inEvent, ...this.paths[1]],
    ];
    this.needle = `"${rule.inEvent}"`;
  }

  /** Takes what stands at one of the two paths; later statuses win. */
  take(which: 0 | 1, value: unknown): void {
    if (typeof value !== 'string' || value === '') return;
    if (which === 1) this.#status = value;
    else if (value.length <= MAX_ID && value.isWellFormed()) this.id ??= value;
  }

  /** The data of one event of a stream. */
  takeEvent(data: unknown): void {
    this.take(0, valueAt(data, this.eventPaths[0]));
    this.take(1, valueAt(data, this.eventPaths[1]));
  }

  /** It says of a response that this is being made. */
  get isOpen(): boolean {
    return this.#status !== undefined && this.#open.includes(this.#status);
  }

  /** It says of a response that this has ended; nothing that was not said counts. */
  get hasEnded(): boolean {
    return this.#status !== undefined && !this.isOpen;
  }
}
