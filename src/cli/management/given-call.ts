import { isJsonObject } from '../../base/json/json-object.ts';
import { type ArgumentOptions, badValue, checkedArguments, type GivenArguments } from '../checked-arguments.ts';
import { type CliIo, UsageError } from '../command.ts';
import { parseMap, readDocument } from '../policy/policy-target.ts';
import type { OperationInput, OperationOption } from './operation-options.ts';
import { missing, openValue, optionValue, placeholder, takes } from './option-values.ts';
import { columnNames } from './table-cells.ts';

/** How a command finds whom it asks, and with what. */
export interface AskingOptions {
  readonly options: OptionTable;
  /** The end of the usage text. */
  readonly usage: string;
}

/** Options of every command that asks the management API. */
const MANAGEMENT: AskingOptions = {
  options: { json: { type: 'boolean' }, url: { type: 'string' }, key: { type: 'string' }, org: { type: 'string' } },
  usage: '[--json] [--url http://HOST:PORT] [--key mgk_…] [--org ID]',
};
/** Said for `true` or `false`; a word of its own it is not. */
const LIKE_TRUE_OR_FALSE: ReadonlySet<string> = new Set(['yes', 'no', 'on', 'off']);
/** Behind the name of an option: its value stands in a file. */
const FROM = '-from';

/** What a command was given. */
export interface GivenCall {
  readonly args: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly json: boolean;
  /** Every page. */
  readonly all: boolean;
  readonly url: string | undefined;
  readonly key: string | undefined;
  readonly org: string | undefined;
  /** The admin token of a control plane. */
  readonly token: string | undefined;
  /** Of a report: by what it is shown. */
  readonly by: string | undefined;
  /** Of a table: every column, whole. */
  readonly wide: boolean;
  /** Of a table: the columns that are asked for. */
  readonly columns: readonly string[] | undefined;
}

/** What of the command line is not the operation's input. */
export interface CommandFacts {
  readonly versioned: boolean;
  /** Empty: the command has no `--by`. */
  readonly views: readonly string[];
  /** What it answers may be a table: it has `--wide` and `--columns`. */
  readonly tables?: boolean;
  /** Default: that of the management API. */
  readonly asking?: AskingOptions;
}

type OptionTable = Readonly<Record<string, { readonly type: 'string' | 'boolean'; readonly multiple?: boolean }>>;

/** The arguments of an operation, from options, words and files. @throws UsageError */
export async function givenCall(args: readonly string[], input: OperationInput, facts: CommandFacts, io: CliIo): Promise<GivenCall> {
  const table = tableOf(input, facts);
  const typed = withNegations(args, table);
  const given = checkedArguments(typed, { ...table, ...openOptions(typed, input.options) }, input.words.length, true);
  const one = (name: string) => given.options.findLast((option) => option.name === name);
  const file = one('file')?.value;
  const body = file === undefined ? {} : parseMap(await readDocument(file, io));
  const made = { ...body, ...(await membersIn(given, input.options, body, io)), ...wordsIn(given, input.words) };
  checkNeeded(made, input);
  const match = one('if-match')?.value;
  // Where a command has no views it may be a member of its input.
  const by = facts.views.length === 0 ? undefined : one('by')?.value;
  if (by !== undefined && !facts.views.includes(by)) throw new UsageError(`--by takes one of ${facts.views.join(', ')}`);
  return {
    args: made,
    headers: match === undefined ? {} : { 'if-match': match },
    json: one('json') !== undefined,
    all: one('all') !== undefined,
    url: one('url')?.value,
    key: one('key')?.value,
    org: one('org')?.value,
    token: one('token')?.value,
    by,
    wide: one('wide') !== undefined,
    columns: columnNames(one('columns')?.value),
  };
}

/** Usage text: what is needed first. */
export function callUsage(input: OperationInput, { versioned, views, tables, asking = MANAGEMENT }: CommandFacts): string {
  const shown = input.options.filter(({ open, path }) => path.length === 1 || !open);
  const needed = shown.filter(({ required }) => required).map((option) => `--${option.name} ${placeholder(option)}`);
  const others = shown.filter(({ required }) => !required).map((option) => `[--${option.name} ${placeholder(option)}]`);
  return [
    ...input.words.map((word) => word.toUpperCase()),
    ...needed,
    ...others,
    ...(views.length === 0 ? [] : [`[--by ${views.join('|')}]`]),
    ...(input.hasBody ? ['[--file body.json|-]'] : []),
    ...(versioned ? ['[--if-match ETAG]'] : []),
    ...(input.paged ? ['[--all]'] : []),
    ...(tables === true ? ['[--wide] [--columns NAME,…]'] : []),
    asking.usage,
  ].join(' ');
}

/** Each option with what it takes and means, for the help of a command. */
export function callHelp(input: OperationInput): string {
  const rows = input.options.map((option) => {
    const { name, required, description, elsewhere } = option;
    const said = [`${takes(option)}${required ? '; needed' : ''}`, description, elsewhere ?? ''].filter((text) => text !== '');
    return `  --${name}\n      ${said.join('. ')}\n`;
  });
  const from = input.hasBody ? '  --NAME-from FILE|-\n      the text of an option of that name, from a file\n' : '';
  return `${rows.join('')}${from}`;
}

