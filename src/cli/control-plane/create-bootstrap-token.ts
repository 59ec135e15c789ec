import { isJsonObject } from '../../base/json/json-object.ts';
import { bracketHost, parseAuthority } from '../../base/lib/host.ts';
import { parseWithOne } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK, Unusable, UsageError } from '../command.ts';
import { JSON_OPTION, printJson, terminalText } from '../terminal-text.ts';
import { adminOperationOf, ControlPlaneClient, controlPlaneSettingsOf } from './control-plane-client.ts';

const OPTIONS = {
  'ttl-seconds': { type: 'string' },
  address: { type: 'string' },
  url: { type: 'string' },
  token: { type: 'string' },
  ...JSON_OPTION,
} as const;

/** Makes a bootstrap token, and says what a gateway is started with to enrol by it. */
export const createBootstrapToken: Command = {
  name: 'control-plane token create',
  usage: 'ORG [--ttl-seconds N] [--address HOST:PORT] [--json] [--url http://HOST:PORT] [--token TOKEN]',
  summary: 'Makes a bootstrap token, by which one gateway enrols once, and prints the settings that it needs. It is shown this once.',
  help: `
  --ttl-seconds  how long it may be used, 3600 where it is left out
  --address      where the gateway reaches the gRPC port; else the host of --url with CP_GRPC_PORT
`,
  async run(args, io) {
    const { values, one: org } = parseWithOne(args, OPTIONS, 'it takes one ORG');
    const client = await ControlPlaneClient.open(values, io);
    const ttl = values['ttl-seconds'];
    if (ttl !== undefined && !/^\d{1,9}$/.test(ttl)) throw new UsageError('--ttl-seconds takes a whole number');
    const address = values.address ?? `${bracketHost(client.host.replace(/^\[|\]$/g, ''))}:${controlPlaneSettingsOf(io).grpcPort}`;
    if (parseAuthority(address) === undefined) throw new UsageError('--address takes HOST:PORT');
    const answer = await client.json(adminOperationOf('token.create'), { org, ...(ttl === undefined ? {} : { ttl_seconds: Number(ttl) }) });
    const { token, expires_at: expiresAt } = isJsonObject(answer) ? answer : {};
    if (typeof token !== 'string' || typeof expiresAt !== 'string')
      throw new Unusable('what was answered is no token: is it a control plane?');
    show({ token, expiresAt, settings: enrolmentSettings(address, org, token) }, values.json === true, io);
    return EXIT_OK;
  },
};

/** What a gateway is started with to enrol. */
export function enrolmentSettings(address: string, org: string, token: string): Readonly<Record<string, string>> {
  return { GW_CP_ADDR: address, GW_ORG_ID: org, GW_KEY_DIR: './keys', GW_BOOTSTRAP_TOKEN: token };
}

interface MadeToken {
  readonly token: string;
  readonly expiresAt: string;
  readonly settings: Readonly<Record<string, string>>;
}

function show({ token, expiresAt, settings }: MadeToken, json: boolean, io: CliIo): void {
  if (json) {
    printJson({ token, expires_at: expiresAt, settings }, io);
    return;
  }
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${terminalText(value)}\n`);
  io.stdout(
    `${terminalText(token)}\n\nIt can be used once, until ${terminalText(expiresAt)}. The gateway is started with:\n\n${lines.join('')}`,
  );
}
