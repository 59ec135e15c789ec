import { parseTime } from '../../base/lib/clock.ts';
import type { ExplainedPrice } from '../../operations/price-list-operations.ts';
import type { ShownPrice } from '../../operations/shown-prices.ts';
import { badValue, parseWithWords } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from '../command.ts';
import { GatewayClient, URL_OPTION } from '../gateway-client.ts';
import { textTable } from '../management/text-table.ts';
import { JSON_OPTION, namedLines, printJson, terminalText } from '../terminal-text.ts';
import { listLine, shortTime } from './price-update.ts';

const FROM: Readonly<Record<ExplainedPrice['from'], string>> = {
  override: 'the file of GW_PRICING_FILE',
  correction: 'a row that lies above the price list',
  list: 'the price list',
  own: 'a row that stands beside the price list',
  free: 'its name: the provider serves it for nothing',
  default: 'nowhere: no list and no row knows this model',
  plan: 'a plan that the caller has with the provider: each call costs nothing',
};
const TOKENS = '1M tokens';

/** Says what a model costs, and why. */
export const explainPrice: Command = {
  name: 'prices explain',
  usage: 'PROVIDER MODEL [--at TIME] [--json] [--url http://HOST:PORT]',
  summary: 'Says what a model costs at a provider in a running gateway, now or at another time, and which source and rule priced its name.',
  async run(args, io) {
    const { values, words } = parseWithWords(args, { at: { type: 'string' }, ...JSON_OPTION, ...URL_OPTION }, 2);
    const [provider, model] = words;
    if (provider === undefined || model === undefined) throw new UsageError('name a provider and a model');
    if (values.at !== undefined && parseTime(values.at) === undefined)
      throw badValue('--at', 'a time as RFC 3339 writes it, such as 2026-11-21T12:00:00Z', values.at);
    const query = new URLSearchParams({ provider, model, ...(values.at === undefined ? {} : { at: values.at }) });
    const gateway = await GatewayClient.open(values.url, io);
    const explained = (await gateway.json('GET', `/v1/admin/prices/explain?${query}`)) as ExplainedPrice;
    if (values.json === true) printJson(explained, io);
    else io.stdout(explanationText(explained, io));
    return EXIT_OK;
  },
};

function explanationText(explained: ExplainedPrice, io: CliIo): string {
  const { provider, model, at, list, price, from, steps, row, listed } = explained;
  const why = namedLines([
    ['model', `${model} at ${provider}, ${shortTime(at)}`],
    ...steps.map(({ rule, name }) => ['found as', `${name} (taken off: ${rule})`] as const),
    ['priced by', FROM[from]],
    ...(listed === undefined ? [] : listedLines(listed)),
    ...(row === undefined ? [] : rowLines(row)),
    ['list in force', listLine(list)],
    ...(price.max_output_tokens === undefined
      ? []
      : ([['max output', `${price.max_output_tokens.toLocaleString('en-US')} tokens`]] as const)),
  ]);
  return `${why}\n${priceTable(price, io.columns)}${termLines(price.terms ?? [])}`;
}

function listedLines({ list, through, model, rule, when }: NonNullable<ExplainedPrice['listed']>) {
  return [
    ['in the list', `${model} of ${through === undefined ? list : `${through}, on which ${list} falls back`}`],
    ['by the rule', rule],
    ...(when === undefined ? [] : [['holds', when] as const]),
  ] as const;
}

function rowLines({ provider, model, origin, reason }: NonNullable<ExplainedPrice['row']>) {
  return [
    ['row', `${provider} ${model}`],
    ...(origin === undefined ? [] : [['its source', origin] as const]),
    ...(reason === undefined ? [] : [['its reason', reason] as const]),
  ] as const;
}

function priceTable({ rates, long_prompts: longer = [], units = {} }: ShownPrice, width: number | undefined): string {
  const all = new Set([rates, ...longer.map((one) => one.rates)].flatMap((one) => Object.keys(one)));
  const names = [...all];
  const counted = Object.entries(units);
  const columns = [
    { name: 'rate', cells: [...names, ...counted.map(([unit]) => unit)] },
    { name: 'for', cells: [...names.map(() => TOKENS), ...counted.map(([, unit]) => unitText(unit))] },
    { name: 'usd', cells: [...names.map((name) => rates[name] ?? '-'), ...counted.map(([, { usd }]) => usd)] },
    // The longest first.
    ...longer.toReversed().map(({ above, rates: own }) => ({
      name: `above ${above.toLocaleString('en-US')}`,
      cells: [...names.map((name) => own[name] ?? '-'), ...counted.map(() => '')],
    })),
  ];
  return textTable(columns, width);
}

function unitText({ per, least }: NonNullable<ShownPrice['units']>[string]): string {
  const many = per.toLocaleString('en-US');
  return least === undefined ? many : `${many}, at least ${least} a call`;
}

function termLines(terms: NonNullable<ShownPrice['terms']>): string {
  if (terms.length === 0) return '';
  const told = terms.map(({ term, factor, rates = {} }) => {
    const own = Object.entries(rates).map(([name, usd]) => `${name} ${usd}`);
    return `  ${terminalText(`${term}: ${factor === undefined ? own.join(', ') : `all of them times ${factor}`}`)}\n`;
  });
  return `\nWhere the answer says so:\n${told.join('')}`;
}
