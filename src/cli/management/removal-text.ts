/* What a removal that was only tried would take away, for people. */
import { isJsonObject } from '../../base/json/json-object.ts';
import { brokenAtBlanks } from '../folded-text.ts';
import { terminalText } from '../terminal-text.ts';

type Json = Readonly<Record<string, unknown>>;

const INDENT = '  ';
/** Members that say what a thing is, and stand in its line already. */
const SAID: ReadonlySet<string> = new Set(['org_id', 'name', 'display_name']);

/**
 * @param answer to a removal with `dry_run`
 * @param width of the terminal in cells; undefined: lines are whole
 * @returns undefined for any other answer
 */
export function removalText(answer: unknown, width: number | undefined): string | undefined {
  if (!isJsonObject(answer) || answer['dry_run'] !== true || !Array.isArray(answer['lost'])) return undefined;
  const { lost, changed, left, counts } = answer;
  const parts = [
    section('It would remove', lost, width),
    section('It would change', changed, width),
    section('It would leave what names it', left, width),
    more(lost, counts),
  ];
  return `${parts.join('')}Nothing has been removed yet.\n`;
}

function section(heading: string, things: unknown, width: number | undefined): string {
  const found = Array.isArray(things) ? things.filter(isJsonObject) : [];
  return found.length === 0 ? '' : `${heading}:\n${found.map((thing) => thingText(thing, width)).join('')}`;
}

function thingText({ entity, object, name, values }: Json, width: number | undefined): string {
  const called = [String(entity).replaceAll('_', ' '), ...(typeof object === 'string' ? [object] : [])].join(' ');
  const members = Object.entries(isJsonObject(values) ? values : {}).filter(
    ([member, value]) => !SAID.has(member) && value !== object && value !== '',
  );
  const line = terminalText(`${called}${typeof name === 'string' ? ` (${name})` : ''}`);
  const told = members.map(([member, value]) => terminalText(`${member}=${String(value)}`)).join(' ');
  const below = told === '' ? [] : width === undefined ? [told] : brokenAtBlanks(told, width - 2 * INDENT.length);
  return [`${INDENT}${line}`, ...below.map((part) => INDENT + INDENT + part)].map((one) => `${one}\n`).join('');
}

/** Of very many things some are shown. */
function more(lost: unknown, counts: unknown): string {
  const all = Object.values(isJsonObject(counts) ? counts : {}).reduce((sum: number, one) => sum + Number(one), 0);
  const shown = Array.isArray(lost) ? lost.length : 0;
  return all > shown ? `and ${all - shown} more\n` : '';
}
