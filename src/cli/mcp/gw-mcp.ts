/*
 * `gw-mcp`: the tools of a gateway for an assistant on this machine, by standard input and output or by HTTP. Standard
 * output carries the protocol and nothing else; what there is to say to a person goes to standard error.
 */

import type { Readable, Writable } from 'node:stream';
import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError, messageOf } from '../../base/lib/gateway-error.ts';
import { bracketHost, isLoopbackHost } from '../../base/lib/host.ts';
import type { Logger } from '../../base/lib/log.ts';
import { packageVersion } from '../../base/lib/package-root.ts';
import { terminalOutput } from '../../base/lib/shown-text.ts';
import { openedBy } from '../../base/model/keys.ts';
import type { Principal } from '../../base/model/principal.ts';
import { TOOLS } from '../../operations/tool-table.ts';
import { McpDispatcher } from '../../surfaces/mcp/mcp-dispatcher.ts';
import { McpEndpoint } from '../../surfaces/mcp/mcp-endpoint.ts';
import { mcpServerFacts } from '../../surfaces/mcp/server-facts.ts';
import { type CliIo, EXIT_NO, EXIT_OK, EXIT_USAGE, UsageError } from '../command.ts';
import { terminalText } from '../terminal-text.ts';
import { BorrowedKey, type GatewayKey, givenKey } from './gateway-key.ts';
import { type EnvironmentName, GW_MCP_USAGE, type GwMcpOptions, gwMcpOptions, type ListenOptions } from './gw-mcp-options.ts';
import { openMcpServer } from './mcp-http-server.ts';
import { remoteTools } from './remote-tools.ts';
import { StdioConnection } from './stdio-connection.ts';

/** What the program stands on. */
export interface GwMcpIo extends Pick<CliIo, 'env'> {
  readonly input: Readable;
  readonly output: Writable;
  stderr(text: string): void;
  /** Aborted when the program is asked to end. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly log: Logger;
}

/** What is said to an assistant of the gateway it is about to change (decision 10.9). */
const CAUTIONS: Readonly<Record<EnvironmentName, string>> = {
  dev: 'This is a development gateway (dev).',
  stg: 'This is a staging gateway (stg): others test on it.',
  prd: 'This is the PRODUCTION gateway (prd): tell the person what will change, and wait for a yes, before each tool that is not read-only.',
};

/** By who holds the key of this program, whom the gateway judges anew with each call. */
const HOLDER: Principal = { kind: 'mcp_key', id: 'gw-mcp', scopes: ['mcp', ...openedBy(['write'])] };
/** Sessions by HTTP, all of one owner. */
const MAX_SESSIONS = 256;
/** Of which one holder gets a third (decision 7.12). */
const SESSION_PLACES = MAX_SESSIONS * 3;

/** Runs until its input ends or it is asked to end. @returns the exit code */
export async function runGwMcp(args: readonly string[], io: GwMcpIo): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    io.output.write(
      `usage: ${GW_MCP_USAGE}\nServes a gateway's management tools over MCP: on standard input and output, or with --listen by HTTP.\n`,
    );
    return EXIT_OK;
  }
  let options: GwMcpOptions;
  try {
    options = gwMcpOptions(args, io);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    io.stderr(`gw-mcp: ${terminalOutput(error.message)}\nusage: ${GW_MCP_USAGE}\n`);
    return EXIT_USAGE;
  }
  const key = keyOf(options, io);
  try {
    if (!(await isWelcome(key, options, io))) return EXIT_NO;
    const { environment, management } = options;
    const mark = environment === 'dev' ? {} : { mark: `[${environment}]` };
    const dispatcher = new McpDispatcher({
      toolSet: remoteTools({ table: TOOLS, gateway: management, key, clock: io.clock, ...mark }),
      server: mcpServerFacts(packageVersion(), { name: environment, caution: CAUTIONS[environment] }),
      log: io.log,
    });
    if (options.listen === undefined) await serveStdio(dispatcher, io);
    else await serveHttp(dispatcher, options.listen, options.sessionTtl, io);
    return EXIT_OK;
  } catch (error) {
    io.stderr(`gw-mcp: ${terminalText(messageOf(error))}\n`);
    return EXIT_NO;
  } finally {
    await key.close();
  }
}

function keyOf({ secret, gateway, orgId, environment }: GwMcpOptions, { clock, log }: GwMcpIo): GatewayKey {
  if (secret.kind === 'management') return givenKey(secret.text);
  return new BorrowedKey({ gateway, adminToken: secret.text, orgId, label: environment, clock, log });
}

/** A token that is wrong stays wrong; a gateway that does not answer may do so later. */
async function isWelcome(key: GatewayKey, { gateway, secret }: GwMcpOptions, { stderr }: GwMcpIo): Promise<boolean> {
  if (secret.kind === 'management') return true;
  try {
    await key.current();
    return true;
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    const isFinal = error.code !== 'gateway_error' && error.status < 500;
    const details = (error.details ?? []).map(({ path, message }) => ` ${path} ${message}.`).join('');
    stderr(
      `gw-mcp: ${gateway.origin}: ${terminalText(`${error.message}${details}`)}${isFinal ? '' : ' It is asked again with the first tool.'}\n`,
    );
    return !isFinal;
  }
}

async function serveStdio(dispatcher: McpDispatcher, { input, output, signal }: GwMcpIo): Promise<void> {
  const connection = new StdioConnection({ dispatcher, asker: { principal: HOLDER, from: '' }, input, output });
  const served = connection.serve();
  // What is under way when the program is told to end is cut: its client has gone, or will ask another one.
  await Promise.race([served, aborted(signal)]);
  served.catch(() => undefined);
}

async function serveHttp(dispatcher: McpDispatcher, listen: ListenOptions, idleMs: number, io: GwMcpIo): Promise<void> {
  const { clock, log, signal, stderr } = io;
  const endpoint = new McpEndpoint({ dispatcher, clock, idleMs, limits: { max: SESSION_PLACES, maxOfOwner: MAX_SESSIONS } });
  const server = await openMcpServer({ endpoint, principal: HOLDER, ...listen, clock, log });
  const { host, tls } = listen;
  if (tls === undefined && !isLoopbackHost(host)) {
    stderr('gw-mcp: without --tls-cert and --tls-key the token can be read on the way\n');
  }
  stderr(`gw-mcp: listening on ${tls === undefined ? 'http' : 'https'}://${bracketHost(host)}:${server.port}/mcp\n`);
  await aborted(signal);
  await server.close();
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
