/* Which gateway programs are to use, and in whose name, as `gw env` and `gw run` are told. */
import { readFile } from 'node:fs/promises';
import { WORKLOAD_TOKEN_VARIABLE } from '../../base/config/command-variables.ts';
import type { Config } from '../../base/config/config.ts';
import { shellVariable } from '../../base/config/environment.ts';
import { parsePort } from '../../base/lib/host.ts';
import { messageOf } from '../../base/lib/thrown.ts';
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

/**
 * Who calls: the workload and, from a file or from `GW_WORKLOAD_TOKEN`, its token, which never stands on a command line, where every user of the machine reads it.
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
  const token = file === undefined ? shellVariable(WORKLOAD_TOKEN_VARIABLE, io.env)?.trim() : await tokenIn(file);
  return { workload, token };
}

async function tokenIn(file: string): Promise<string> {
  let token: string;
  try {
    token = (await readFile(file, 'utf8')).trim();
  } catch (error) {
    throw new Unusable(`the token cannot be read: ${messageOf(error)}`, { cause: error });
  }
  if (token === '' || token.length > MAX_TOKEN || /[^\x21-\x7e]/.test(token)) throw new Unusable(`${file} holds no token`);
  return token;
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
