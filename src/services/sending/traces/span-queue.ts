import { Shares } from '../../../base/lib/shares.ts';
import { CONTROL_BOUNDS } from '../../../base/model/org-bounds.ts';

const MAX_SPANS = CONTROL_BOUNDS.spans.all;
const MAX_CHARACTERS = CONTROL_BOUNDS.spanBytes.all;
/** All of a batch are as large as a receiver takes easily. */
const BATCH_SPANS = 512;
const BATCH_CHARACTERS = 1024 * 1024;

interface Batch {
  readonly text: string;
  readonly spans: number;
}

/** Whose call some spans tell of. */
export interface SpanSharer {
  readonly address: string;
  readonly org: string;
}

interface Item extends Batch {
  readonly sharer: SpanSharer;
}

/** What waits, as the texts that are sent, which are a fraction of the calls that they tell of. */
export class SpanQueue {
  #items: Item[] = [];
  #from = 0;
  #spans = 0;
  #characters = 0;
  readonly #shares = new Shares(MAX_SPANS);

  /**
   * Makes room for the spans of a call: where all of it is taken, of the address with most, and of its org with most,
   * the spans of the call that came last are dropped (decision 7.12).
   * @returns how many spans were dropped; undefined: nobody has more than this caller himself, so his own are
   */
  makeRoom({ address, org }: SpanSharer): number | undefined {
    if (this.#spans < MAX_SPANS && this.#characters < MAX_CHARACTERS) return 0;
    const most = this.#shares.largest();
    if (most === undefined || this.#shares.takenBy(most) <= this.#shares.takenBy(address)) {
      const own = this.#shares.largestCaller(address);
      return own === undefined || own === org ? undefined : this.#drop(address, own);
    }
    return this.#drop(most, this.#shares.largestCaller(most));
  }

  #drop(address: string, org: string | undefined): number | undefined {
    const at = this.#items.findLastIndex(({ sharer }) => sharer.address === address && sharer.org === org);
    const [item] = at < this.#from ? [] : this.#items.splice(at, 1);
    if (item === undefined) return undefined;
    this.#forget(item);
    return item.spans;
  }

  #forget({ text, spans, sharer }: Item): void {
    this.#spans -= spans;
    this.#characters -= text.length;
    this.#shares.give(sharer.address, sharer.org, spans);
  }

  get isFullBatch(): boolean {
    return this.#spans >= BATCH_SPANS || this.#characters >= BATCH_CHARACTERS;
  }

  push(text: string, spans: number, sharer: SpanSharer): void {
    this.#items.push({ text, spans, sharer });
    this.#shares.take(sharer.address, sharer.org, spans);
    this.#spans += spans;
    this.#characters += text.length;
  }

  /** The oldest, joined by commas; undefined when nothing waits. */
  take(): Batch | undefined {
    const texts: string[] = [];
    let spans = 0;
    let characters = 0;
    for (let item = this.#items[this.#from]; item; item = this.#items[this.#from]) {
      if (texts.length > 0 && (spans + item.spans > BATCH_SPANS || characters + item.text.length > BATCH_CHARACTERS)) break;
      texts.push(item.text);
      spans += item.spans;
      characters += item.text.length;
      this.#from += 1;
      this.#forget(item);
    }
    if (this.#from === this.#items.length || this.#from > MAX_SPANS) {
      this.#items = this.#items.slice(this.#from);
      this.#from = 0;
    }
    return texts.length === 0 ? undefined : { text: texts.join(','), spans };
  }
}
