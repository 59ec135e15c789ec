import type { UpdatedPriceList } from '../../operations/price-list-operations.ts';
import { type CliIo, type Command, EXIT_OK } from '../command.ts';
import { GatewayClient, URL_OPTION } from '../gateway-client.ts';
import { parseWithWords } from '../parse-options.ts';
import { JSON_OPTION, printJson } from '../print-json.ts';
import { terminalText } from '../terminal-text.ts';
import { givenList, LIST_HELP, LIST_TIMEOUT_MS, LIST_USAGE } from './given-list.ts';
import { acceptHint, changesTable, listLine, plural } from './price-texts.ts';

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
