import { cutShown, ownWords } from '../../base/lib/shown-text.ts';
import { type AlertCard, onFace } from './alert-card.ts';

const TITLE = 200;
/** A message is 32,000 bytes at most. */
const TEXT = 3_000;
const VALUE = 400;

/**
 * An alert as a webhook of Google Chat takes it. Nothing of it is in `text`, where `<users/all>` would call everybody.
 */
export function googleChatMessage(card: AlertCard): unknown {
  const widgets: unknown[] = [
    { textParagraph: { text: onFace(card.text, 'google_chat', TEXT) } },
    ...card.facts.map(({ name, value }) => ({
      decoratedText: { topLabel: ownWords(name, 'google_chat'), text: onFace(value, 'google_chat', VALUE), wrapText: true },
    })),
  ];
  if (card.command !== undefined) widgets.push({ textParagraph: { text: cutShown(ownWords(card.command, 'google_chat'), TEXT) } });
  if (card.link) widgets.push({ buttonList: { buttons: [{ text: card.link.title, onClick: { openLink: { url: card.link.url } } }] } });
  return {
    ...(card.thread === undefined ? {} : { thread: { threadKey: card.thread } }),
    // A title is plain text, without entities.
    cardsV2: [
      { cardId: card.alertId, card: { header: { title: onFace(card.title, 'teams', TITLE), subtitle: card.at }, sections: [{ widgets }] } },
    ],
  };
}
