import { RATE_KINDS, UNITS } from '../model/usage.ts';
import type { Row } from './row-reader.ts';
import type { BesideRule, CountRule, Dialect, PassRule, UsageRule } from './types.ts';

const BESIDE_MEMBERS = ['units', 'terms', 'passes'];
const USAGE_MEMBERS = [
  'as',
  'root',
  'tokens_in',
  'tokens_out',
  'total',
  'in_beside',
  'in_untold',
  'out_beside',
  'reasoning_beside',
  'reasoning_untold',
  'rest_in',
  'optional',
  ...RATE_KINDS.map(({ member }) => member),
  ...BESIDE_MEMBERS,
  'answer',
  'headers',
];
const PASS_MEMBERS = ['path', 'model', 'usage', 'inside', 'tool', 'as'];
const HEADER_MEMBERS = ['tokens_in', 'tokens_out', 'cached_in', 'cache_write'];

const NONE: BesideRule = { units: [], terms: [], passes: [] };
const NO_COUNT: CountRule = { how: 'first', paths: [] };

/**
 * Where the answers of a wire format tell what they used. `as` takes what the row does not say from the rule of an
 * earlier format.
 * @param earlier the formats that stand before this one
 */
export function readUsageRule(row: Row, earlier: ReadonlyMap<string, Dialect>): UsageRule | undefined {
  const usage = row.row('usage', USAGE_MEMBERS);
  if (usage === undefined) return undefined;
  const base = ruleOf(usage, earlier);
  const texts = (name: string, inherited: readonly string[] | undefined): readonly string[] =>
    usage.has(name) ? usage.textOrTexts(name) : (inherited ?? []);
  const counts = (name: string, inherited: CountRule | undefined): CountRule =>
    usage.has(name) ? readCountRule(usage, name) : (inherited ?? NO_COUNT);
  if (base === undefined && !usage.has('tokens_in')) usage.problem('tokens_in', 'is missing');
  const untold = (name: string, inherited = false): boolean => (usage.has(name) ? usage.need(name) === 'beside' : inherited);
  const parts = new Map((base?.parts ?? []).map((part) => [part.tokens, part]));
  for (const { member, tokens } of RATE_KINDS) if (usage.has(member)) parts.set(tokens, { tokens, count: readCountRule(usage, member) });
  return {
    roots: usage.has('root') ? usage.textOrTexts('root') : (base?.roots ?? ['']),
    tokensIn: counts('tokens_in', base?.tokensIn),
    tokensOut: counts('tokens_out', base?.tokensOut),
    total: texts('total', base?.total),
    inBeside: texts('in_beside', base?.inBeside),
    inUntold: untold('in_untold', base?.inUntold),
    outBeside: texts('out_beside', base?.outBeside),
    reasoningBeside: texts('reasoning_beside', base?.reasoningBeside),
    reasoningUntold: untold('reasoning_untold', base?.reasoningUntold),
    restIn: texts('rest_in', base?.restIn),
    optional: usage.flag('optional', base?.optional ?? false),
    parts: [...parts.values()],
    own: readBeside(usage, earlier, base?.own),
    answer: usage.has('answer') ? readBeside(usage.row('answer', BESIDE_MEMBERS), earlier, base?.answer) : (base?.answer ?? NONE),
    headers: readHeaders(usage) ?? base?.headers,
  };
}

function ruleOf(row: Row, earlier: ReadonlyMap<string, Dialect>): UsageRule | undefined {
  const id = row.text('as');
  if (id === undefined) return undefined;
  const rule = earlier.get(id)?.usage;
  if (rule === undefined) row.problem('as', `"${id}" is no dialect with a usage rule that stands before this one`);
  return rule;
}

function readBeside(row: Row | undefined, earlier: ReadonlyMap<string, Dialect>, base: BesideRule = NONE): BesideRule {
  if (row === undefined) return base;
  const terms = row.row('terms');
  return {
    units: row.has('units') ? readUnits(row) : base.units,
    terms:
      terms === undefined ? base.terms : terms.entries().map(({ key }) => ({ name: key.source, paths: terms.textOrTexts(key.source) })),
    passes: row.has('passes') ? row.rows('passes', PASS_MEMBERS).map((pass) => readPass(pass, earlier)) : base.passes,
  };
}

function readUnits(row: Row): BesideRule['units'] {
  const units = row.row('units', UNITS);
  return UNITS.flatMap((unit) => {
    if (units === undefined || !units.has(unit)) return [];
    if (units.value(unit)?.kind !== 'map') return [{ unit, paths: units.textOrTexts(unit), given: [] }];
    const rule = units.row(unit, ['count', 'given']);
    return rule === undefined ? [] : [{ unit, paths: rule.textOrTexts('count'), given: rule.textOrTexts('given') }];
  });
}

function readPass(row: Row, earlier: ReadonlyMap<string, Dialect>): PassRule {
  return {
    path: row.need('path'),
    model: row.text('model') ?? 'model',
    usage: row.text('usage') ?? '',
    inside: row.has('inside') ? row.textOrTexts('inside') : [],
    tool: row.text('tool'),
    counts: ruleOf(row, earlier),
  };
}

function readHeaders(usage: Row): UsageRule['headers'] {
  const headers = usage.row('headers', HEADER_MEMBERS);
  return (
    headers && {
      tokensIn: headers.textOrTexts('tokens_in'),
      tokensOut: headers.textOrTexts('tokens_out'),
      cachedIn: headers.text('cached_in'),
      cacheWrite: headers.text('cache_write'),
    }
  );
}

/** A path or a list of them: the first that is there. */
function readCountRule(usage: Row, name: string): CountRule {
  if (usage.value(name)?.kind !== 'map') return { how: 'first', paths: usage.textOrTexts(name) };
  const rule = usage.row(name, ['sum', 'first', 'most', 'constant']);
  const constant = rule?.text('constant');
  if (constant !== undefined && /^\d{1,9}$/.test(constant)) return { how: 'constant', paths: [], constant: Number(constant) };
  if (rule?.has('sum')) return { how: 'sum', paths: rule.texts('sum') };
  if (rule?.has('first')) return { how: 'first', paths: rule.texts('first') };
  if (rule?.has('most')) return { how: 'most', paths: rule.texts('most') };
  usage.problem(name, 'must be a path, a list of paths, {sum: […]}, {first: […]}, {most: […]} or {constant: a number}');
  return NO_COUNT;
}
