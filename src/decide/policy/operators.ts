import { IpSet, parseIp } from '../../base/lib/ip.ts';
import { MAX_PATTERN_LENGTH } from '../../base/lib/regex.ts';
import type { YamlNode } from '../../base/lib/yaml.ts';
import type { FieldType } from './fields.ts';
import { compileGlob, globCost, MAX_GLOB_LENGTH } from './glob.ts';
import { type Literal, type LiteralContext, readLiteral, readTextPart } from './literals.ts';
import { readTimeWindow } from './time-window.ts';
import { spend } from './verdict.ts';

/** What a test says about a value that is present. */
export const NO = 0;
export const YES = 1;
/**
 * The value has another type than the operator looks at. Equality never says so: another type is unequal (policy.md
 * 14).
 */
export const OTHER_TYPE = 2;
export type Outcome = typeof NO | typeof YES | typeof OTHER_TYPE;

export type Check = (value: unknown) => Outcome;

/** What an operator of order asks of a number. */
export interface Limit {
  readonly side: 'above' | 'below';
  readonly value: number | bigint;
  readonly included: boolean;
}

/** A compiled literal: the check, and the literals it is equal to when it is an equality that an index can use. */
export interface CompiledOperator {
  readonly check: Check;
  readonly equalTo?: readonly Literal[];
  /** Of an operator of order. */
  readonly limit?: Limit;
  /** The same for a value in lower case, of a provider that ignores case; absent where that makes no difference. */
  readonly folded?: CompiledOperator;
}

/**
 * A value in the type of the field, a list of such values, a part of a text, one or more CIDR ranges, a window of time.
 */
export type Operand = 'literal' | 'literals' | 'text' | 'ranges' | 'window';

export interface Operator {
  /** Field types it applies to. */
  readonly types: ReadonlySet<FieldType>;
  /** `not_equals` and `not_in` are the negations of others. */
  readonly negates: boolean;
  /** What is written behind it. */
  readonly operand: Operand;
  /** For the reference page and for editors. */
  readonly help: string;
  /** Compiles the literal, or adds a problem and returns undefined. */
  readonly compile: (node: YamlNode, context: LiteralContext) => CompiledOperator | undefined;
}

const SCALARS: readonly FieldType[] = [
  'text',
  'host',
  'method',
  'enum',
  'connector',
  'integer',
  'number',
  'money',
  'boolean',
  'time',
  'open',
];
const LISTS: readonly FieldType[] = ['list', 'connector_list', 'header_names'];
const TEXTS: readonly FieldType[] = ['text', 'host', 'method', 'enum', 'connector', 'open'];
const ORDERED: readonly FieldType[] = ['integer', 'number', 'money', 'time', 'open'];

const EQUALITY = { types: new Set([...SCALARS, ...LISTS]) };
const ON_TEXT = { types: new Set(TEXTS), negates: false };
const ON_ORDERED = { types: new Set(ORDERED), negates: false };

/** All operators that look at a value (policy.md 11). `exists`, which looks at presence, is apart. */
export const OPERATORS: Readonly<Record<string, Operator>> = {
  equals: {
    ...EQUALITY,
    negates: false,
    operand: 'literal',
    help: 'The value is this one. A list field: its comma-joined text.',
    compile: compileEquals,
  },
  not_equals: { ...EQUALITY, negates: true, operand: 'literal', help: 'The value is another one.', compile: compileEquals },
  in: {
    ...EQUALITY,
    negates: false,
    operand: 'literals',
    help: 'The value, or any element of a list, is one of these.',
    compile: compileIn,
  },
  not_in: {
    ...EQUALITY,
    negates: true,
    operand: 'literals',
    help: 'The value, and each element of a list, is none of these.',
    compile: compileIn,
  },
  gt: { ...ON_ORDERED, operand: 'literal', help: 'Greater than.', compile: ordering('above', false, (value, limit) => value > limit) },
  gte: {
    ...ON_ORDERED,
    operand: 'literal',
    help: 'Greater than or equal.',
    compile: ordering('above', true, (value, limit) => value >= limit),
  },
  lt: { ...ON_ORDERED, operand: 'literal', help: 'Less than.', compile: ordering('below', false, (value, limit) => value < limit) },
  lte: {
    ...ON_ORDERED,
    operand: 'literal',
    help: 'Less than or equal.',
    compile: ordering('below', true, (value, limit) => value <= limit),
  },
  starts_with: { ...ON_TEXT, operand: 'text', help: 'The text begins so.', compile: textPart((part) => (text) => text.startsWith(part)) },
  ends_with: { ...ON_TEXT, operand: 'text', help: 'The text ends so.', compile: textPart((part) => (text) => text.endsWith(part)) },
  contains: {
    types: new Set([...TEXTS, ...LISTS]),
    negates: false,
    operand: 'text',
    help: 'The text has this part, or the list this element.',
    compile: compileContains,
  },
  glob: {
    ...ON_TEXT,
    operand: 'text',
    help: '`*` stands for anything within one dot- or slash-separated segment, `**` for anything.',
    compile: compileGlobOf,
  },
  matches: { ...ON_TEXT, operand: 'text', help: 'An RE2 pattern is found in the text; `^` and `$` anchor it.', compile: compileMatches },
  cidr: {
    types: new Set<FieldType>(['text', 'host', 'open']),
    negates: false,
    operand: 'ranges',
    help: 'The address lies in one of these ranges.',
    compile: compileCidr,
  },
  between: {
    types: new Set<FieldType>(['time']),
    negates: false,
    operand: 'window',
    help: 'The time (UTC) lies in the window: `days`, `from`, `to`, each optional, `to` excluded.',
    compile: compileBetween,
  },
};

