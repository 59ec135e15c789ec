declare global {
  // Node has both since 20.0; the compiler's es2023 library does not name them yet.
  interface String {
    isWellFormed(): boolean;
    toWellFormed(): string;
  }
}

/** True when the text holds no lone surrogate, that is when it can be written as UTF-8 without loss (decision 7.6). */
export function isWellFormed(text: string): boolean {
  return text.isWellFormed();
}

/** The text with every lone surrogate replaced by U+FFFD. */
export function toWellFormed(text: string): string {
  return text.toWellFormed();
}
