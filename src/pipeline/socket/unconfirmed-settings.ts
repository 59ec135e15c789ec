import type { BufferBudget } from '../body/buffer-budget.ts';

type Settings = Readonly<Record<string, unknown>>;

const NOTHING: Settings = {};

/**
 * Changes of a session's settings that went to the server and that it has not answered yet. It answers them in order,
 * or refuses one and names its event. What they say is held until all are answered.
 */
export class UnconfirmedSettings {
  readonly #buffers: BufferBudget;
  readonly #maxBytes: number;
  /** Of the events that asked for them. */
  readonly #ids: string[] = [];
  #settings: Settings = NOTHING;
  /** Bytes of the shared budget that they hold. */
  #held = 0;

  constructor(buffers: BufferBudget, maxBytes: number) {
    this.#buffers = buffers;
    this.#maxBytes = maxBytes;
  }

  get any(): boolean {
    return this.#ids.length > 0;
  }

  /** Settings as they will be if the server takes every change. */
  over(settings: Settings): Settings {
    return this.any ? { ...settings, ...this.#settings } : settings;
  }

  /** False when more would be held, and looked at with each call, than settings may be. */
  add(id: string, session: unknown, bytes: number): boolean {
    if (this.#held + bytes > this.#maxBytes || !this.#buffers.tryTake(bytes)) return false;
    this.#held += bytes;
    this.#settings = { ...this.#settings, ...(typeof session === 'object' ? session : NOTHING) };
    this.#ids.push(id);
    return true;
  }

  /** The server has told settings as the answer to the oldest change. */
  answered(): void {
    this.#ids.shift();
    if (!this.any) this.forget();
  }

  /** The server has refused the change that this event asked for. */
  refused(id: string): void {
    const at = this.#ids.indexOf(id);
    if (at === -1) return;
    this.#ids.splice(at, 1);
    if (!this.any) this.forget();
  }

  /** None of them matters any more. */
  forget(): void {
    this.#ids.length = 0;
    this.#buffers.give(this.#held);
    this.#held = 0;
    this.#settings = NOTHING;
  }
}