function compileEquals(node: YamlNode, context: LiteralContext): CompiledOperator | undefined {
  if (node.kind === 'seq') {
    context.problems.add(context.place, node, 'bad_type', 'a list is not compared as a whole', 'use `in`');
    return undefined;
  }
  const literal = readLiteral(node, context);
  if (literal === undefined) return undefined;
  return { equalTo: [literal], check: (value) => (value === literal || (isList(value) && joined(value) === literal) ? YES : NO) };
}

function compileIn(node: YamlNode, context: LiteralContext): CompiledOperator | undefined {
  const items = context.problems.items(node, context.place, 'the value of in and not_in');
  if (items === undefined) return undefined;
  const literals = new Set<unknown>();
  const equalTo: Literal[] = [];
  items.forEach((item, i) => {
    const literal = readLiteral(item, { ...context, place: context.place.at(i) });
    if (literal === undefined) return;
    literals.add(literal);
    equalTo.push(literal);
  });
  if (equalTo.length !== items.length) return undefined;
  return { equalTo, check: (value) => (literals.has(value) || (isList(value) && anyIn(value, literals)) ? YES : NO) };
}

/** A list field or a list in the body: any element (policy.md 16). */
function anyIn(list: readonly unknown[] | ReadonlySet<unknown>, literals: ReadonlySet<unknown>): boolean {
  spend(sizeOf(list));
  for (const item of list) {
    if (literals.has(item)) return true;
  }
  return false;
}

function isList(value: unknown): value is readonly unknown[] | ReadonlySet<unknown> {
  return Array.isArray(value) || value instanceof Set;
}

/** The comma-joined text of a list of texts; a list of anything else equals no text. */
function joined(list: readonly unknown[] | ReadonlySet<unknown>): string | undefined {
  spend(sizeOf(list));
  const items = [...list];
  return items.every((item) => typeof item === 'string') ? items.join(',') : undefined;
}

function sizeOf(list: readonly unknown[] | ReadonlySet<unknown>): number {
  return Array.isArray(list) ? list.length : (list as ReadonlySet<unknown>).size;
}

function ordering(
  side: Limit['side'],
  included: boolean,
  holds: (value: number | bigint, limit: number | bigint) => boolean,
): Operator['compile'] {
  return (node, context) => {
    const limit = readLiteral(node, context);
    if (limit === undefined) return undefined;
    if (typeof limit !== 'number' && typeof limit !== 'bigint') {
      context.problems.add(
        context.place,
        node,
        'bad_type',
        'the value must be a number',
        typeof limit === 'string' ? 'write it without quotes' : undefined,
      );
      return undefined;
    }
    const type = typeof limit;
    return {
      limit: { side, value: limit, included },
      check: (value) =>
        typeof value === type && (typeof value === 'number' || typeof value === 'bigint') ? yes(holds(value, limit)) : OTHER_TYPE,
    };
  };
}

function textPart(compile: (part: string) => (text: string) => boolean): Operator['compile'] {
  return (node, context) => {
    const part = readTextPart(node, context);
    return part === undefined ? undefined : { check: onText(compile(part)) };
  };
}

