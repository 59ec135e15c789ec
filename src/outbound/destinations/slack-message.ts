import { cutShown, ownWords } from '../../base/lib/shown-text.ts';
import { type AlertCard, type CardButtons, onFace } from './alert-card.ts';

/** What tells the two buttons of an approval from all others. */
export const APPROVE_ACTION = 'gw_approve';
export const DENY_ACTION = 'gw_deny';

/** Slack's limits, in characters (its reference of blocks). */
const HEADER = 150;
const SECTION = 3_000;
const FIELD = 2_000;
const FIELDS = 10;
const LABEL = 75;
const CONFIRM_TITLE = 100;
const CONFIRM_TEXT = 300;
const CONFIRM_LABEL = 30;
const COLOURS: Readonly<Record<AlertCard['tone'], string>> = { info: '#2eb886', warning: '#daa038', critical: '#a30200' };

/** An alert as Slack takes it: nothing is markup but the commands, which are ours. */
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
  const elements = [...decisionButtons(card.buttons), ...linkButton(card.link)];
  if (elements.length > 0) blocks.push({ type: 'actions', elements });
  // The line of notifications, and all that receivers show who know no blocks.
  return { text: onFace(card.title, 'slack', SECTION), mrkdwn: false, attachments: [{ color: COLOURS[card.tone], blocks }] };
}

/** Each asks once more before it is sent: what is pressed by mistake decides nothing. */
function decisionButtons(buttons: CardButtons | undefined): readonly unknown[] {
  if (buttons === undefined) return [];
  const { approve, deny, yes } = buttons;
  const button = (verb: string, style: string, action: string, value: string, does: string): unknown => ({
    type: 'button',
    text: plain(verb, LABEL),
    style,
    action_id: action,
    value,
    confirm: {
      title: plain(`${verb} this request?`, CONFIRM_TITLE),
      text: plain(does, CONFIRM_TEXT),
      confirm: plain(verb, CONFIRM_LABEL),
      deny: plain('Not now', CONFIRM_LABEL),
    },
  });
  return [
    button('Approve', 'primary', APPROVE_ACTION, approve, `A yes ${yes}.`),
    button('Deny', 'danger', DENY_ACTION, deny, 'The same request is then refused for a while.'),
  ];
}

function linkButton(link: AlertCard['link']): readonly unknown[] {
  return link === undefined ? [] : [{ type: 'button', text: plain(link.title, LABEL), url: link.url }];
}

/** Our own words, in which nothing is markup. */
function plain(text: string, max: number): unknown {
  return { type: 'plain_text', text: cutShown(text, max) };
}

function section(text: string): unknown {
  return { type: 'section', text: { type: 'mrkdwn', text: cutShown(text, SECTION), verbatim: true } };
}
