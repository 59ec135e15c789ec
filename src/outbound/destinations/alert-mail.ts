import { type AlertCard, onFace } from './alert-card.ts';

const SUBJECT = 200;

/** An alert as a mail. */
export interface AlertMail {
  readonly subject: string;
  readonly text: string;
}

/** Subject and text; neither holds a control character but the line ends of the text. */
export function alertMail(card: AlertCard): AlertMail {
  const width = card.facts.reduce((most, { name }) => Math.max(most, name.length), 0);
  const lines = [
    onFace(card.title, 'mail'),
    '',
    onFace(card.text, 'mail'),
    '',
    ...card.facts.map(({ name, value }) => `${`${name}:`.padEnd(width + 2)}${onFace(value, 'mail')}`),
    ...(card.link ? ['', `${card.link.title}: ${card.link.url}`] : []),
    ...(card.command === undefined ? [] : ['', ...card.command.split('\n')]),
    '',
    `At ${card.at}. Alert ${card.alertId}.`,
  ];
  return { subject: onFace(card.title, 'mail', SUBJECT), text: `${lines.map((line) => line.trimEnd()).join('\n')}\n` };
}
