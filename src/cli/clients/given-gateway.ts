/* Which gateway programs are to use, and in whose name, as `gw env` and `gw run` are told. */
import { readFile } from 'node:fs/promises';
import { WORKLOAD_TOKEN_VARIABLE } from '../../base/config/command-variables.ts';
import type { Config } from '../../base/config/config.ts';
import { shellVariable } from '../../base/config/settings-reader.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { parsePort } from '../../base/lib/host.ts';
import { API_KEY_PREFIX, WORKLOAD_TOKEN_PREFIX } from '../../base/lib/own-tokens.ts';
import { badValue } from '../checked-arguments.ts';
import { type CliIo, Unusable, UsageError } from '../command.ts';
import type { ClientCaller } from './client-variables.ts';

export const GATEWAY_OPTIONS = {
  workload: { type: 'string' },
  'token-file': { type: 'string' },
  port: { type: 'string' },
  ambient: { type: 'boolean' },
} as const;

export const GATEWAY_USAGE = '[--workload ID] [--token-file FILE] [--ambient] [--port PORT]';

const VISIBLE = /^[\x21-\x7e]{1,128}$/;
const MAX_TOKEN = 4_096;
/** Of a workload, or an API key (decision 4.2): where a word begins. */
const CALLER_TOKEN = new RegExp(`(?<![A-Za-z0-9_-])(?:${WORKLOAD_TOKEN_PREFIX}|${API_KEY_PREFIX})[^\\s"',}]+`, 'g');

/**
 * Who calls: the workload and, from a file or from `GW_WORKLOAD_TOKEN`, its token, which never stands on a command
 * line, where every user of the machine reads it.
 * @throws UsageError, Unusable when the file cannot be read
 */
export async function givenCaller(
  { workload, 'token-file': file }: { readonly workload?: string | undefined; readonly 'token-file'?: string | undefined },
  io: CliIo,
): Promise<ClientCaller | undefined> {
  if (workload === undefined) {
    if (file !== undefined) throw new UsageError('--token-file needs --workload beside it');
    return undefined;
  }
  // A colon would end the name where it is sent.
  if (!VISIBLE.test(workload) || workload.includes(':')) throw badValue('--workload', 'the id of a workload', workload);
  if (file !== undefined) return { workload, token: tokenOf(await textIn(file), file) };
  const held = shellVariable(WORKLOAD_TOKEN_VARIABLE, io.env);
  return { workload, token: held === undefined ? undefined : tokenOf(held, WORKLOAD_TOKEN_VARIABLE) };
}

async function textIn(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw new Unusable(`the token cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

/**
 * The one token or API key in a text: alone, or among what the command printed that made it, which does not show it
 * again.
 * @param place where the text was found, for the message
 */
function tokenOf(text: string, place: string): string {
  const [token, another] = text.length > MAX_TOKEN ? [] : (text.match(CALLER_TOKEN) ?? []);
  if (token !== undefined && another === undefined) return token;
  const held = another === undefined ? 'no token of a workload (gwt_…) and no API key (gwk_…)' : 'more than one token or API key';
  throw new Unusable(`${place} holds ${held}: it takes one, alone or as gw workloads token prints it`);
}

/**
 * The port that programs are to use.
 * @throws UsageError for what is none, or where a gateway of these settings picks one itself
 */
export function givenPort(
  { port: given, ambient = false }: { readonly port?: string | undefined; readonly ambient?: boolean | undefined },
  config: Config,
): number {
  const port = given === undefined ? (ambient ? config.ambientPort : config.port) : parsePort(given);
  if (port === undefined) throw badValue('--port', 'a port from 1 to 65535', given ?? '');
  if (port === 0) throw new UsageError('the port is 0, so the gateway picked one itself; give it with --port');
  return port;
}
