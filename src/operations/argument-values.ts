/*
 * Values of tools' arguments as those write them who guess (decision 10.15). What a value may be is for the operation's
 * schema to say: here it is only put into the form that the schema reads.
 */
import { isJsonObject, type JsonObject } from '../base/json/json-object.ts';
import { nearestName } from '../base/lib/mistakes.ts';
import { shorten } from '../base/lib/text.ts';
import { ArgumentNames } from './argument-names.ts';

/** Other words for a word of a list, wherever a tool has that word. */
const SAME: Readonly<Record<string, string>> = {
  pending: 'open waiting new unresolved awaiting outstanding undecided',
  approved: 'accepted granted allowed allow approve',
  denied: 'rejected refused declined deny reject',
  expired: 'timed_out timeout lapsed',
  active: 'current live open enabled',
  archived: 'inactive closed disabled',
  enable: 'enabled on true yes start activate',
  disable: 'disabled off false no stop deactivate',
  deny: 'denied blocked block refused refuse rejected forbidden',
  allow: 'allowed permitted passed ok accepted approved success',
  error: 'failed failure errors errored',
  downgrade: 'downgraded',
  require_approval: 'approval held pending approval_required needs_approval',
  require_attribution: 'attribution attribution_required',
  rate_limit: 'rate_limited throttled ratelimited limited 429',
  quarantine: 'quarantined',
  hourly: 'hour per_hour an_hour 1h',
  daily: 'day per_day a_day today',
  weekly: 'week per_week a_week this_week',
  monthly: 'month per_month a_month this_month',
  org: 'organization organisation company everyone global all',
  workload: 'service application app',
  provider: 'connector vendor',
  alert: 'warn notify warning',
  cap: 'block hard enforce stop deny limit hard_cap',
  '1h': 'hour 1hour last_hour 60m',
  '6h': '6hours last_6_hours',
  '24h': 'day 1d 24hours last_24_hours today daily last_day',
  google_chat: 'google gchat googlechat',
  teams: 'ms_teams msteams microsoft_teams',
  email: 'mail e_mail smtp',
  webhook: 'http https url',
  routing: 'route routes',
  byok: 'bring_your_own_key own_key',
  provider_integration: 'provider providers integration routing',
  credential_mode: 'credential credentials byok mode',
  policy_preset: 'preset presets policy policies',
  budget_alert: 'budget budget_limit cap',
  risk_alert: 'risk',
  any: 'true yes all both uncertain',
  no_usage: 'without_usage unmetered usage_unknown missing_usage',
  default_rate: 'unpriced no_price without_price priced_by_default by_default default unknown_price unknown_rate',
  day: 'daily per_day days',
  month: 'monthly per_month months',
  caller: 'user developer person who',
};
const YES: ReadonlySet<string> = new Set(['true', 'yes', 'on', '1', 'active', 'enable', 'enabled', 'open', 'current', 'only']);
const NO: ReadonlySet<string> = new Set(['false', 'no', 'off', '0', 'inactive', 'disable', 'disabled', 'released', 'closed']);
const NUMBER = /^-?\d+(?:\.\d+)?$/;
/** `$50`, `50 USD`, `1,000.00`. */
const DOLLARS = /^\s*(?:USD|US\$|\$)?\s*(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)\s*(?:USD|dollars?|\$)?\s*$/i;

/** The argument that is one label with its value, `team=red`. */
const PAIR = 'label';
/** The argument that names by what costs are summed, separated by commas. */
const KEYS = 'by';
const KEY_WORDS: readonly string[] = ['project', 'workload', 'provider', 'caller', 'customer', 'account', 'model'];

type Reader = (name: string, value: unknown, part: JsonObject) => unknown;

/** By the type that the schema says. */
const READERS: Readonly<Record<string, Reader>> = {
  boolean: (_name, value) => truth(value),
  integer: (name, value) => numberIn(name, value),
  number: (name, value) => numberIn(name, value),
  array: (name, value, { items }) => list(name, value, isJsonObject(items) ? items : {}),
  object: (_name, value, part) => objectIn(typeof value === 'string' ? (parsed(value) ?? pairsIn(value, part)) : value, part),
  string: (name, value) => textIn(name, value),
};

/**
 * A value as the schema of its argument reads it; what is none of its forms stays as it is, for the schema to refuse,
 * and so does null.
 */
export function readableValue(name: string, value: unknown, part: JsonObject): unknown {
  if (value === null) return value;
  const { type, enum: words } = part;
  if (Array.isArray(words)) return word(value, words.map(String)) ?? value;
  const read = typeof type === 'string' ? READERS[type] : undefined;
  return read === undefined ? value : read(name, value, part);
}

