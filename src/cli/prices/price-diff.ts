import type { ShownDiff } from '../../operations/shown-prices.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK } from '../command.ts';
import { GatewayClient, URL_OPTION } from '../gateway-client.ts';
import { textTable } from '../management/text-table.ts';
import { parseWithWords } from '../parse-options.ts';
import { JSON_OPTION, printJson } from '../print-json.ts';
import { terminalText } from '../terminal-text.ts';
import { givenList, LIST_HELP, LIST_TIMEOUT_MS, LIST_USAGE } from './given-list.ts';
import { changesTable, plural } from './price-texts.ts';

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
