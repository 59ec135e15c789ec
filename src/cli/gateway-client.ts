import { readFile } from 'node:fs/promises';
import { connect, isIP, type Socket } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import type { Config } from '../base/config/config.ts';
import { parseSafeJsonText } from '../base/json/safe-json.ts';
import { ByteCollector } from '../base/lib/byte-collector.ts';
import type { Authority } from '../base/model/arrival.ts';
import { OUTBOUND_BOUNDS } from '../base/model/traffic-bounds.ts';
import { type CliIo, GatewayRefusal, Unusable } from './command.ts';
import { askFailure, GatewayAddress, ownAddress, parseGatewayUrl } from './gateway-address.ts';
import { ownSession } from './own-session.ts';
import { settingsOf } from './settings-of.ts';
import { terminalLines, terminalText } from './terminal-text.ts';

const TIMEOUT_MS = 10_000;
const MAX_ANSWER = OUTBOUND_BOUNDS.gatewayAnswer.one;

/** The option of commands that ask a running gateway. */
export const URL_OPTION = { url: { type: 'string' } } as const;

/** Asks a running gateway with the admin token, which it never shows. */
export class GatewayClient {
  readonly #base: GatewayAddress;
  readonly #token: string;

  private constructor(base: GatewayAddress, token: string) {
    this.#base = base;
    this.#token = token;
  }

  /**
   * @param url of the gateway; default: the one that is meant (decision 12.15)
   * @throws UsageError for a bad address or setting; Unusable when there is no admin token
   */
  static async open(url: string | undefined, io: CliIo): Promise<GatewayClient> {
    const config = settingsOf(io, { url });
    return new GatewayClient(url === undefined ? ownAddress(config, io.env) : parseGatewayUrl(url, config, io), await adminToken(config));
  }

  /**
   * The same, where the management API is.
   * @param url of the gateway's first port, or of that of the management API; default: the gateway that is meant
   * @throws as {@link open}
   */
  static async openManagement(url: string | undefined, io: CliIo): Promise<GatewayClient> {
    return new GatewayClient(GatewayClient.keyPlace(io, url), await adminToken(settingsOf(io, { url })));
  }

  /**
   * Where the management API of a gateway with the settings of this shell is: on a port of its own when `GW_MGMT_PORT`
   * is set.
   * @param origin of the gateway's first port; default: as the settings say
   * @throws UsageError
   */
  static managementPlace(io: CliIo, origin?: string): GatewayAddress {
    const config = settingsOf(io, { url: origin });
    const place = origin === undefined ? ownAddress(config, io.env) : parseGatewayUrl(origin, config, io);
    return config.mgmtPort === undefined ? place : place.withPort(config.mgmtPort);
  }

  /**
   * Where a command asks that shows a management key: at the address that it was given, else at {@link
   * managementPlace}.
   * @throws UsageError
   */
  static keyPlace(io: CliIo, url: string | undefined): GatewayAddress {
    return url === undefined ? GatewayClient.managementPlace(io) : GatewayClient.firstPlace(io, url);
  }

  /**
   * Where a gateway with the settings of this shell has its first port.
   * @param url in place of that
   * @throws UsageError
   */
  static firstPlace(io: CliIo, url?: string): GatewayAddress {
    const config = settingsOf(io, { url });
    return url === undefined ? ownAddress(config, io.env) : parseGatewayUrl(url, config, io);
  }

  get origin(): string {
    return this.#base.origin;
  }

