import { type AlertCard, type AlertFact, cut } from './alert-card.ts';

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
        title: cut(plain(card.title), TITLE),
        description: `${cut(plain(card.text), TEXT - command.length)}${command}`,
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
    const name = cut(plain(fact.name), FIELD_NAME);
    const value = cut(plain(fact.value), Math.min(FIELD_VALUE, left - name.length));
    left -= name.length + value.length;
    return left <= 0 ? [] : [{ name, value: value === '' ? '-' : value, inline: true }];
  });
}

/** Nothing in it is markup. */
function plain(text: string): string {
  return text.replaceAll(/[\\`*_~|>[\]()#<]/g, '\\$&');
}
