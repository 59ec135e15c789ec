/* What a change of policy does, for people: a line for each rule, and a sentence for each consequence. */
import { isJsonObject } from '../../base/json/json-object.ts';
import { brokenAtBlanks, USUAL_WIDTH } from '../folded-text.ts';
import { terminalText } from '../terminal-text.ts';

type Json = Readonly<Record<string, unknown>>;

/** Wide enough for the names before the lines. */
const INDENT = 10;

/** @param change as operations answer it; a dry run says what would be @param width of the terminal, in characters */
export function changeText(change: unknown, width: number = USUAL_WIDTH): string {
  if (!isJsonObject(change)) return '';
  const lines = [
    ...listOf(change['added']).map((rule) => line('+ rule', textOf(rule), width)),
    ...listOf(change['changed']).map((rule) => line('~ rule', textOf(rule), width)),
    ...objectsIn(change['lost']).map((lost) => line('- rule', lostText(lost), width)),
    ...listOf(change['header']).map((name) => line('~ header', textOf(name), width)),
    ...objectsIn(change['new_allow_lists']).map(({ message }) => line('! denies', textOf(message), width)),
    ...listOf(change['no_longer_allow_lists']).map((layer) =>
      line('! allows', `the layer ${textOf(layer)} is no allow-list any more: it denies what its rules name, and nothing else`, width),
    ),
    ...(change['denies_all'] === true ? [line('! denies', 'no call can be let through any more', width)] : []),
    ...consequences(change, width),
  ];
  const isDry = change['dry_run'] === true;
  const end = isDry ? 'Nothing has been changed yet.' : 'It is in force.';
  return lines.length === 0 ? 'No rule changes.\n' : `${lines.join('')}${end}\n`;
}

/** Of rules that were named for it, and of overlays that are removed, there is no new text. */
function lostText({ rule, because, instead }: Json): string {
  const how = because === 'disabled' ? 'taken away by disabled: true' : 'lost: it is not there any more';
  return `${textOf(rule)}  ${how}${instead === undefined ? '' : `; ${textOf(instead)} counts in its place`}`;
}

/** What a dry run says beside the rules. */
function consequences({ check, tests, records }: Json, width: number): readonly string[] {
  const said: string[] = [];
  if (isJsonObject(check)) {
    for (const { message, code, line: at } of objectsIn(check['errors'])) said.push(line('error', placed(code, message, at), width));
    for (const { message, code, line: at } of objectsIn(check['warnings'])) said.push(line('warning', placed(code, message, at), width));
  }
  if (isJsonObject(tests)) {
    const broken = objectsIn(tests['broken']);
    said.push(
      line('tests', `${textOf(tests['cases'])} cases of the policies folder, ${broken.length} of them would no longer hold`, width),
    );
    for (const { suite, name } of broken) said.push(line('', `${textOf(suite)}: ${textOf(name)}`, width));
  }
  if (isJsonObject(records)) {
    const groups = objectsIn(records['groups']).map((group) => `${textOf(group['records'])} x ${textOf(group['change'])}`);
    const which = groups.length === 0 ? '' : `: ${groups.join(', ')}`;
    said.push(
      line(
        'records',
        `${textOf(records['changed'])} of the ${textOf(records['replayed'])} newest calls would be decided otherwise${which}`,
        width,
      ),
    );
  }
  return said;
}

function placed(code: unknown, message: unknown, at: unknown): string {
  return `${at === undefined ? '' : `line ${textOf(at)}: `}${textOf(message)} (${textOf(code)})`;
}

/** Folded between words. */
function line(name: string, text: string, width: number): string {
  const rows = brokenAtBlanks(text, width - INDENT);
  return rows.map((row, i) => `${(i === 0 ? name : '').padEnd(INDENT)}${row}\n`).join('');
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function objectsIn(value: unknown): readonly Json[] {
  return listOf(value).filter(isJsonObject);
}

function textOf(value: unknown): string {
  return terminalText(typeof value === 'string' ? value : JSON.stringify(value ?? ''));
}
