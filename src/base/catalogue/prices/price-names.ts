/*
 * Names in a provider's decoration (decision 6.3): what may be taken off a model's name, where, and what is then left.
 * Each rule leaves another name of the same model: a snapshot, a place, a supplier, a fine-tuned model's base. None
 * leaves out what tells one model from another, such as `-mini`, `-turbo`, `-fp8` or `:extended`.
 */
import { percentDecoded } from '../../lib/text.ts';
import type { PriceLane } from './price-lane.ts';

/** A name under which a price may be found. */
export interface Candidate {
  readonly name: string;
  /** Where it is looked for; undefined: in the list of its maker. */
  readonly lists: readonly string[] | undefined;
  /** It costs nothing, whatever it is. */
  readonly free: boolean;
  /**
   * Nothing but another way to write the name, for a list of the very provider: there is no doubt which price is meant.
   */
  readonly exact: boolean;
  /** What was taken off, one after the other. */
  readonly steps: readonly NameStep[];
}

export interface NameStep {
  readonly rule: string;
  /** What was left. */
  readonly name: string;
}

interface Left {
  readonly name: string;
  readonly lists?: readonly string[];
  readonly free?: boolean;
}

interface NameRule {
  /** As `gw prices explain` shows it. */
  readonly id: string;
  /** What it leaves is the same name, written differently. */
  readonly exact?: boolean;
  readonly apply: (name: string, where: Where) => readonly Left[];
  /** How a name may look before it: for names to compare price lists by. */
  readonly worn?: (name: string) => readonly string[];
}

interface Where extends Pick<Candidate, 'lists'> {
  readonly suppliers: string | undefined;
  /** Whether a list is looked in there, itself or as what another falls back on. */
  readonly looksIn: (list: string) => boolean;
}

/** Longest name that rules are tried on: that of every other text (decision 4.7). */
export const LONGEST_NAME = 256;
const MOST_CANDIDATES = 32;
const NOTHING: readonly Left[] = [];

const DAY = '(?:20\\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\\d|3[01])|20\\d{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\\d|3[01]))';
const MONTH_DAY = '(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\\d|3[01])';
const PREVIEW_DAY = '(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\\d|3[01])';
const MONTH_YEAR = '(?:0[1-9]|1[0-2])-20\\d{2}';
const BEDROCK_AREAS = [
  'us-gov',
  'us',
  'eu',
  'apac',
  'ap',
  'jp',
  'au',
  'ca',
  'sa',
  'in',
  'uk',
  'me',
  'af',
  'il',
  'mx',
  'kr',
  'sg',
  'global',
];
const BEDROCK_AREA = `(?:${BEDROCK_AREAS.join('|')})`;
const BEDROCK_PUBLISHER =
  '(?:ai21|amazon|anthropic|cohere|deepseek|google|luma|meta|minimax|mistral|moonshot|moonshotai|nvidia|openai|qwen|stability|twelvelabs|writer|zai)';

/** The list that has the models of a publisher, by the publisher's name before a slash. */
const PUBLISHERS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    openai: 'openai',
    anthropic: 'anthropic',
    google: 'google',
    gemini: 'google',
    vertex_ai: 'google',
    bedrock: 'aws',
    azure: 'azure',
    'x-ai': 'x-ai',
    xai: 'x-ai',
    mistral: 'mistral',
    mistralai: 'mistral',
    'mistral-ai': 'mistral',
    deepseek: 'deepseek',
    'deepseek-ai': 'deepseek',
    cohere: 'cohere',
    coherelabs: 'cohere',
    moonshotai: 'moonshotai',
    'z-ai': 'zai',
    zai: 'zai',
    'zai-org': 'zai',
    minimax: 'minimax',
    minimaxai: 'minimax',
    perplexity: 'perplexity',
    voyage: 'voyageai',
    voyageai: 'voyageai',
    groq: 'groq',
    openrouter: 'openrouter',
  }),
);

const PUBLISHER_NAMES = [...PUBLISHERS.keys()];
/** Of names that are made up to compare price lists by. */
const REGIONS = ['us-east-1', 'us-west-2', 'eu-west-1', 'eu-central-1', 'ap-northeast-1'];
const DAYS = ['2023', '2024', '2025', '2026', '2027'].flatMap((year) => [`${year}1120`, `${year}-11-20`]);

