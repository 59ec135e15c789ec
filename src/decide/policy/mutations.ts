import { isJsonObject } from '../../base/json/json-object.ts';
import { AUTH_HEADERS, isFixedHeader } from '../../base/lib/header-rules.ts';
import { canonicalHost } from '../../base/lib/host.ts';
import { toPlain, type YamlNode } from '../../base/lib/yaml.ts';
import type { Facts } from './facts.ts';
import { valueAt } from './fields.ts';
import type { Problems, SourcePlace } from './problems.ts';
import type { Mutation } from './verdict.ts';

/** A mutation with what the merge needs to know of it. */
export interface CompiledMutation extends Mutation {
  /** Whether the request already is as the mutation would make it. */
  readonly changesNothing: (facts: Facts) => boolean;
}

/** Auth headers come from credential selection or the caller alone (decision 3.21). */
const NOT_BY_MUTATION: ReadonlySet<string> = new Set(AUTH_HEADERS);
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/;
const HEADER_VALUE = /^[\t\u0020-\u007e\u0080-\u00ff]{0,8192}$/;
const METHOD = /^[A-Z]{1,32}$/;
const PATH = /^\/[\u0021\u0022\u0024-\u005b\u005d-\u007e]*$/;
/** Keys that a mutation can write (specification, "Policy bundle"). */
export const MUTABLE = ['action.params.<path>', 'action.headers.<name>', 'action.target_host', 'action.target_path', 'action.method'];

/** Reads the list of `key` and `value` maps; a key that is not mutable is a problem (specification, "Effect keys"). */
export function readMutations(node: YamlNode, place: SourcePlace, problems: Problems): readonly CompiledMutation[] {
  const items = problems.items(node, place, 'mutations') ?? [];
  if (node.kind === 'seq' && items.length === 0) problems.add(place, node, 'empty', 'mutations is empty');
  const mutations: CompiledMutation[] = [];
  items.forEach((item, i) => {
    const mutation = readMutation(item, place.at(i), problems);
    if (mutation === undefined) return;
    if (mutations.some(({ key }) => overlaps(key, mutation.key)))
      problems.add(place.at(i), item, 'bad_value', `"${mutation.key}" is written twice by one rule`);
    mutations.push(mutation);
  });
  return mutations;
}

/** One of the two keys is the other or holds it: what was written first stands. */
export function overlaps(a: string, b: string): boolean {
  return a === b || a.startsWith(`${b}.`) || b.startsWith(`${a}.`);
}

function readMutation(node: YamlNode, place: SourcePlace, problems: Problems): CompiledMutation | undefined {
  const map = problems.map(node, place, 'a mutation');
  if (map === undefined) return undefined;
  let keyNode: YamlNode | undefined;
  let valueNode: YamlNode | undefined;
  problems.members(
    map,
    place,
    {
      key: (entry) => {
        keyNode = entry.value;
      },
      value: (entry) => {
        valueNode = entry.value;
      },
    },
    'unknown_key',
    'key of a mutation',
  );
  if (keyNode === undefined || valueNode === undefined) {
    problems.add(place, node, 'missing_key', 'a mutation needs key and value');
    return undefined;
  }
  const key = problems.text(keyNode, place.at('key'), 'key', 512);
  return key === undefined ? undefined : compileMutation(key, keyNode, valueNode, place, problems);
}

function compileMutation(
  key: string,
  keyNode: YamlNode,
  valueNode: YamlNode,
  place: SourcePlace,
  problems: Problems,
): CompiledMutation | undefined {
  if (key.startsWith('action.params.')) return paramMutation(key, keyNode, valueNode, place, problems);
  if (key.startsWith('action.headers.')) return headerMutation(key, keyNode, valueNode, place, problems);
  const member = Object.hasOwn(MEMBERS, key) ? MEMBERS[key] : undefined;
  if (member === undefined) {
    problems.unknown(place.at('key'), keyNode, 'not_mutable', 'or not mutable key', key, MUTABLE);
    return undefined;
  }
  const text = problems.scalar(valueNode, place.at('value'), 'the value')?.source;
  const value = text === undefined ? undefined : member.convert(text);
  if (value !== undefined) return { key, value, changesNothing: (facts) => member.get(facts) === value };
  if (text !== undefined) problems.add(place.at('value'), valueNode, 'bad_value', `"${text}" is not ${member.expected}`);
  return undefined;
}

