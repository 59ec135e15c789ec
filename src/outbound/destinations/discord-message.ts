import { ownWords } from '../../base/lib/shown-text.ts';
import { type AlertCard, type AlertFact, onFace } from './alert-card.ts';

/** Discord's limits, in characters. */
const TITLE = 256;
const TEXT = 2_000;
const FIELDS = 25;
const FIELD_NAME = 256;
const FIELD_VALUE = 1_024;
/** Of the whole embed 6,000 are allowed. */
const ALL_FIELDS = 3_000;
const COLOURS: Readonly<Record<AlertCard['tone'], number>> = { info: 0x2eb886, warning: 0xdaa038, critical: 0xa30200 };

/** An alert as a webhook of Discord takes it; it calls nobody, whatever its texts say. */
export function discordMessage(card: AlertCard): unknown {
  const command = card.command === undefined ? '' : `\n\`\`\`\n${card.command.replaceAll('`', 'ˋ')}\n\`\`\``;
  return {
    embeds: [
      {
        title: onFace(card.title, 'discord', TITLE),
        description: `${onFace(card.text, 'discord', TEXT - command.length)}${command}`,
        color: COLOURS[card.tone],
        fields: fields(card.facts),
        timestamp: card.at,
        ...(card.link ? { url: card.link.url } : {}),
      },
    ],
    allowed_mentions: { parse: [] },
  };
}

function fields(facts: readonly AlertFact[]): readonly unknown[] {
  let left = ALL_FIELDS;
  return facts.slice(0, FIELDS).flatMap((fact) => {
    const name = ownWords(fact.name, 'discord').slice(0, FIELD_NAME);
    const value = onFace(fact.value, 'discord', Math.max(1, Math.min(FIELD_VALUE, left - name.length)));
    left -= name.length + value.length;
    return left <= 0 ? [] : [{ name, value: value === '' ? '-' : value, inline: true }];
  });
}
