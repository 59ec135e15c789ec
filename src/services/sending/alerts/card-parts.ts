/* What the cards of all alerts are made of. */
import { shorten } from '../../../base/lib/text.ts';
import { type AlertCard, type AlertFact, type CardButtons, type CardText, own } from '../../../outbound/destinations/alert-card.ts';

/** Of what strangers chose. */
const SHOWN = 300;

/** A card without what every alert has. */
export type Said = Omit<AlertCard, 'alertId' | 'at'>;

/** A fact by its name; undefined: there is none, and it is left out. */
type Fact = readonly [name: string, value: CardText | undefined];

/** Where people find the gateway, each without a slash at the end. */
export interface GatewayPlace {
  /** Of the management API, for what they are told to type. */
  readonly url: string;
  /** Of pages; undefined: nobody knows where those that are alerted would find them (decision 11.4). */
  readonly pages: string | undefined;
  /** What a button in a chat says of an approval; undefined: messages have no buttons (decision 11.6). */
  readonly buttonsFor?: ((approvalId: string) => Pick<CardButtons, 'approve' | 'deny'>) | undefined;
}

export function facts(...all: readonly Fact[]): readonly AlertFact[] {
  return all.flatMap(([name, value]): readonly AlertFact[] => {
    if (value === undefined || value.length === 0) return [];
    if (typeof value === 'string') return [{ name, value: shorten(value, SHOWN) }];
    return [{ name, value: value.map(({ text, theirs }) => ({ text: shorten(text, SHOWN), theirs })) }];
  });
}

export function ownIfAny(text: string | undefined): CardText | undefined {
  return text === undefined ? undefined : own(text);
}