/** In the order in which they are tried. */
const RULES: readonly NameRule[] = [
  { id: 'percent escapes', exact: true, apply: (name) => decoded(name), worn: (name) => [encodeURIComponent(name).toLowerCase()] },
  rewrite('ARN of Bedrock', `^arn:aws(?:-[a-z-]+)?:bedrock:[a-z0-9-]*:\\d*:(?:inference-profile|foundation-model)/(.+)$`, ['$1'], {
    exact: true,
    worn: [
      ...REGIONS.map((region) => `arn:aws:bedrock:${region}:123456789012:inference-profile/*`),
      'arn:aws:bedrock:us-east-1::foundation-model/*',
      'arn:aws-us-gov:bedrock:us-gov-west-1::foundation-model/*',
    ],
  }),
  { id: ':free of OpenRouter', apply: (name, where) => (isFree(name, where) ? [{ name, free: true }] : NOTHING) },
  rewrite('way of OpenRouter', '^(.+):(?:nitro|floor|online|thinking|exacto|beta|batch)$', ['$1'], {
    list: 'openrouter',
    worn: ['*:nitro', '*:floor', '*:online', '*:thinking', '*:exacto', '*:beta', '*:batch'],
  }),
  rewrite('~ of OpenRouter', '^~(.+)$', ['$1'], { list: 'openrouter', worn: ['~*'] }),
  { id: 'supplier', exact: true, apply: supplied, worn: (name) => [`${name}:fastest`, `${name}:cheapest`] },
  rewrite('fine-tuned model', '^ft:([^:]+):.*$', ['ft:$1', '$1'], { worn: ['ft:*:acme::a1b2c3'] }),
  rewrite('fine-tuned model of Azure', '^(.+?)\\.ft-.+$', ['ft:$1', '$1'], { worn: ['*.ft-a1b2c3'] }),
  rewrite('fine-tuned', '^ft:([^:]+)$', ['$1']),
  rewrite('path of Google', '^(?:projects/[^/]+/locations/[^/]+/)?publishers/([^/]+)/models/([^/]+)$', ['$1/$2', '$2'], {
    exact: true,
    worn: ['publishers/google/models/*', 'projects/acme/locations/us-central1/publishers/google/models/*'],
  }),
  rewrite('collection of Google', '^models/(.+)$', ['$1'], { exact: true, worn: ['models/*'] }),
  { id: 'publisher', exact: true, apply: published, worn: (name) => PUBLISHER_NAMES.map((publisher) => `${publisher}/${name}`) },
  rewrite('area of Bedrock', `^${BEDROCK_AREA}\\.(${BEDROCK_PUBLISHER}\\..+)$`, ['$1'], { worn: BEDROCK_AREAS.map((area) => `${area}.*`) }),
  {
    id: 'name of Bedrock',
    apply: (name, { lists }) => (lists === undefined && BEDROCK_NAME.test(name) ? [{ name, lists: ['aws'] }] : NOTHING),
  },
  rewrite('version of Bedrock', `^(${BEDROCK_PUBLISHER}\\.[^:]+)-v\\d+:\\d+(?::\\d+k)?$`, ['$1'], {
    list: 'aws',
    worn: ['*-v1:0', '*-v2:0'],
  }),
  rewrite('@ before a date', `^(.+)@(${DAY})$`, ['$1-$2', '$1'], { worn: DAYS.map((day) => `*@${day}`) }),
  rewrite('@ before a version', '^(.+)@(?:default|latest|\\d{3})$', ['$1'], { worn: ['*@default', '*@latest', '*@001'] }),
  // What Google's aliases stand for: the models with the rates that the list has for OpenRouter's
  // `~google/gemini-pro-latest` and `~google/gemini-flash-latest`.
  rewrite('alias of Google', '^gemini-pro-latest$', ['gemini-3.1-pro-preview'], { list: 'google' }),
  rewrite('alias of Google', '^gemini-flash-latest$', ['gemini-3.5-flash'], { list: 'google' }),
  rewrite('latest', '^(.+)[-:]latest$', ['$1'], { worn: ['*-latest', '*:latest'] }),
  rewrite('preview', `^(.+)-(?:preview|exp)(?:-(?:${DAY}|${MONTH_DAY}|${PREVIEW_DAY}|${MONTH_YEAR}))?$`, ['$1'], {
    worn: ['*-preview', '*-exp', '*-preview-05-20'],
  }),
  rewrite('date', `^(.+)-${DAY}$`, ['$1'], { worn: DAYS.map((day) => `*-${day}`) }),
  rewrite('month and year', `^(.+)-${MONTH_YEAR}$`, ['$1'], { worn: ['*-05-2026'] }),
  rewrite('month and day', `^(.+)-${MONTH_DAY}$`, ['$1'], { worn: ['*-0528'] }),
  rewrite('managed by Vertex', '^(.+)-maas$', ['$1'], { list: 'google', worn: ['*-maas'] }),
];

const BEDROCK_NAME = new RegExp(`^(?:${BEDROCK_AREA}\\.)?${BEDROCK_PUBLISHER}\\.`);

/**
 * @param from anchored, and quick on every name: what it repeats is a run of one kind of characters
 * @param options `list`: the rule holds where this list is looked in, and everywhere without one; `worn`: names that it
 * takes something off, with `*` for what is left
 */
