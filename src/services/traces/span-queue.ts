/** Spans that wait to be sent; all of a batch are as large as a receiver takes easily. */
const MAX_SPANS = 8_192;
const MAX_CHARACTERS = 16 * 1024 * 1024;
const BATCH_SPANS = 512;
const BATCH_CHARACTERS = 1024 * 1024;

interface Item {
  readonly text: string;
  readonly spans: number;
}

/** What waits, as the texts that are sent, which are a fraction of the calls that they tell of. */
export class SpanQueue {
  #items: Item[] = [];
  #from = 0;
  #spans = 0;
  #characters = 0;

  get hasRoom(): boolean {
    return this.#spans < MAX_SPANS && this.#characters < MAX_CHARACTERS;
  }

  get isFullBatch(): boolean {
    return this.#spans >= BATCH_SPANS || this.#characters >= BATCH_CHARACTERS;
  }

  push(text: string, spans: number): void {
    this.#items.push({ text, spans });
    this.#spans += spans;
    this.#characters += text.length;
  }

  /** The oldest, joined by commas; undefined when nothing waits. */
  take(): Item | undefined {
    const texts: string[] = [];
    let spans = 0;
    let characters = 0;
    for (let item = this.#items[this.#from]; item; item = this.#items[this.#from]) {
      if (texts.length > 0 && (spans + item.spans > BATCH_SPANS || characters + item.text.length > BATCH_CHARACTERS)) break;
      texts.push(item.text);
      spans += item.spans;
      characters += item.text.length;
      this.#from += 1;
    }
    this.#spans -= spans;
    this.#characters -= characters;
    if (this.#from === this.#items.length || this.#from > MAX_SPANS) {
      this.#items = this.#items.slice(this.#from);
      this.#from = 0;
    }
    return texts.length === 0 ? undefined : { text: texts.join(','), spans };
  }
}
