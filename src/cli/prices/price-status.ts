import type { PriceListStatus } from '../../operations/price-list-operations.ts';
import { parseOptions } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK } from '../command.ts';
import { GatewayClient, URL_OPTION } from '../gateway-client.ts';
import { textTable } from '../management/text-table.ts';
import { JSON_OPTION, namedLines, printJson } from '../terminal-text.ts';
import { acceptHint, changesTable, listLine, plural, shortTime } from './price-update.ts';

/** Shows which price list is in force in a running gateway. */
export const priceListStatus: Command = {
  name: 'prices status',
  usage: '[--json] [--url http://HOST:PORT]',
  summary:
    'Shows which price list is in force in a running gateway, how old it is, what of it waits for a yes, and which models have no price.',
  async run(args, io) {
    const { json = false, url } = parseOptions(args, { ...JSON_OPTION, ...URL_OPTION });
    const gateway = await GatewayClient.open(url, io);
    const status = (await gateway.json('GET', '/v1/admin/prices/status')) as PriceListStatus;
    if (json) printJson(status, io);
    else io.stdout(statusText(status, io));
    return EXIT_OK;
  },
};

function statusText(status: PriceListStatus, io: CliIo): string {
  const {
    in_force: list,
    shipped,
    source,
    refresh_seconds: every,
    next_at: next,
    last,
    held,
    warnings,
    priced_by_default: unpriced,
  } = status;
  const isShipped = list.from === 'shipped';
  const taken = list.taken_at === undefined ? [] : ([['taken', `${shortTime(list.taken_at)} by ${list.taken_by ?? ''}`]] as const);
  const head = namedLines([
    ['in force', `${listLine(list)}, ${plural(list.age_days, 'day')} old`],
    ['from', isShipped ? 'the package' : list.name],
    ...taken,
    ['sha256', list.sha256],
    ...(isShipped ? [] : ([['package', listLine(shipped)]] as const)),
    ['source', every === null ? source : `${source}, asked every ${durationText(every)}`],
    ...(last === null
      ? []
      : ([['last asked', `${shortTime(last.at)}, ${last.outcome}${last.detail === undefined ? '' : `: ${last.detail}`}`]] as const)),
    ...(next === null ? [] : ([['next', shortTime(next)]] as const)),
    ...warnings.map((warning) => ['note', warning] as const),
  ]);
  const waiting = `\nHeld back until somebody says yes (${acceptHint(held, io.program ?? 'gw')}):\n\n${changesTable(held, io.columns)}`;
  return `${head}${held.length === 0 ? '' : waiting}${unpriced.length === 0 ? '' : unpricedText(unpriced, io)}`;
}

function unpricedText(models: PriceListStatus['priced_by_default'], { columns }: CliIo): string {
  const table = textTable(
    [
      { name: 'provider', cells: models.map(({ provider }) => provider) },
      { name: 'model', cells: models.map(({ model }) => model) },
      { name: 'calls', cells: models.map(({ calls }) => String(calls)) },
      { name: 'last', cells: models.map(({ last_at: at }) => shortTime(at)) },
    ],
    columns,
  );
  return `\nCalled without a price since the start, and charged 10 / 30 (a row of GW_PRICING_FILE gives one):\n\n${table}`;
}

function durationText(seconds: number): string {
  const units = [
    [86_400, 'd'],
    [3_600, 'h'],
    [60, 'm'],
  ] as const;
  const [size, name] = units.find(([one]) => seconds % one === 0) ?? [1, 's'];
  return size === 86_400 && seconds === size ? '24h' : `${seconds / size}${name}`;
}