interface MutableMember {
  readonly convert: (text: string) => string | undefined;
  readonly get: (facts: Facts) => string;
  readonly expected: string;
}

const MEMBERS: Readonly<Record<string, MutableMember>> = {
  'action.target_host': {
    convert: canonicalHost,
    get: (facts) => facts.target_host,
    expected: 'a host name without scheme, port and path',
  },
  'action.target_path': {
    convert: soundPath,
    get: (facts) => facts.target_path,
    expected: 'a path that begins with / and has no dot segments, //, \\, # or spaces',
  },
  'action.method': {
    convert: (text) => (METHOD.test(text) && text !== 'TRACE' && text !== 'CONNECT' ? text : undefined),
    get: (facts) => facts.action_method,
    expected: 'a method (TRACE and CONNECT are none)',
  },
};

function paramMutation(
  key: string,
  keyNode: YamlNode,
  valueNode: YamlNode,
  place: SourcePlace,
  problems: Problems,
): CompiledMutation | undefined {
  const segments = key.split('.').slice(2);
  if (segments.includes('') || segments.includes('__proto__')) {
    problems.add(place.at('key'), keyNode, 'not_mutable', `"${key}" is not a path in the body`);
    return undefined;
  }
  if (!isExact(valueNode)) {
    problems.add(place.at('value'), valueNode, 'bad_value', 'the value holds a number that cannot be represented exactly');
    return undefined;
  }
  const value = toPlain(valueNode);
  return { key, value, changesNothing: (facts) => sameJson(valueAt(facts.params, segments), value) };
}

function headerMutation(
  key: string,
  keyNode: YamlNode,
  valueNode: YamlNode,
  place: SourcePlace,
  problems: Problems,
): CompiledMutation | undefined {
  const name = key.slice('action.headers.'.length).toLowerCase();
  if (!TOKEN.test(name) || isFixedHeader(name) || NOT_BY_MUTATION.has(name)) {
    problems.add(place.at('key'), keyNode, 'not_mutable', `the header "${name}" cannot be set`);
    return undefined;
  }
  const text = problems.scalar(valueNode, place.at('value'), 'the value')?.source;
  if (text === undefined) return undefined;
  if (!HEADER_VALUE.test(text)) {
    problems.add(place.at('value'), valueNode, 'bad_value', 'a header value is one line of Latin-1 text');
    return undefined;
  }
  // The values of the request's headers are no facts, so setting one always counts as a change.
  return { key: `action.headers.${name}`, value: text, changesNothing: () => false };
}

/** The forms that decision 3.18 refuses in requests are refused here too. */
function soundPath(text: string): string | undefined {
  if (text.length > 8192 || !PATH.test(text)) return undefined;
  const [path = ''] = text.split('?', 1);
  const dotted = path.replace(/%2e/gi, '.').split('/');
  return path.includes('//') || dotted.includes('.') || dotted.includes('..') ? undefined : text;
}

function isExact(node: YamlNode): boolean {
  if (node.kind === 'seq') return node.items.every(isExact);
  if (node.kind === 'map') return node.entries.every((entry) => isExact(entry.value));
  return (
    typeof node.value !== 'number' || (Number.isFinite(node.value) && (!Number.isInteger(node.value) || Number.isSafeInteger(node.value)))
  );
}

function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) return Array.isArray(b) && a.length === b.length && a.every((item, i) => sameJson(item, b[i]));
  if (!isJsonObject(a) || !isJsonObject(b)) return false;
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && sameJson(a[name], b[name]));
}