function rewrite(
  id: string,
  from: string,
  to: readonly string[],
  { list, exact = false, worn = [] }: { readonly list?: string; readonly exact?: boolean; readonly worn?: readonly string[] } = {},
): NameRule {
  const pattern = new RegExp(from);
  const parts = worn.map((form) => form.split('*') as [string, string]);
  return {
    id,
    exact,
    worn: (name) => parts.map(([front, back]) => front + name + back),
    apply: (name, { looksIn }) => {
      if ((list !== undefined && !looksIn(list)) || !pattern.test(name)) return NOTHING;
      return to.map((left) => ({ name: name.replace(pattern, left) }));
    },
  };
}

function decoded(name: string): readonly Left[] {
  const plain = percentDecoded(name);
  return plain === undefined || plain === name ? NOTHING : [{ name: plain.toLowerCase() }];
}

function isFree(name: string, { looksIn }: Where): boolean {
  return name.endsWith(':free') && name.length > ':free'.length && looksIn('openrouter');
}

/** `model:supplier` of a router that leaves the choice to its caller; `:fastest` and its like choose nobody. */
function supplied(name: string, { suppliers }: Where): readonly Left[] {
  const colon = name.lastIndexOf(':');
  if (suppliers === undefined || colon < 1) return NOTHING;
  const supplier = name.slice(colon + 1);
  const model = name.slice(0, colon);
  if (/^(?:fastest|cheapest|preferred|auto)$/.test(supplier)) return [{ name: model }];
  return /^[a-z0-9-]+$/.test(supplier) ? [{ name: model, lists: [suppliers + supplier] }] : NOTHING;
}

/**
 * A publisher's name says who made the model: it goes where the models of that maker are looked for anyway, and to its
 * maker's list where no other is.
 */
function published(name: string, { lists, looksIn }: Where): readonly Left[] {
  const slash = name.indexOf('/');
  const list = slash < 1 ? undefined : PUBLISHERS.get(name.slice(0, slash));
  if (list === undefined || slash === name.length - 1) return NOTHING;
  const model = name.slice(slash + 1);
  if (lists === undefined) return [{ name: model, lists: [list] }];
  return looksIn(list) ? [{ name: model }] : NOTHING;
}

/**
 * The name as it is, then what is left of it when one decoration is taken off, two, and so on. At most {@link
 * MOST_CANDIDATES}.
 * @param name in lower case, at most {@link LONGEST_NAME} characters
 * @param fallsBack the lists that one falls back on
 */
export function* candidatesOf(
  { lists, suppliers }: PriceLane,
  name: string,
  fallsBack: (list: string) => readonly string[],
): Generator<Candidate> {
  const queue: Candidate[] = [{ name, lists, free: false, exact: lists !== undefined, steps: [] }];
  const seen = new Set<string>();
  for (let at = 0; at < queue.length; at++) {
    const candidate = queue[at];
    if (candidate === undefined) return;
    yield candidate;
    seen.add(keyOf(candidate));
    if (candidate.free) continue;
    const where = { lists: candidate.lists, suppliers, looksIn: (list: string) => looksIn(candidate.lists, list, fallsBack) };
    for (const left of leftOf(candidate, where)) {
      const key = keyOf(left);
      if (seen.has(key) || queue.length === MOST_CANDIDATES) continue;
      seen.add(key);
      queue.push(left);
    }
  }
}

/**
 * Names from which one rule takes something off and leaves this name: one for each form that a decoration has.
 * @param isWanted which of them to look at
 */
export function decoratedNames(
  { lists, suppliers }: PriceLane,
  name: string,
  fallsBack: (list: string) => readonly string[],
  isWanted: (form: string) => boolean,
): readonly string[] {
  const where = { lists, suppliers, looksIn: (list: string) => looksIn(lists, list, fallsBack) };
  return RULES.flatMap(({ apply, worn }) =>
    (worn?.(name) ?? []).filter(
      (form) => form !== name && form.length <= LONGEST_NAME && isWanted(form) && apply(form, where).some((left) => left.name === name),
    ),
  );
}

/** What each rule leaves of a candidate, one rule at a time. */
function* leftOf(candidate: Candidate, where: Where): Generator<Candidate> {
  for (const { id, exact = false, apply } of RULES) {
    for (const { name, lists = candidate.lists, free = false } of apply(candidate.name, where)) {
      if (name !== '') yield { name, lists, free, exact: candidate.exact && exact, steps: [...candidate.steps, { rule: id, name }] };
    }
  }
}

function keyOf({ name, lists, free }: Candidate): string {
  return `${name}\n${free ? 'free' : (lists?.join() ?? '')}`;
}

function looksIn(lists: readonly string[] | undefined, list: string, fallsBack: (list: string) => readonly string[]): boolean {
  return lists?.some((one) => one === list || fallsBack(one).includes(list)) ?? false;
}