function tableOf(
  { options, words, hasBody, paged }: OperationInput,
  { versioned, views, tables, asking = MANAGEMENT }: CommandFacts,
): OptionTable {
  const texts = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, { type: 'string' as const }]));
  const isSwitch = ({ shape, value }: OperationOption) => shape === 'one' && value.kind === 'boolean';
  return {
    ...texts(words.map((word) => word.replaceAll('_', '-'))),
    ...(hasBody ? texts(['file', ...options.filter(isTextual).map(({ name }) => name + FROM)]) : {}),
    ...(versioned ? texts(['if-match']) : {}),
    ...(views.length === 0 ? {} : texts(['by'])),
    ...(paged ? { all: { type: 'boolean' as const } } : {}),
    ...(tables === true ? { wide: { type: 'boolean' as const }, columns: { type: 'string' as const } } : {}),
    ...asking.options,
    ...Object.fromEntries(options.map((option) => [option.name, { type: isSwitch(option) ? ('boolean' as const) : ('string' as const) }])),
  };
}

function isTextual({ shape, value }: OperationOption): boolean {
  return shape === 'one' && value.kind === 'text';
}

/** `--enabled false` and `--no-enabled` are written `--enabled=false`. @throws UsageError */
function withNegations(args: readonly string[], table: OptionTable): string[] {
  const isSwitch = (name: string) => Object.hasOwn(table, name) && table[name]?.type === 'boolean';
  const made: string[] = [];
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? '';
    if (arg === '--') return [...made, ...args.slice(at)];
    const value = arg.startsWith('--') && isSwitch(arg.slice(2)) ? switchValue(arg, args[at + 1]) : undefined;
    if (arg.startsWith('--no-') && isSwitch(arg.slice(5))) made.push(`--${arg.slice(5)}=false`);
    else if (value !== undefined) {
      made.push(`${arg}=${value}`);
      at += 1;
    } else made.push(arg);
  }
  return made;
}

/** What stands behind a switch, where that is its value. @throws UsageError */
function switchValue(arg: string, next = ''): string | undefined {
  if (LIKE_TRUE_OR_FALSE.has(next)) throw badValue(arg, 'true or false', next);
  return next === 'true' || next === 'false' ? next : undefined;
}

/** `--config.webhook-url`: members that the schema of `config` leaves open. */
function openOptions(args: readonly string[], options: readonly OperationOption[]): ArgumentOptions {
  const open = options.filter((option) => option.open).map(({ name }) => `--${name}.`);
  const names = args
    .filter((arg) => open.some((start) => arg.startsWith(start) && arg.length > start.length))
    .map((arg) => arg.slice(2).split('=', 1)[0] ?? '');
  return Object.fromEntries(names.map((name) => [name, { type: 'string' as const }]));
}

async function membersIn(
  { options: given }: GivenArguments,
  options: readonly OperationOption[],
  body: Readonly<Record<string, unknown>>,
  io: CliIo,
): Promise<Record<string, unknown>> {
  const made: Record<string, unknown> = structuredClone(body);
  const texts = new Map<string, string[]>();
  for (const { name, value = 'true' } of given) texts.set(name, [...(texts.get(name) ?? []), value]);
  for (const option of options) {
    const own = texts.get(option.name);
    if (own !== undefined) put(made, option.path, optionValue(option, own));
    const from = texts.get(option.name + FROM)?.at(-1);
    if (from !== undefined && isTextual(option)) put(made, option.path, (await readDocument(from, io)).text.replace(/\r?\n$/, ''));
    if (!option.open) continue;
    const start = `${option.name}.`;
    for (const [name, values] of texts) {
      if (!name.startsWith(start)) continue;
      put(made, [...option.path, ...name.slice(start.length).replaceAll('-', '_').split('.')], openValue(values));
    }
  }
  return made;
}

function wordsIn({ words, options }: GivenArguments, names: readonly string[]): Record<string, string> {
  const texts = names.map((name, at) => words[at] ?? options.findLast((option) => option.name === name.replaceAll('_', '-'))?.value);
  return Object.fromEntries(names.flatMap((name, at) => (texts[at] === undefined ? [] : [[name, texts[at]]])));
}

function checkNeeded(made: Readonly<Record<string, unknown>>, { words, options }: OperationInput): void {
  const lacking = [
    ...words.filter((word) => (made[word] ?? '') === '').map((word) => [word.toUpperCase(), 'text'] as const),
    ...options
      .filter(({ required, path }) => required && path.length === 1 && made[path[0] ?? ''] === undefined)
      .map((option) => [`--${option.name}`, takes(option)] as const),
  ];
  if (lacking.length > 0) throw missing(lacking);
}

function put(into: Record<string, unknown>, path: readonly string[], value: unknown): void {
  const [name = '', ...rest] = path;
  if (rest.length === 0) {
    into[name] = value;
    return;
  }
  const before = into[name];
  const inner: Record<string, unknown> = isJsonObject(before) ? { ...before } : {};
  put(inner, rest, value);
  into[name] = inner;
}
