import { jsonElements, jsonMembers, skipSpace, type ValueRange } from './json-members.ts';

const OPEN_BRACE = 0x7b;
const OPEN_BRACKET = 0x5b;

interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/**
 * Sets one member in a JSON text and leaves every other character as it is, so that numbers which a double cannot hold
 * survive. Every occurrence of a repeated name is set, since readers differ in which one they take. Objects that are
 * missing on the way are made, an element of a list must exist.
 * @param text valid JSON whose outermost value is an object
 * @param path names from the outside in; a number names an element of a list
 * @returns undefined when the path leads through a value that is neither an object nor a list
 */
export function setJsonMember(text: string, path: readonly string[], value: unknown): string | undefined {
  const edits: Edit[] = [];
  if (!collect(text, skipSpace(text, 0), path, JSON.stringify(value), edits)) return undefined;
  return applyEdits(text, edits);
}

/**
 * The value that the outermost object gives a name, the last one as every common reader takes it; undefined when there
 * is none.
 */
export function jsonMember(text: string, name: string): unknown {
  let value: unknown;
  for (const member of jsonMembers(text, skipSpace(text, 0))) {
    if (member.name === name) value = JSON.parse(text.slice(member.valueStart, member.end));
  }
  return value;
}

/** Removes a member of the outermost object together with its comma; the text as it is when there is none. */
export function removeJsonMember(text: string, name: string): string {
  const edits: Edit[] = [];
  let behindComma = -1;
  let kept = false;
  for (const member of jsonMembers(text, skipSpace(text, 0))) {
    if (member.name === name) {
      // With a member kept before it, the comma before goes; otherwise the comma behind.
      if (kept) edits.push({ start: behindComma - 1, end: member.end, text: '' });
      else edits.push({ start: member.start, end: member.next, text: '' });
    } else kept = true;
    behindComma = member.next;
  }
  return applyEdits(text, edits);
}

function applyEdits(text: string, edits: readonly Edit[]): string {
  let out = '';
  let kept = 0;
  for (const edit of edits) {
    out += text.slice(kept, edit.start) + edit.text;
    kept = edit.end;
  }
  return out + text.slice(kept);
}

/** Adds the edits for the container that opens at `at`; false when the path cannot be followed. */
function collect(text: string, at: number, path: readonly string[], value: string, edits: Edit[]): boolean {
  if (text.charCodeAt(at) === OPEN_BRACKET) return collectElement(text, at, path, value, edits);
  if (text.charCodeAt(at) !== OPEN_BRACE) return false;
  const [name = '', ...inner] = path;
  let found = false;
  let end = at + 1;
  let empty = true;
  for (const member of jsonMembers(text, at)) {
    empty = false;
    end = member.end;
    if (member.name !== name) continue;
    found = true;
    if (!setValue(text, member, inner, value, edits)) return false;
  }
  if (!found) edits.push({ start: end, end, text: `${empty ? '' : ','}${JSON.stringify(name)}:${nest(inner, value)}` });
  return true;
}

function collectElement(text: string, at: number, path: readonly string[], value: string, edits: Edit[]): boolean {
  const [index = '', ...inner] = path;
  let position = 0;
  for (const element of jsonElements(text, at)) {
    if (String(position++) === index) return setValue(text, element, inner, value, edits);
  }
  return false;
}

function setValue(text: string, range: ValueRange, inner: readonly string[], value: string, edits: Edit[]): boolean {
  if (inner.length === 0 || text.startsWith('null', range.valueStart)) {
    edits.push({ start: range.valueStart, end: range.end, text: nest(inner, value) });
    return true;
  }
  return collect(text, range.valueStart, inner, value, edits);
}

function nest(path: readonly string[], value: string): string {
  return path.reduceRight((inner, name) => `{${JSON.stringify(name)}:${inner}}`, value);
}
