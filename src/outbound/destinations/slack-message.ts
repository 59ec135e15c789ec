import { cutShown, ownWords } from '../../base/lib/shown-text.ts';
import { type AlertCard, onFace } from './alert-card.ts';

/** Slack's limits, in characters (its reference of blocks). */
const HEADER = 150;
const SECTION = 3_000;
const FIELD = 2_000;
const FIELDS = 10;
const COLOURS: Readonly<Record<AlertCard['tone'], string>> = { info: '#2eb886', warning: '#daa038', critical: '#a30200' };

/** An alert as an incoming webhook of Slack takes it: nothing is markup but the commands, which are ours. */
export function slackMessage(card: AlertCard): unknown {
  const fields = card.facts.map(({ name, value }) => ({
    type: 'plain_text',
    text: `${ownWords(name, 'slack')}\n${onFace(value, 'slack', FIELD - name.length - 1)}`,
    emoji: false,
  }));
  const blocks: unknown[] = [
    { type: 'header', text: { type: 'plain_text', text: onFace(card.title, 'slack', HEADER), emoji: false } },
    { type: 'section', text: { type: 'plain_text', text: onFace(card.text, 'slack', SECTION), emoji: false } },
  ];
  for (let at = 0; at < fields.length; at += FIELDS) blocks.push({ type: 'section', fields: fields.slice(at, at + FIELDS) });
  if (card.command !== undefined) blocks.push(section(`\`\`\`${ownWords(card.command, 'slack').replaceAll('`', 'ˋ')}\`\`\``));
  if (card.link)
    blocks.push({
      type: 'actions',
      elements: [{ type: 'button', text: { type: 'plain_text', text: cutShown(card.link.title, 75) }, url: card.link.url }],
    });
  // The line of notifications, and all that receivers show who know no blocks.
  return { text: onFace(card.title, 'slack', SECTION), mrkdwn: false, attachments: [{ color: COLOURS[card.tone], blocks }] };
}

function section(text: string): unknown {
  return { type: 'section', text: { type: 'mrkdwn', text: cutShown(text, SECTION), verbatim: true } };
}
