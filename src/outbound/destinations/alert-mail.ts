import type { AlertCard } from './alert-card.ts';

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
    card.title,
    '',
    card.text,
    '',
    ...card.facts.map(({ name, value }) => `${`${name}:`.padEnd(width + 2)}${value}`),
    ...(card.link ? ['', `${card.link.title}: ${card.link.url}`] : []),
    ...(card.command === undefined ? [] : ['', ...card.command.split('\n')]),
    '',
    `At ${card.at}. Alert ${card.alertId}.`,
  ];
  return { subject: oneLine(card.title).slice(0, SUBJECT).toWellFormed(), text: `${lines.map(oneLine).join('\n')}\n` };
}

function oneLine(text: string): string {
  return text.replaceAll(/\p{Cc}+/gu, ' ').trimEnd();
}
