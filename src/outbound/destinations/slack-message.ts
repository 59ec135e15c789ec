import { type AlertCard, cut } from './alert-card.ts';

/** Slack's limits, in characters (its reference of blocks). */
const HEADER = 150;
const SECTION = 3_000;
const FIELD = 2_000;
const FIELDS = 10;
const COLOURS: Readonly<Record<AlertCard['tone'], string>> = { info: '#2eb886', warning: '#daa038', critical: '#a30200' };

/** An alert as an incoming webhook of Slack takes it. */
export function slackMessage(card: AlertCard): unknown {
  const fields = card.facts.map(({ name, value }) => ({
    type: 'mrkdwn',
    text: cut(`*${escaped(name)}*\n${escaped(value)}`, FIELD),
    verbatim: true,
  }));
  const blocks: unknown[] = [
    { type: 'header', text: { type: 'plain_text', text: cut(escaped(card.title), HEADER), emoji: false } },
    section(escaped(card.text)),
  ];
  for (let at = 0; at < fields.length; at += FIELDS) blocks.push({ type: 'section', fields: fields.slice(at, at + FIELDS) });
  if (card.command !== undefined) blocks.push(section(`\`\`\`${escaped(card.command)}\`\`\``));
  if (card.link)
    blocks.push({
      type: 'actions',
      elements: [{ type: 'button', text: { type: 'plain_text', text: cut(card.link.title, 75) }, url: card.link.url }],
    });
  return { text: cut(escaped(card.title), SECTION), attachments: [{ color: COLOURS[card.tone], blocks }] };
}

function section(text: string): unknown {
  return { type: 'section', text: { type: 'mrkdwn', text: cut(text, SECTION), verbatim: true } };
}

/** Without this `<!channel>` would call everybody. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('`', 'ˋ');
}
