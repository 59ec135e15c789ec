import type { TelemetryPreview } from '../services/sending/telemetry/usage-telemetry.ts';
import { parseOptions } from './checked-arguments.ts';
import { type Command, EXIT_OK } from './command.ts';
import { GatewayClient, URL_OPTION } from './gateway-client.ts';
import { printJson, terminalLines, terminalText } from './terminal-text.ts';

/** Shows the usage report that a running gateway would send next. */
export const previewTelemetry: Command = {
  name: 'telemetry preview',
  usage: '[--json] [--url http://HOST:PORT]',
  summary: 'Shows, whole, the usage report that a running gateway would send next, and whether and where it does; --json: as one object.',
  async run(args, io) {
    const { json = false, url } = parseOptions(args, { json: { type: 'boolean' }, ...URL_OPTION });
    const gateway = await GatewayClient.open(url, io);
    const preview = (await gateway.json('GET', '/v1/admin/telemetry/preview')) as TelemetryPreview;
    if (json) printJson(preview, io);
    else {
      io.stdout(`${terminalText(sentence(preview))}\n`);
      io.stdout(`${terminalLines(JSON.stringify(preview.report, null, 2))}\n`);
    }
    return EXIT_OK;
  },
};

function sentence({ sending, why, url, next_at: next, last }: TelemetryPreview): string {
  if (!sending) return `Nothing is sent: ${why ?? ''}. Of the last hour a report would say:`;
  const before = last === null ? '' : ` The last one, at ${last.at}, was ${last.delivered ? 'taken' : `dropped: ${last.detail}`}.`;
  return `The next report goes to ${url ?? ''} at ${next ?? ''}.${before} By now it says:`;
}
