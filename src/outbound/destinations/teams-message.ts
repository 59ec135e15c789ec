import { cutShown } from '../../base/lib/shown-text.ts';
import { type AlertCard, onFace } from './alert-card.ts';

/** A card is about 28 KB at most. */
const TEXT = 4_000;
const VALUE = 500;
const COLOURS: Readonly<Record<AlertCard['tone'], string>> = { info: 'Good', warning: 'Warning', critical: 'Attention' };

/** An alert as a workflow of Microsoft Teams takes it: an Adaptive Card. Texts are runs, in which nothing is markup. */
export function teamsMessage(card: AlertCard): unknown {
  const body: unknown[] = [
    // No block of text, which is read as Markdown.
    runs({ text: onFace(card.title, 'teams', VALUE), weight: 'Bolder', size: 'Medium', color: COLOURS[card.tone] }),
    runs({ text: onFace(card.text, 'teams', TEXT) }),
    ...card.facts.map(({ name, value }) => runs({ text: `${name}: `, weight: 'Bolder' }, { text: onFace(value, 'teams', VALUE) })),
    ...(card.command === undefined ? [] : [runs({ text: cutShown(card.command, TEXT), fontType: 'Monospace' })]),
  ];
  return {
    type: 'message',
    attachments: [
      {
        contentType: 'application/vnd.microsoft.card.adaptive',
        contentUrl: null,
        content: {
          $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
          type: 'AdaptiveCard',
          version: '1.2',
          body,
          ...(card.link ? { actions: [{ type: 'Action.OpenUrl', title: card.link.title, url: card.link.url }] } : {}),
          msteams: { width: 'full' },
        },
      },
    ],
  };
}

function runs(...inlines: readonly Readonly<Record<string, string>>[]): unknown {
  return { type: 'RichTextBlock', inlines: inlines.map((inline) => ({ type: 'TextRun', ...inline })) };
}