function compileContains(node: YamlNode, context: LiteralContext): CompiledOperator | undefined {
  const { type } = context.field;
  const isElement = LISTS.includes(type) || (type === 'open' && node.kind === 'scalar' && typeof node.value !== 'string');
  const literal = isElement ? readLiteral(node, context) : readTextPart(node, context);
  if (literal === undefined) return undefined;
  return {
    check: (value) => {
      if (typeof value === 'string') return typeof literal === 'string' ? yes(hasPart(value, literal)) : OTHER_TYPE;
      if (Array.isArray(value)) {
        spend(value.length);
        return yes(value.includes(literal));
      }
      return value instanceof Set ? yes(value.has(literal)) : OTHER_TYPE;
    },
  };
}

/** Looking for a part reads many characters in a step. */
const SEARCHED_PER_STEP = 8;

function hasPart(text: string, part: string): boolean {
  spend(text.length / SEARCHED_PER_STEP);
  return text.includes(part);
}

function compileGlobOf(node: YamlNode, context: LiteralContext): CompiledOperator | undefined {
  const pattern = readTextPart(node, context);
  if (pattern === undefined) return undefined;
  if (pattern.length > MAX_GLOB_LENGTH) {
    context.problems.add(context.place, node, 'bad_value', `a glob has at most ${MAX_GLOB_LENGTH} characters`);
    return undefined;
  }
  const holds = compileGlob(pattern);
  const perCharacter = globCost(pattern);
  return {
    check: onText((text) => {
      spend(perCharacter * text.length);
      return holds(text);
    }),
  };
}

/**
 * The pattern may stand anywhere in the text; `^` and `$` anchor it. A pattern is never case-folded: `(?i)` does that.
 */
function compileMatches(node: YamlNode, { place, problems, patterns }: LiteralContext): CompiledOperator | undefined {
  const pattern = problems.text(node, place, 'the pattern', MAX_PATTERN_LENGTH);
  const regex = pattern === undefined ? undefined : patterns.take(pattern, node, place, problems);
  if (regex === undefined) return undefined;
  return {
    check: onText((text) => regex.testSpending(text, spend)),
  };
}

function compileCidr(node: YamlNode, { place, problems }: LiteralContext): CompiledOperator | undefined {
  const items = node.kind === 'seq' ? node.items : [node];
  if (items.length === 0) problems.add(place, node, 'empty', 'the list of ranges is empty');
  const ranges: string[] = [];
  items.forEach((item, i) => {
    const at = node.kind === 'seq' ? place.at(i) : place;
    const range = problems.scalar(item, at, 'a range')?.source;
    const mistake = range === undefined ? undefined : rangeMistake(range);
    if (mistake !== undefined) problems.add(at, item, 'bad_value', mistake, RANGE_HINT);
    else if (range !== undefined) ranges.push(range);
  });
  if (ranges.length === 0 || ranges.length < items.length) return undefined;
  const set = IpSet.parse(ranges);
  return {
    check: (value) => {
      const ip = typeof value === 'string' ? addressOf(value) : undefined;
      spend(ranges.length);
      return ip === undefined ? OTHER_TYPE : yes(set.has(ip));
    },
  };
}

let lastText = '';
let lastAddress: ReturnType<typeof parseIp>;

/** All rules look at the address of one caller, so the last one that was parsed is kept. */
function addressOf(text: string): ReturnType<typeof parseIp> {
  if (text !== lastText) {
    lastAddress = parseIp(text);
    lastText = text;
  }
  return lastAddress;
}

const RANGE_HINT = 'behind the slash stand 0 to 32 for IPv4, 0 to 128 for IPv6; an address without a slash is that one alone';

function rangeMistake(range: string): string | undefined {
  try {
    IpSet.parse([range]);
    return undefined;
  } catch (error) {
    if (error instanceof RangeError) return error.message;
    throw error;
  }
}

function compileBetween(node: YamlNode, { place, problems }: LiteralContext): CompiledOperator | undefined {
  const holds = readTimeWindow(node, place, problems);
  return holds && { check: (value) => (typeof value === 'number' ? yes(holds(value)) : OTHER_TYPE) };
}

function onText(holds: (text: string) => boolean): Check {
  return (value) => (typeof value === 'string' ? yes(holds(value)) : OTHER_TYPE);
}

function yes(holds: boolean): Outcome {
  return holds ? YES : NO;
}
