import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { readRegularFile } from '../../base/lib/file-system.ts';
import { codeOf, messageOf } from '../../base/lib/gateway-error.ts';
import { decodeUtf8 } from '../../base/lib/text.ts';
import type { PriceListStatus, UpdatedPriceList } from '../../operations/price-list-operations.ts';
import type { ShownChange, ShownDiff } from '../../operations/shown-prices.ts';
import { parseWithWords } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, Unusable, UsageError } from '../command.ts';
import { GatewayClient, URL_OPTION } from '../gateway-client.ts';
import { textTable } from '../management/text-table.ts';
import { JSON_OPTION, printJson, terminalText } from '../terminal-text.ts';

/** Of a list; the gateway takes no more. */
const MAX_LIST_BYTES = 16 * 1024 * 1024;
/** The gateway asks an address for a minute at most, and reads what comes. */
const LIST_TIMEOUT_MS = 150_000;
/** How it is written in usage texts. */
const LIST_USAGE = '[FILE | URL | shipped]';
const LIST_HELP = `  FILE     a price list in the published form, read here; - is standard input
  URL      an https address, which the gateway asks
  shipped  the list of the package
  without  what GW_PRICE_LIST of the gateway names
`;

/** Gives a running gateway a newer price list. */
export const updatePriceList: Command = {
  name: 'prices update',
  usage: `${LIST_USAGE} [--json] [--url http://HOST:PORT]`,
  summary: 'Gives a running gateway a newer price list, once; one that cannot be had or used leaves the last one in force (exit code 1).',
  help: LIST_HELP,
  async run(args, io) {
    const { values, words } = parseWithWords(args, { ...JSON_OPTION, ...URL_OPTION }, 1);
    const body = await givenList(words[0], io);
    const gateway = await GatewayClient.open(values.url, io);
    const updated = (await gateway.json('POST', '/v1/admin/prices/update', body, LIST_TIMEOUT_MS)) as UpdatedPriceList;
    if (values.json === true) printJson(updated, io);
    else io.stdout(updatedText(updated, io));
    return EXIT_OK;
  },
};

function updatedText({ outcome, in_force: list, added, removed, changed, held, warnings }: UpdatedPriceList, io: CliIo): string {
  if (outcome === 'unchanged') return `Nothing has changed: the list ${terminalText(listLine(list))} is in force already.\n`;
  const counts = [`${plural(added, 'model')} added`, `${removed} removed`, `${plural(changed, 'rate')} changed`].join(', ');
  const notes = warnings.map((warning) => `note: ${terminalText(warning)}\n`).join('');
  const first = `In force from the next call on: ${terminalText(listLine(list))} (${counts}).\n${notes}`;
  if (held.length === 0) return first;
  const hint = acceptHint(held, io.program ?? 'gw');
  return `${first}\nThese would fall to zero or change more than tenfold; what was charged before is charged until somebody says yes (${hint}):\n\n${changesTable(held, io.columns)}`;
}

interface Accepted {
  readonly accepted: readonly ShownChange[];
  readonly held: readonly ShownChange[];
}

/** Says yes to prices that are held back. */
export const acceptPrices: Command = {
  name: 'prices accept',
  usage: '[PROVIDER MODEL ...] [--all] [--json] [--url http://HOST:PORT]',
  summary: 'Says yes to prices of a newer list that are held back, of these models or of all; "gw prices status" shows them.',
  async run(args, io) {
    const { values, words } = parseWithWords(args, { all: { type: 'boolean' }, ...JSON_OPTION, ...URL_OPTION });
    const all = values.all === true;
    if (all === words.length > 0) throw new UsageError('name models by PROVIDER MODEL, or give --all');
    if (words.length % 2 !== 0)
      throw new UsageError(`${words.at(-1) ?? ''} is alone: a model is named by PROVIDER MODEL, as "gw prices status" shows them`);
    const gateway = await GatewayClient.open(values.url, io);
    const answer = (await gateway.json('POST', '/v1/admin/prices/accept', all ? { all } : { models: pairs(words) })) as Accepted;
    if (values.json === true) printJson(answer, io);
    else io.stdout(acceptedText(answer, io));
    return EXIT_OK;
  },
};

function pairs(words: readonly string[]): readonly { readonly provider: string; readonly model: string }[] {
  return words.flatMap((provider, at) => (at % 2 === 0 ? [{ provider, model: words[at + 1] ?? '' }] : []));
}

function acceptedText({ accepted, held }: Accepted, { columns }: CliIo): string {
  if (accepted.length === 0) return 'No price is held back.\n';
  const left = held.length === 0 ? 'none is held back any more' : `${held.length} still held back`;
  return `In force from the next call on (${plural(accepted.length, 'rate')}, ${left}):\n\n${changesTable(accepted, columns)}`;
}

/** What is asked of a gateway about a list: members of the body. */
export interface GivenListBody {
  readonly list?: string;
  readonly name?: string;
  readonly date?: string;
  readonly source?: string;
}

