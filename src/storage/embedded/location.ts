/** Where a frame lies. Its text forms sort like the journal itself: fixed-width hexadecimal, segment first. */
export interface Location {
  readonly segment: number;
  readonly offset: number;
  readonly length: number;
}

const POSITION = /^[0-9a-f]{16}$/;

/** The text of a record's position (`StoredRecord.position`). */
export function positionText(segment: number, offset: number): string {
  return word(segment) + word(offset);
}

/** Undefined for what no store ever gave out. */
export function parsePosition(text: string): { readonly segment: number; readonly offset: number } | undefined {
  if (!POSITION.test(text)) return undefined;
  return { segment: Number.parseInt(text.slice(0, 8), 16), offset: Number.parseInt(text.slice(8, 16), 16) };
}

/** The value of an index row. */
export function locationText(segment: number, offset: number, length: number): string {
  return word(segment) + word(offset) + length.toString(16);
}

export function parseLocation(text: string): Location {
  return {
    segment: Number.parseInt(text.slice(0, 8), 16),
    offset: Number.parseInt(text.slice(8, 16), 16),
    length: Number.parseInt(text.slice(16), 16),
  };
}

function word(value: number): string {
  return value.toString(16).padStart(8, '0');
}
