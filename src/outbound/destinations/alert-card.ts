import { cutShown, type Face, ownWords, shownText } from '../../base/lib/shown-text.ts';

/** A piece of what an alert says: our own words, or what a stranger chose. */
interface CardPart {
  readonly text: string;
  readonly theirs: boolean;
}

/**
 * What an alert says: a channel shows what is ours and what strangers chose in two ways. A text alone is a stranger's.
 */
export type CardText = string | readonly CardPart[];

/** Our own words, with what strangers chose between them. */
export function said(words: TemplateStringsArray, ...between: readonly (number | CardText)[]): readonly CardPart[] {
  return words.flatMap((word, at) => [...own(word), ...partsOf(between[at])]);
}

/** Words of our own. */
export function own(text: string): readonly CardPart[] {
  return text === '' ? [] : [{ text, theirs: false }];
}

function partsOf(part: number | CardText = ''): readonly CardPart[] {
  if (typeof part === 'number') return own(String(part));
  return typeof part === 'string' ? [{ text: part, theirs: true }] : part;
}

/** On a face, at most `max` UTF-16 units. */
export function onFace(text: CardText, face: Face, max = Number.POSITIVE_INFINITY): string {
  return cutShown(
    partsOf(text)
      .map((part) => (part.theirs ? shownText(part.text, face) : ownWords(part.text, face)))
      .join(''),
    max,
  );
}

/** As it is, for programs. */
export function exactText(text: CardText): string {
  return typeof text === 'string' ? text : text.map((part) => part.text).join('');
}

/** What an alert says, before a kind of channel gives it its form. */
export interface AlertCard {
  /** The same at every try. */
  readonly alertId: string;
  readonly title: CardText;
  readonly tone: 'info' | 'warning' | 'critical';
  readonly text: CardText;
  readonly facts: readonly AlertFact[];
  /** Where to go next. */
  readonly link?: { readonly title: string; readonly url: string };
  /** What it is decided by in the chat itself, where that has buttons. */
  readonly buttons?: CardButtons;
  /** Messages of one of these belong together, where a chat can have them so. */
  readonly thread?: string;
  /** What to type in its place. */
  readonly command?: string;
  /** RFC 3339. */
  readonly at: string;
}

export interface CardButtons {
  /** What each of them says when it is pressed. */
  readonly approve: string;
  readonly deny: string;
  /** What a yes does. */
  readonly yes: string;
}

export interface AlertFact {
  readonly name: string;
  readonly value: CardText;
}
