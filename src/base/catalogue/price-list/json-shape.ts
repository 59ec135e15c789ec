/*
 * Reads one thing of a JSON text after another and says what is wrong where. What is wrong is noted, and something
 * harmless stands for it until the end.
 */

/** Notes what is wrong with a value, and at which place in the text. */
export type Complain = (path: string, message: string) => void;

export type JsonMap = Readonly<Record<string, unknown>>;

export function isJsonMap(value: unknown): value is JsonMap {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export class JsonShape {
  readonly #complain: Complain;

  constructor(complain: Complain) {
    this.#complain = complain;
  }

  complain(path: string, message: string): void {
    this.#complain(path, message);
  }

  map(value: unknown, path: string): JsonMap | undefined {
    if (isJsonMap(value)) return value;
    this.#complain(path, 'must be a map');
    return undefined;
  }

  /** @param most elements at most */
  list(value: unknown, path: string, most: number): readonly unknown[] {
    if (Array.isArray(value) && value.length <= most) return value;
    this.#complain(path, Array.isArray(value) ? `has ${value.length} elements, more than ${most}` : 'must be a list');
    return [];
  }

  /** @param most characters at most */
  text(value: unknown, path: string, most: number): string {
    if (typeof value === 'string' && value !== '' && value.length <= most) return value;
    this.#complain(path, `must be a text of 1 to ${most} characters`);
    return '';
  }

  /** A list of texts, or undefined where there is none. */
  texts(value: unknown, path: string, most: number, longest: number): readonly string[] | undefined {
    if (value === undefined) return undefined;
    return this.list(value, path, most).map((one, i) => this.text(one, `${path}[${i}]`, longest));
  }
}
