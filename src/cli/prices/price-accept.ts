import type { ShownChange } from '../../operations/shown-prices.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from '../command.ts';
import { GatewayClient, URL_OPTION } from '../gateway-client.ts';
import { parseWithWords } from '../parse-options.ts';
import { JSON_OPTION, printJson } from '../print-json.ts';
import { changesTable, plural } from './price-texts.ts';

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
