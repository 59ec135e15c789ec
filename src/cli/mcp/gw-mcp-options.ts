import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { MANAGEMENT_KEY_VARIABLE, MCP_KEY_VARIABLE, MCP_TOKEN_VARIABLE } from '../../base/config/command-variables.ts';
import type { Config } from '../../base/config/config.ts';
import { choice, duration, token } from '../../base/config/setting-types.ts';
import { shellVariable } from '../../base/config/settings-reader.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { isLoopbackHost, parseAuthority } from '../../base/lib/host.ts';
import { MANAGEMENT_KEY_PREFIX } from '../../base/lib/own-tokens.ts';
import type { Authority } from '../../base/model/arrival.ts';
import { parseOptions } from '../checked-arguments.ts';
import { type CliIo, UsageError } from '../command.ts';
import { type GatewayAddress, ownAddress, parseGatewayUrl } from '../gateway-address.ts';
import { type GatewaySettings, settingsOf } from '../settings-of.ts';

export const GW_MCP_USAGE =
  'gw-mcp [--gateway-url URL] [--admin-token TOKEN | --mgk KEY] [--listen HOST:PORT [--tls-cert FILE --tls-key FILE] [--session-ttl DURATION]] [--env dev|stg|prd]';

export const ENVIRONMENTS = ['dev', 'stg', 'prd'] as const;
export type EnvironmentName = (typeof ENVIRONMENTS)[number];

/** Where clients are listened to. */
export interface ListenOptions {
  readonly host: string;
  readonly port: number;
  /** PEM. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** What clients show; undefined: nothing, on loopback. */
  readonly token?: string;
  /** `GW_ALLOWED_ORIGINS`: whose pages may call. */
  readonly allowedOrigins: ReadonlySet<string>;
}

export interface GwMcpOptions {
  readonly gateway: GatewayAddress;
  /** Where its management API is: on `GW_MGMT_PORT` of the same host, where that is set. */
  readonly management: GatewayAddress;
  /** By which the gateway is asked. */
  readonly secret: { readonly kind: 'admin' | 'management'; readonly text: string };
  readonly orgId: string;
  /** Undefined: standard input and output. */
  readonly listen?: ListenOptions;
  /** Milliseconds. */
  readonly sessionTtl: number;
  readonly environment: EnvironmentName;
}

const OPTIONS = {
  'gateway-url': { type: 'string' },
  'admin-token': { type: 'string' },
  mgk: { type: 'string' },
  listen: { type: 'string' },
  'tls-cert': { type: 'string' },
  'tls-key': { type: 'string' },
  'session-ttl': { type: 'string', default: '1h' },
  env: { type: 'string', default: 'dev' },
} as const;

const MCP_PATH = '/mcp';

type Given = ReturnType<typeof parseOptions<typeof OPTIONS>>;

/** What the program was started with (specification, "MCP server"). @throws UsageError that never quotes a secret */
export function gwMcpOptions(args: readonly string[], io: Pick<CliIo, 'env'>): GwMcpOptions {
  const given = parseOptions(args, OPTIONS);
  const url = given['gateway-url'];
  const settings = settingsOf(io, { url });
  if (url === undefined && settings.found === undefined)
    throw new UsageError('--gateway-url is needed: the address of a gateway (none is known that was started by this user)');
  const listen = listenOf(given, settings, io);
  const gateway = url === undefined ? ownAddress(settings, io.env) : parseGatewayUrl(url, settings, io, '--gateway-url');
  return {
    gateway,
    management: settings.mgmtPort === undefined ? gateway : gateway.withPort(settings.mgmtPort),
    secret: secretOf(given, settings.adminToken ?? keptToken(settings), {
      key: shellVariable(MANAGEMENT_KEY_VARIABLE, io.env),
      hasMcpKey: shellVariable(MCP_KEY_VARIABLE, io.env) !== undefined,
    }),
    orgId: settings.orgId ?? 'default',
    ...(listen === undefined ? {} : { listen }),
    sessionTtl: parsed('--session-ttl', duration('1s', '24h'), given['session-ttl']),
    environment: parsed('--env', choice(ENVIRONMENTS), given.env),
  };
}