  /**
   * The text of an answer.
   * @param timeoutMs without a byte of it
   * @throws Unusable when nobody answers or the token is not accepted; GatewayRefusal
   */
  async text(method: string, path: string, body?: unknown, timeoutMs = TIMEOUT_MS): Promise<string> {
    const { program, user } = ownSession('gw');
    const headers = { 'GW-Admin-Token': this.#token, 'GW-Admin-Program': program, 'GW-Admin-User': user };
    const { status, text } = await sendToGateway(this.#base, path, { method, headers, body, timeoutMs });
    if (status >= 200 && status < 300) return text;
    if (status === 401)
      throw new Unusable(`${this.origin} does not accept the admin token; set GW_ADMIN_TOKEN or GW_DATA_DIR to those of the gateway`);
    const { code, message } = errorOf(text);
    throw new GatewayRefusal(status, code, message || `${this.origin} answered ${status}`);
  }

  /** An answer that is JSON. @throws as {@link text} */
  async json(method: string, path: string, body?: unknown, timeoutMs = TIMEOUT_MS): Promise<unknown> {
    const text = await this.text(method, path, body, timeoutMs);
    try {
      return parseSafeJsonText(text, { malformed: 'invalid_request' }).value;
    } catch (error) {
      throw new Unusable(`what ${this.origin} answers is not JSON: is it a gateway?`, { cause: error });
    }
  }
}

export interface SentToGateway {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Sent as JSON; undefined: none. */
  readonly body?: unknown;
  /** Milliseconds without a byte of an answer; default 10 s. */
  readonly timeoutMs?: number;
  /** What is asked for in the place of the path: a whole URL, as a proxy is asked. */
  readonly target?: string;
}

/**
 * One request and its whole answer; what the address trusts is trusted (decision 12.1).
 * @throws Unusable when nobody answers
 */
export async function sendToGateway(
  gateway: GatewayAddress | (URL & { readonly trust?: undefined }),
  path: string,
  { method, headers, body, timeoutMs = TIMEOUT_MS, target }: SentToGateway,
): Promise<{ readonly status: number; readonly text: string; readonly date: string | undefined }> {
  const url = new URL(path, gateway);
  const sent = body === undefined ? undefined : JSON.stringify(body);
  const fields = [...Object.entries(headers).flat(), ...(sent === undefined ? [] : ['Content-Type', 'application/json'])];
  // Loaded here: commands that ask nobody do not wait for it.
  const { ExchangeLine } = await import('../outbound/net/exchange.ts');
  const line = new ExchangeLine(authorityOf(url), url.protocol === 'https:', () => connectionTo(url, gateway.trust));
  const limit = new AbortController();
  const silence = setTimeout(() => limit.abort(new Error(`no answer in ${timeoutMs / 1000} s`)), timeoutMs);
  const collector = new ByteCollector();
  const take = (chunk: Uint8Array): true => {
    silence.refresh();
    collector.push(chunk);
    if (collector.size > MAX_ANSWER) throw new Error('the answer is too long');
    return true;
  };
  try {
    const asked = { method, path: target ?? url.pathname + url.search, headers: fields, body: sent };
    const { status, headers: answered } = await line.exchange(asked, take, limit.signal);
    return { status, text: collector.take().toString('utf8'), date: answered.get('date') };
  } catch (error) {
    const hint = gateway instanceof GatewayAddress && gateway.hint !== undefined ? `; ${gateway.hint}` : '';
    throw new Unusable(`${url.origin} cannot be asked: ${askFailure(url, error)}${hint}`, { cause: error });
  } finally {
    clearTimeout(silence);
    line.close();
  }
}

function authorityOf({ protocol, hostname, port }: URL): Authority {
  return { host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port) };
}

function connectionTo(url: URL, trust: GatewayAddress['trust']): Promise<Socket> {
  const { host, port } = authorityOf(url);
  return new Promise((resolve, reject) => {
    const secure = url.protocol === 'https:';
    const socket = secure
      ? connectTls({ host, port, ...(isIP(host) === 0 ? { servername: host } : {}), ...trust })
      : connect({ host, port });
    socket.once('error', reject);
    socket.once(secure ? 'secureConnect' : 'connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}

/** The configured token, else the one that the gateway made on its first start. */
async function adminToken({ adminToken: configured, dataDir }: Config): Promise<string> {
  if (configured !== undefined) return configured;
  const file = join(dataDir, 'admin-token');
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    throw new Unusable(`there is no admin token: ${file} cannot be read, and GW_ADMIN_TOKEN is not set`, { cause: error });
  }
}

/** The gateway's own form of an error, a line for each part as a terminal may show it; empty where it is none. */
export function errorOf(text: string): { readonly code: string; readonly message: string } {
  try {
    const { error } = JSON.parse(text) as { error?: { code?: unknown; message?: unknown; details?: unknown } };
    const said = String(error?.message ?? '');
    // A line of it begins no line of ours.
    const [first = '', ...more] = [...terminalLines(said).split('\n'), ...detailsOf(error, said)];
    return { code: String(error?.code ?? ''), message: [first, ...more.map((line) => (line === '' ? '' : `  ${line}`))].join('\n') };
  } catch {
    return { code: '', message: '' };
  }
}

/** What an excerpt of a file has shown is not said again. */
function detailsOf(error: { details?: unknown } | undefined, said: string): readonly string[] {
  if (!Array.isArray(error?.details)) return [];
  return (error.details as readonly { path?: unknown; message?: unknown }[])
    .filter(({ message }) => !(said.includes('\n') && said.includes(String(message))))
    .map(({ path, message }) => terminalText(`${String(path)} ${String(message)}`));
}

const AT_ONCE = 500;

/** The items of a list of a running gateway, page by page, at most `most`. @throws as `GatewayClient.json` */
export async function* eachItem(gateway: GatewayClient, path: string, query: URLSearchParams, most: number): AsyncGenerator<unknown> {
  const parameters = new URLSearchParams(query);
  for (let left = most; left > 0; ) {
    parameters.set('limit', String(Math.min(left, AT_ONCE)));
    const { items, next_page_token: next } = (await gateway.json('GET', `${path}?${parameters}`)) as {
      readonly items: readonly unknown[];
      readonly next_page_token: string | null;
    };
    yield* items;
    left -= items.length;
    if (next === null) return;
    parameters.set('page_token', next);
  }
}
