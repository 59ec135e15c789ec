import type { RecordMembers } from '../contract/record-query.ts';
import { BETWEEN_ITEMS, type Codes, columnTexts, costOf, type RecordColumns, TEXT_COLUMNS, type TextTest } from './record-columns.ts';

const FIRST_ROWS = 1_024;
const WIDTH = TEXT_COLUMNS.length;

/** The texts of one column. Neighbours mostly have the same, so that who asks looks at the last one before the map. */
class Texts {
  readonly values: string[] = [];
  readonly #codes = new Map<string, number>();
  /** The text that was given last, and its code; 0: none was. */
  last = '';
  lastCode = 0;

  codeOf(text: string): number {
    let code = this.#codes.get(text);
    if (code === undefined) {
      code = this.values.push(text);
      this.#codes.set(text, code);
    }
    this.last = text;
    this.lastCode = code;
    return code;
  }

  passing(test: TextTest): Uint8Array | undefined {
    const flags = new Uint8Array(this.values.length + 1);
    let found = false;
    if ('isOneOf' in test) {
      for (const text of test.isOneOf) {
        const code = this.#codes.get(text);
        if (code === undefined) continue;
        flags[code] = 1;
        found = true;
      }
      return found ? flags : undefined;
    }
    for (const [at, value] of this.values.entries()) {
      if (!passes(value, test)) continue;
      flags[at + 1] = 1;
      found = true;
    }
    return found ? flags : undefined;
  }
}

function passes(text: string, test: Exclude<TextTest, { readonly isOneOf: unknown }>): boolean {
  if ('hasItem' in test) return text.split(BETWEEN_ITEMS).includes(test.hasItem);
  return test.containsOneOf.some((part) => text.includes(part));
}

/**
 * The columns of a segment that is written to. The codes of one row stand together, so that adding it touches little
 * memory.
 */
export class GrowingColumns implements RecordColumns {
  readonly segment: number;
  rows = 0;
  times = new Float64Array(FIRST_ROWS);
  costs = new Float64Array(FIRST_ROWS);
  offsets = new Uint32Array(FIRST_ROWS);
  #codes = new Uint32Array(FIRST_ROWS * WIDTH);
  readonly #texts = TEXT_COLUMNS.map(() => new Texts());

  constructor(segment: number) {
    this.segment = segment;
  }

  append(record: RecordMembers, committedAt: number, offset: number): void {
    const row = this.rows;
    if (row === this.offsets.length) this.#grow();
    this.times[row] = committedAt;
    this.costs[row] = costOf(record);
    this.offsets[row] = offset;
    const from = row * WIDTH;
    const ofRecord = columnTexts(record);
    for (let column = 0; column < WIDTH; column += 1) {
      const text = ofRecord[column];
      const texts = this.#texts[column];
      if (typeof text !== 'string' || texts === undefined) continue;
      this.#codes[from + column] = text === texts.last && texts.lastCode > 0 ? texts.lastCode : texts.codeOf(text);
    }
    this.rows = row + 1;
  }

  codes(column: number): { readonly array: Codes; readonly from: number; readonly stride: number } {
    return { array: this.#codes, from: column, stride: WIDTH };
  }

  passing(column: number, test: TextTest): Uint8Array | undefined {
    return this.#texts[column]?.passing(test);
  }

  /** The texts of a column by their codes, which begin at 1. */
  texts(column: number): readonly string[] {
    return this.#texts[column]?.values ?? [];
  }

  #grow(): void {
    const rows = this.rows * 2;
    this.times = grown(new Float64Array(rows), this.times);
    this.costs = grown(new Float64Array(rows), this.costs);
    this.offsets = grown(new Uint32Array(rows), this.offsets);
    this.#codes = grown(new Uint32Array(rows * WIDTH), this.#codes);
  }
}

function grown<T extends Float64Array | Uint32Array>(larger: T, before: T): T {
  larger.set(before);
  return larger;
}