/** A list as a person names it. @throws Unusable for a file that cannot be read */
export async function givenList(word: string | undefined, io: CliIo): Promise<GivenListBody> {
  if (word === undefined) return {};
  if (word === 'shipped' || word.includes('://')) return { source: word };
  try {
    if (word === '-') return { list: textOf(await io.stdin(MAX_LIST_BYTES)), name: 'standard input' };
    const { mtime } = await stat(word);
    return { list: textOf(await readRegularFile(word, MAX_LIST_BYTES)), name: basename(word), date: mtime.toISOString().slice(0, 10) };
  } catch (error) {
    const why = codeOf(error) === 'ENOENT' ? 'there is no such file' : messageOf(error);
    throw new Unusable(`${word}: ${why}`, { cause: error });
  }
}

function textOf(bytes: Uint8Array): string {
  const text = decodeUtf8(bytes);
  if (typeof text !== 'string') throw new Error('it is not UTF-8 text');
  return text;
}

/** Shows what another price list would change in a running gateway. */
export const diffPriceList: Command = {
  name: 'prices diff',
  usage: `${LIST_USAGE} [--json] [--url http://HOST:PORT]`,
  summary:
    'Shows what "gw prices update" with the same argument would change, and changes nothing; exit code 1 when it would change something.',
  help: LIST_HELP,
  async run(args, io) {
    const { values, words } = parseWithWords(args, { ...JSON_OPTION, ...URL_OPTION }, 1);
    const body = await givenList(words[0], io);
    const gateway = await GatewayClient.open(values.url, io);
    const diff = (await gateway.json('POST', '/v1/admin/prices/diff', body, LIST_TIMEOUT_MS)) as ShownDiff;
    if (values.json === true) printJson(diff, io);
    else io.stdout(diffText(diff, io));
    return diff.added.length + diff.removed.length + diff.changed.length === 0 ? EXIT_OK : EXIT_NO;
  },
};

function diffText({ added, removed, changed, warnings }: ShownDiff, io: CliIo): string {
  const held = changed.filter((change) => change.held).length;
  const parts = [
    changed.length === 0
      ? undefined
      : `${plural(changed.length, 'rate')} would change, ${held} of them held back:\n\n${changesTable(changed, io.columns)}`,
    placesText('added', added, io),
    placesText('gone', removed, io),
    warnings.length === 0 ? undefined : warnings.map((warning) => `note: ${terminalText(warning)}\n`).join(''),
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? 'It says the same as the list in force.\n' : parts.join('\n');
}

function placesText(what: string, places: ShownDiff['added'], { columns }: CliIo): string | undefined {
  if (places.length === 0) return undefined;
  const table = textTable(
    [
      { name: 'provider', cells: places.map(({ provider }) => provider) },
      { name: 'model', cells: places.map(({ model }) => model) },
    ],
    columns,
  );
  return `${plural(places.length, 'model')} would be ${what}:\n\n${table}`;
}

/* Price lists, and what they change, for people. */
type ListInForce = PriceListStatus['in_force'];

const TIME = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z$/;

/** A time without what nobody reads. */
export function shortTime(time: string): string {
  return time.replace(TIME, '$1 $2Z');
}

export function plural(count: number, one: string, several = `${one}s`): string {
  return `${count.toLocaleString('en-US')} ${count === 1 ? one : several}`;
}

/** Which list it is, in one line. */
export function listLine({ date, version, models, providers }: Omit<ListInForce, 'age_days' | 'name' | 'from'>): string {
  const of = [date, version === undefined ? undefined : `version ${version}`].filter((part) => part !== undefined).join(', ');
  return `${of === '' ? 'of no day' : of}: ${plural(models, 'model')} of ${plural(providers, 'provider')}`;
}

/** Changes beside each other; `held` says of each whether it waits, where only some do. */
export function changesTable(changes: readonly ShownChange[], width: number | undefined): string {
  const cells = (cell: (change: ShownChange) => string): readonly string[] => changes.map(cell);
  const columns = [
    { name: 'provider', cells: cells(({ provider }) => provider) },
    { name: 'model', cells: cells(({ model, name }) => (name === undefined || name === model ? model : `${model} (as ${name})`)) },
    { name: 'rate', cells: cells(rateText) },
    { name: 'from', cells: cells(({ before }) => before ?? '-') },
    { name: 'to', cells: cells(({ after }) => after ?? '-') },
    { name: 'times', cells: cells(({ factor }) => (factor === undefined ? '' : String(factor))) },
    { name: '', cells: cells(({ held }) => (held ? 'held' : '')) },
  ];
  return textTable(
    columns.filter((column) => column.name !== '' || !changes.every(({ held }) => held)),
    width,
  );
}

function rateText({ rate, per, above, when }: ShownChange): string {
  const limits = [
    per === undefined ? undefined : `for ${per.toLocaleString('en-US')}`,
    above === undefined ? undefined : `above ${above.toLocaleString('en-US')}`,
    when,
  ];
  return [rate, ...limits.filter((limit) => limit !== undefined)].join(', ');
}

/** How what waits is let through. */
export function acceptHint(held: readonly ShownChange[], program: string): string {
  const [first] = held;
  return first === undefined ? '' : `${program} prices accept ${terminalText(first.provider)} ${terminalText(first.model)}, or --all`;
}