/**
 * One of both; what stands in the environment counts where neither option does, since a command line is read by others
 * on the machine.
 */
function secretOf(
  { 'admin-token': admin, mgk }: Given,
  ownAdmin: string | undefined,
  environment: { readonly key: string | undefined; readonly hasMcpKey: boolean },
): GwMcpOptions['secret'] {
  if (admin !== undefined && mgk !== undefined) throw new UsageError('--admin-token and --mgk: only one of them may be given');
  const fromEnvironment = admin === undefined && mgk === undefined;
  const key = fromEnvironment ? environment.key : mgk;
  if (key !== undefined) {
    if (!key.startsWith(MANAGEMENT_KEY_PREFIX))
      throw new UsageError(
        `--mgk takes a management key, which begins with ${MANAGEMENT_KEY_PREFIX} and is made with "kind": "management"; an MCP key is for clients that ask ${MCP_PATH} of the gateway themselves`,
      );
    return { kind: 'management', text: checkedToken('--mgk', key) };
  }
  const text = fromEnvironment ? ownAdmin : admin;
  if (text === undefined) {
    const mcp = environment.hasMcpKey ? `; ${MCP_KEY_VARIABLE} is for clients that ask ${MCP_PATH} of the gateway themselves` : '';
    throw new UsageError(`--admin-token or --mgk is needed (or GW_ADMIN_TOKEN or GW_MGMT_KEY in the environment)${mcp}`);
  }
  return { kind: 'admin', text: checkedToken('--admin-token', text) };
}

/** The token of a gateway that this user has started, as commands of `gw` take it; undefined where there is none. */
function keptToken({ found, dataDir }: GatewaySettings): string | undefined {
  if (found === undefined) return undefined;
  try {
    return readFileSync(join(dataDir, 'admin-token'), 'utf8').trim();
  } catch {
    return undefined;
  }
}

function listenOf(given: Given, { allowedOrigins }: Config, { env }: Pick<CliIo, 'env'>): ListenOptions | undefined {
  const { listen, 'tls-cert': cert, 'tls-key': key } = given;
  if (listen === undefined) {
    if (cert !== undefined || key !== undefined) throw new UsageError('--tls-cert and --tls-key are for --listen');
    return undefined;
  }
  const address = addressOf(listen);
  if (address === undefined) throw new UsageError('--listen takes HOST:PORT, such as 127.0.0.1:7090');
  if ((cert === undefined) !== (key === undefined)) throw new UsageError('--tls-cert and --tls-key belong together');
  const shown = shellVariable(MCP_TOKEN_VARIABLE, env);
  if (shown === undefined && !isLoopbackHost(address.host)) {
    throw new UsageError(`others can reach ${address.host}: set GW_MCP_TOKEN to what clients have to show as bearer token`);
  }
  if (shown !== undefined && shown.length < 16) throw new UsageError('GW_MCP_TOKEN has fewer than 16 characters and can be guessed');
  return {
    ...address,
    allowedOrigins,
    ...(cert === undefined || key === undefined ? {} : { tls: { cert: pem('--tls-cert', cert), key: pem('--tls-key', key) } }),
    ...(shown === undefined ? {} : { token: checkedToken('GW_MCP_TOKEN', shown) }),
  };
}

/** `0` is a port to listen on (a free one), and none to connect to. */
function addressOf(listen: string): Authority | undefined {
  if (!listen.endsWith(':0')) return parseAuthority(listen);
  const authority = parseAuthority(listen.slice(0, -2), 1);
  return authority && { host: authority.host, port: 0 };
}

function pem(option: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new UsageError(`${option}: ${messageOf(error)}`, { cause: error });
  }
}

function checkedToken(option: string, text: string): string {
  try {
    return token.parse(text);
  } catch (error) {
    throw new UsageError(`${option} takes ${token.allowed}`, { cause: error });
  }
}

function parsed<T>(option: string, type: { readonly allowed: string; parse(text: string): T }, text: string): T {
  try {
    return type.parse(text);
  } catch (error) {
    throw new UsageError(`${option} takes ${type.allowed}`, { cause: error });
  }
}
