import { isJsonObject } from '../../base/json/json-object.ts';
import { parseDuration, parseTime, timestamp } from '../../base/lib/clock.ts';
import { DelegationError } from '../../decide/delegation/link.ts';
import { parseOptions } from '../checked-arguments.ts';
import { type CliIo, Unusable, UsageError } from '../command.ts';
import { parseMap, readDocument } from '../policy/policy-target.ts';
import { JSON_OPTION } from '../terminal-text.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Options that are one text of the token. */
const TEXTS = {
  id: 'delegation_id',
  org: 'org_id',
  workload: 'workload_id',
  principal: 'principal_id',
  'issued-by': 'issued_by',
  audience: 'audience',
  bundle: 'policy_bundle_id',
} as const;

/** Options that may be repeated, and the list that they make. */
const LISTS = {
  action: ['scope', 'actions_allow'],
  target: ['scope', 'targets_allow'],
  method: ['scope', 'methods_allow'],
  path: ['scope', 'resource_patterns_allow'],
  model: ['budget', 'allowed_models'],
  override: ['attribution', 'allow_overrides'],
} as const;

const OPTIONS = {
  key: { type: 'string' },
  kid: { type: 'string' },
  from: { type: 'string' },
  parent: { type: 'string' },
  expires: { type: 'string' },
  'usd-max': { type: 'string' },
  default: { type: 'string', multiple: true },
  id: { type: 'string' },
  org: { type: 'string' },
  workload: { type: 'string' },
  principal: { type: 'string' },
  'issued-by': { type: 'string' },
  audience: { type: 'string' },
  bundle: { type: 'string' },
  action: { type: 'string', multiple: true },
  target: { type: 'string', multiple: true },
  method: { type: 'string', multiple: true },
  path: { type: 'string', multiple: true },
  model: { type: 'string', multiple: true },
  override: { type: 'string', multiple: true },
  ...JSON_OPTION,
} as const;

export const TOKEN_USAGE =
  '[--from FIELDS.yaml] [--id ID] [--expires 1h|TIME] [--usd-max USD] [--model M]... [--action TYPE]... [--target HOST]... [--method M]... [--path PATTERN]... [--default NAME=VALUE]... [--override NAME]... [--principal ID] [--issued-by ID] [--audience ID] [--bundle ID] [--json]';

/** What was given. */
export type TokenOptions = {
  readonly [K in keyof typeof OPTIONS]?: (typeof OPTIONS)[K] extends { readonly multiple: true }
    ? readonly string[]
    : (typeof OPTIONS)[K]['type'] extends 'boolean'
      ? boolean
      : string;
};

/** @throws UsageError */
export function tokenOptions(args: readonly string[]): TokenOptions {
  return parseOptions(args, OPTIONS);
}

/**
 * The members that the options and the file of `--from` give; options go ahead of the file.
 * @throws UsageError, Unusable
 */
export async function givenFields(options: TokenOptions, io: CliIo): Promise<Fields> {
  const fields: Record<string, unknown> = options.from === undefined ? {} : { ...parseMap(await readDocument(options.from, io)) };
  for (const name of ['schema', 'sig', 'parent', 'issued_at']) {
    if (fields[name] !== undefined) throw new UsageError(`${name} is not given: it is made`);
  }
  for (const [option, member] of entries(TEXTS)) if (options[option] !== undefined) fields[member] = options[option];
  for (const [option, [part, member]] of entries(LISTS)) if (options[option] !== undefined) put(fields, part, member, options[option]);
  if (options['usd-max'] !== undefined) put(fields, 'budget', 'usd_max', options['usd-max']);
  if (options.default !== undefined) put(fields, 'attribution', 'defaults', Object.fromEntries(options.default.map(pair)));
  return fields;
}

/**
 * When the token ends: a time, or how long from now on.
 * @throws UsageError
 */
export function expiryOf(given: string, now: number): string {
  const length = parseDuration(given);
  const at = length === undefined ? parseTime(given) : now + length;
  if (at === undefined || at <= now) throw new UsageError('--expires takes a duration such as 8h, or an RFC 3339 time in the future');
  return timestamp(at);
}

function put(fields: Record<string, unknown>, part: string, member: string, value: unknown): void {
  const before = fields[part];
  fields[part] = { ...(isJsonObject(before) ? before : {}), [member]: value };
}

function pair(text: string): [string, string] {
  const at = text.indexOf('=');
  if (at < 1) throw new UsageError('--default takes NAME=VALUE, such as project_id=search or labels.team=red');
  return [text.slice(0, at), text.slice(at + 1)];
}

function entries<T extends object>(table: T): [keyof T & string, T[keyof T & string]][] {
  return Object.entries(table) as [keyof T & string, T[keyof T & string]][];
}

/** Shorter texts that are no file are mistyped names of one. */
const MIN_TOKEN = 100;

/** A token as people have it: standard input for `-`, a file that is there, or the text itself. @throws Unusable */
export async function readToken(given: string, io: CliIo): Promise<string> {
  if (given === '-') return (await readDocument('-', io)).text.trim();
  try {
    return (await readDocument(given, io)).text.trim();
  } catch (error) {
    if (error instanceof Unusable && given.length > MIN_TOKEN && !given.includes('.')) return given;
    throw error;
  }
}

/** What is made of a token, or the mistake in it as one line for a person. @throws Unusable */
export function sound<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (error instanceof DelegationError) throw new Unusable(`${error.message} (${error.code})`, { cause: error });
    throw error;
  }
}
