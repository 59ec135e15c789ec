/** What an alert says, before a kind of channel gives it its form. All texts are plain; what strangers chose is among them. */
export interface AlertCard {
  /** The same at every try. */
  readonly alertId: string;
  readonly title: string;
  readonly tone: 'info' | 'warning' | 'critical';
  readonly text: string;
  readonly facts: readonly AlertFact[];
  /** Where to go next. */
  readonly link?: { readonly title: string; readonly url: string };
  /** What to type in its place. */
  readonly command?: string;
  /** RFC 3339. */
  readonly at: string;
}

export interface AlertFact {
  readonly name: string;
  readonly value: string;
}

/** At most so many characters, and never half of one. */
export function cut(text: string, length: number): string {
  if (text.length <= length) return text;
  const short = text.slice(0, length - 1);
  return `${/[\uD800-\uDBFF]$/.test(short) ? short.slice(0, -1) : short}…`;
}
