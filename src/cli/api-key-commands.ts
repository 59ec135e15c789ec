/* Keys with which callers say their org (decision 9.5), made, listed and revoked with the admin token. */
import { systemClock } from '../base/lib/clock.ts';
import type { ApiKey } from '../base/model/keys.ts';
import { parseOptions, parseWithOne } from './checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK } from './command.ts';
import { GatewayClient, URL_OPTION } from './gateway-client.ts';
import { listText } from './management/answer-text.ts';
import { requireTimeToCome } from './management/option-values.ts';
import { isUuid } from './management/table-cells.ts';
import { JSON_OPTION, printJson, printJsonDocument, terminalText } from './terminal-text.ts';

const PATH = '/v1/admin/api-keys';
const ASKING = '[--json] [--url http://HOST:PORT]';
const ACCESS = { ...JSON_OPTION, ...URL_OPTION } as const;
const COLUMNS = ['id', 'org: org_id', 'name', 'prefix: key_prefix', 'created: created_at', 'expires: expires_at', 'revoked: revoked_at'];

/** Makes a key for an org. */
export const createApiKey: Command = {
  name: 'api-keys create',
  usage: `[--org ID] [--name TEXT] [--expires-at TIME] ${ASKING}`,
  summary: 'Makes an API key (gwk_…), with which callers say their org; it is shown this once.',
  help: `
  --org         whose calls it is for; may be left out where the gateway has an org of its own (GW_ORG_ID)
  --expires-at  a time such as 2030-01-01T00:00:00Z, a day (to its end), friday or 90d; left out, it ends when it is revoked
`,
  async run(args, io) {
    const options = { org: { type: 'string' }, name: { type: 'string' }, 'expires-at': { type: 'string' }, ...ACCESS } as const;
    const { org: org_id, name, 'expires-at': end, url, json = false } = parseOptions(args, options);
    const expires_at = end === undefined ? undefined : requireTimeToCome('--expires-at', end);
    const gateway = await GatewayClient.open(url, io);
    const made = (await gateway.json('POST', PATH, { org_id, name, expires_at })) as ApiKey & { readonly key: string };
    if (json) printJson(made, io);
    else {
      // Alone on standard output, so that a script can keep it.
      io.stdout(`${terminalText(made.key)}\n`);
      io.stderr(`The key of the org ${terminalText(made.org_id)}, with the id ${terminalText(made.id)}. It is not shown again.\n`);
    }
    return EXIT_OK;
  },
};

/** Lists keys. */
export const listApiKeys: Command = {
  name: 'api-keys list',
  usage: `[--org ID] ${ASKING}`,
  summary: 'Lists API keys by their first characters, those that are revoked or have expired too.',
  async run(args, io) {
    const { org, url, json = false } = parseOptions(args, { org: { type: 'string' }, ...ACCESS });
    const keys = await keysOf(await GatewayClient.open(url, io), org);
    if (json) printJsonDocument(keys, io);
    else io.stdout(listText(keys, { things: 'API keys', columns: COLUMNS, view: { width: io.columns, now: systemClock.now() } }));
    return EXIT_OK;
  },
};

/** Revokes a key. */
export const revokeApiKey: Command = {
  name: 'api-keys revoke',
  usage: `ID ${ASKING}`,
  summary: 'Revokes an API key: from the next request on it lets nobody in.',
  async run(args, io) {
    const { values, one } = parseWithOne(args, ACCESS, 'it takes the ID of one key; gw api-keys list shows them');
    const gateway = await GatewayClient.open(values.url, io);
    const id = isUuid(one) ? one : await wholeKeyId(gateway, one, io);
    const revoked = (await gateway.json('DELETE', `${PATH}/${encodeURIComponent(id)}`)) as ApiKey;
    if (values.json === true) printJson(revoked, io);
    else io.stdout(`The API key ${terminalText(revoked.id)} of the org ${terminalText(revoked.org_id)} is revoked.\n`);
    return EXIT_OK;
  },
};

async function keysOf(gateway: GatewayClient, org?: string): Promise<readonly ApiKey[]> {
  const query = org === undefined ? '' : `?${new URLSearchParams({ org_id: org }).toString()}`;
  return ((await gateway.json('GET', PATH + query)) as { readonly api_keys: readonly ApiKey[] }).api_keys;
}

/** Tables at a terminal show the ends of ids. */
async function wholeKeyId(gateway: GatewayClient, typed: string, io: CliIo): Promise<string> {
  // The operations are loaded by what needs them alone.
  const { wholeIdAmong } = await import('./management/short-ids.ts');
  return wholeIdAmong(await keysOf(gateway), COLUMNS, typed, io);
}
