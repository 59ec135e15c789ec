/* What keeps a gateway from letting a program's calls in, asked of the gateway before the first call fails by it. */
import { WORKLOAD_TOKEN_VARIABLE } from '../../base/config/command-variables.ts';
import { shellVariable } from '../../base/config/settings-reader.ts';
import { isJsonObject } from '../../base/json/json-object.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { SELF_TEST_HOST } from '../../base/lib/host.ts';
import type { TriedCaller } from '../../base/model/arrival.ts';
import type { ErrorCode } from '../../base/model/error-codes.ts';
import { type CliIo, Unusable } from '../command.ts';
import { endedText, GatewayAddress } from '../gateway-address.ts';
import { errorOf, sendToGateway } from '../gateway-client.ts';
import type { GatewaySettings } from '../settings-of.ts';
import type { ClientCaller } from './client-variables.ts';

const LIMIT_MS = 3_000;
const PROXY_OFF: ErrorCode = 'connect_refused';
const NOT_LET_IN = 407;
const REFUSED = 'every call will be refused: ';
const TOKEN_GUIDE = 'docs/guides/api-keys.md';

/** With what a program is to call, and in whose name. */
export interface AskedCaller {
  readonly config: GatewaySettings;
  readonly variables: readonly (readonly [name: string, value: string])[];
  readonly caller: ClientCaller | undefined;
}

/**
 * What keeps every call of a program with these variables from being let in, and how to get what is missing, in one
 * sentence; undefined: nothing does, or nothing of it can be known. The gateway is asked by its self-test, which counts
 * and records nothing (decision 12.11). Never rejects.
 */
export async function callerProblem(asked: AskedCaller, io: CliIo): Promise<string | undefined> {
  const { config, variables } = asked;
  const proxy = variables.find(([name]) => name === 'HTTPS_PROXY')?.[1];
  if (proxy === undefined) return undefined;
  const ended = endedText(config.found);
  try {
    const url = new GatewayAddress(proxy, config, io.env);
    const headers = { Host: SELF_TEST_HOST, ...credentialsOf(url) };
    const request = { method: 'GET', headers, timeoutMs: LIMIT_MS, target: `http://${SELF_TEST_HOST}/` };
    return problemIn(await sendToGateway(url, '/', request), asked, io) ?? unusedToken(url, asked.caller, io);
  } catch (error) {
    if (ended !== undefined) return ended;
    return error instanceof Unusable
      ? `no gateway answers, so that no call goes through yet: ${messageOf(error)}; gw start starts one`
      : undefined;
  }
}

/** A token that nobody shows: calls are of another workload than the person means, and nothing else would tell it. */
function unusedToken({ password }: URL, caller: ClientCaller | undefined, io: CliIo): string | undefined {
  return password === '' && hasUnusedToken(caller, io)
    ? `${WORKLOAD_TOKEN_VARIABLE} is set, but not used: --workload ID says of which workload it is`
    : undefined;
}

function hasUnusedToken(caller: ClientCaller | undefined, io: CliIo): boolean {
  return caller === undefined && shellVariable(WORKLOAD_TOKEN_VARIABLE, io.env) !== undefined;
}

/** As programs show what stands in the address of their proxy. */
function credentialsOf({ username, password }: URL): Readonly<Record<string, string>> {
  if (username === '' && password === '') return {};
  const text = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { 'Proxy-Authorization': `Basic ${Buffer.from(text).toString('base64')}` };
}

function problemIn(
  { status, text }: { readonly status: number; readonly text: string },
  { caller }: AskedCaller,
  io: CliIo,
): string | undefined {
  const { caller: judged, caller_problem: problem, caller_needs: needs } = said(text);
  if (typeof problem === 'string' && judged === 'refused') return `${REFUSED}${withoutStop(problem)}${remedy(needs, caller, io)}`;
  if (typeof problem === 'string')
    return `${withoutStop(problem)}; leave it out, or gw workloads token ${caller?.workload ?? 'ID'} makes one (${TOKEN_GUIDE})`;
  const { code, message } = errorOf(text);
  if (code === PROXY_OFF)
    return `${withoutStop(message)}: no call of a program goes through it; programs use a base URL of the gateway (docs/guides/deployment-modes.md)`;
  // Of a gateway that does not tell more.
  return status === NOT_LET_IN ? `${REFUSED}${withoutStop(message)}${remedy('workload_token', caller, io)}` : undefined;
}

function said(text: string): Readonly<Record<string, unknown>> {
  try {
    const answer: unknown = JSON.parse(text);
    return isJsonObject(answer) ? answer : {};
  } catch {
    return {};
  }
}

function withoutStop(sentence: string): string {
  return sentence.replace(/\.$/, '');
}

/** What to do about it. */
function remedy(needs: unknown, caller: ClientCaller | undefined, io: CliIo): string {
  const workload = caller?.workload ?? 'ID';
  const give = hasUnusedToken(caller, io)
    ? `${WORKLOAD_TOKEN_VARIABLE} is set, and --workload ID says of which workload it is`
    : `--workload ${workload} --token-file FILE, or ${WORKLOAD_TOKEN_VARIABLE}, gives it`;
  switch (needs as TriedCaller['needs']) {
    case 'registration':
      return `; gw workloads put --workload-id ${workload} registers it`;
    case 'api_key':
      return `; an operator makes a key (${TOKEN_GUIDE}), and ${give}`;
    default:
      // Others may use the older one, and are not let in from then on.
      return `; gw workloads token ${workload} makes one (which ends an older one: ${TOKEN_GUIDE}), and ${give}`;
  }
}
