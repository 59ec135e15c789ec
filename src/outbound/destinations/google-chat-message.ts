import { type AlertCard, cut } from './alert-card.ts';

const TITLE = 200;
/** A message is 32,000 bytes at most. */
const TEXT = 3_000;
const VALUE = 400;

/** An alert as a webhook of Google Chat takes it. Nothing of it is in `text`, where `<users/all>` would call everybody. */
export function googleChatMessage(card: AlertCard): unknown {
  const widgets: unknown[] = [
    { textParagraph: { text: escaped(cut(card.text, TEXT)) } },
    ...card.facts.map(({ name, value }) => ({
      decoratedText: { topLabel: escaped(cut(name, VALUE)), text: escaped(cut(value, VALUE)), wrapText: true },
    })),
  ];
  if (card.command !== undefined) widgets.push({ textParagraph: { text: escaped(cut(card.command, TEXT)) } });
  if (card.link) widgets.push({ buttonList: { buttons: [{ text: card.link.title, onClick: { openLink: { url: card.link.url } } }] } });
  return {
    cardsV2: [{ cardId: card.alertId, card: { header: { title: cut(card.title, TITLE), subtitle: card.at }, sections: [{ widgets }] } }],
  };
}

/** Texts of cards are simple HTML. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