function numberIn(name: string, value: unknown): unknown {
  const text = name.endsWith('_usd') ? textIn(name, value) : name.endsWith('_pct') ? String(value).replace(/ ?%$/, '') : value;
  return typeof text === 'string' && NUMBER.test(text.trim()) ? Number(text) : value;
}

function textIn(name: string, value: unknown): unknown {
  if (name === KEYS) return keysIn(value);
  if (name === PAIR && isJsonObject(value)) return pairOf(value);
  const text = typeof value === 'number' || typeof value === 'boolean' ? String(value) : value;
  if (typeof text !== 'string' || !name.endsWith('_usd')) return text;
  return DOLLARS.exec(text)?.[1]?.replaceAll(',', '') ?? text;
}

/** Members of an object by their own names, where it tells them. */
function objectIn(value: unknown, { properties }: JsonObject): unknown {
  if (!isJsonObject(value) || !isJsonObject(properties)) return value;
  const names = new ArgumentNames(Object.keys(properties), []);
  const read: Record<string, unknown> = {};
  for (const [given, member] of Object.entries(value)) {
    const meant = names.meant(given);
    const named = meant !== undefined && 'argument' in meant && !('opposite' in meant) ? meant.argument : given;
    const name = named in value || named in read ? given : named;
    const part = properties[name];
    read[name] = isJsonObject(part) ? readableValue(name, member, part) : member;
  }
  return read;
}

/** `team=red, env=prod` for a map of names that callers choose. */
function pairsIn(text: string, { additionalProperties: others }: JsonObject): unknown {
  const pairs = text.split(',').map((pair) => pair.split('=').map((part) => part.trim()));
  const areAll = isJsonObject(others) && pairs.every(([name, value, more]) => name !== '' && value !== undefined && more === undefined);
  return areAll ? Object.fromEntries(pairs) : text;
}

/** `{team: red}` as `team=red`; what is not one label stays as it is. */
function pairOf(value: JsonObject): unknown {
  const [pair, another] = Object.entries(value);
  return pair === undefined || another !== undefined ? value : pair.map(String).join('=');
}

/** A list of keys as text, each by its own word: `["user", "model"]` is `caller,model`. */
function keysIn(value: unknown): unknown {
  const keys: unknown = typeof value === 'string' ? (parsed(value) ?? value.split(',')) : value;
  if (!Array.isArray(keys) || !keys.every((key) => typeof key === 'string')) return value;
  return keys.map((key) => word(key.replace(/_id$/, ''), KEY_WORDS) ?? key.trim()).join(',');
}

/** What is said of a value that is none of the words its argument has; undefined: it is one, or has none. */
export function wordMistake(value: unknown, { enum: words, items }: JsonObject): string | undefined {
  if (Array.isArray(value) && isJsonObject(items)) {
    return value.map((one) => wordMistake(one, items)).find((mistake) => mistake !== undefined);
  }
  if (!Array.isArray(words) || words.includes(value)) return undefined;
  const nearest = typeof value === 'string' ? nearestName(plainWord(value), words.map(String)) : undefined;
  const hint = nearest === undefined ? '' : `; did you mean \`${nearest}\`?`;
  return `must be one of ${words.join(', ')}, not ${shorten(JSON.stringify(value) ?? 'nothing', 64)}${hint}`;
}

/** Which of the words a value means; undefined: none of them. */
export function word(value: unknown, words: readonly string[]): string | undefined {
  if (typeof value !== 'string' && typeof value !== 'boolean') return undefined;
  const asked = plainWord(String(value));
  const one = asked.replace(/s$/, '');
  return (
    words.find((known) => plainWord(known) === asked || plainWord(known) === one) ??
    words.find((known) => SAME[known]?.split(' ').includes(asked))
  );
}

function plainWord(text: string): string {
  return text
    .slice(0, 64)
    .trim()
    .toLowerCase()
    .replace(/[\s-]+/g, '_');
}

/** A switch as true or false; what is neither stays as it is. */
export function truth(value: unknown): unknown {
  const text = ['string', 'number', 'boolean'].includes(typeof value) ? String(value).trim().toLowerCase() : '';
  if (YES.has(text)) return true;
  return NO.has(text) ? false : value;
}

/** One for a list of one; a text for the list that it is in JSON, or with commas. */
function list(name: string, value: unknown, items: JsonObject): unknown {
  const read = typeof value === 'string' ? (parsed(value) ?? value.split(',').map((one) => one.trim())) : value;
  const all: readonly unknown[] = Array.isArray(read) ? read : [read];
  return all.map((one) => readableValue(name, one, items));
}

function parsed(text: string): object | undefined {
  try {
    const read: unknown = JSON.parse(text);
    return typeof read === 'object' && read !== null ? read : undefined;
  } catch {
    return undefined;
  }
}
