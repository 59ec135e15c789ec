import { AmbiguousJsonError, unambiguousJson } from '../../base/json/unambiguous-json.ts';
import { bracketHost } from '../../base/lib/host.ts';
import { type WebAddress, withPathEnd } from '../../base/lib/web-address.ts';
import { LedgerError } from '../../ledger/ledger-error.ts';
import { type NamedLogEntry, readLogAnswer } from '../../ledger/log-entry.ts';
import type { ProposedRoot } from '../../ledger/root-entry.ts';
import type { Fetching, GetAnswer, PostWithAnswer } from './way-out.ts';

const OK = 200;
const CREATED = 201;
const CONFLICT = 409;
/** By these a log says that it takes this entry never, whoever asks again. */
const REFUSALS: readonly number[] = [400, 413, 422];
/** An entry with its proof has a few thousand bytes. */
const MAX_BYTES = 64 * 1024;
const TIMEOUT_MS = 15_000;
const HEADERS = ['content-type', 'application/json', 'accept', 'application/json'];
const ENTRIES = '/api/v1/log/entries';
/** What a log says of an error is a stranger's, and one line of the log here. */
const MOST_WORDS = 200;

/** Enters a root in a log, or fetches the entry that is there already. */
export type EnterInLog = (proposed: ProposedRoot, signal: AbortSignal) => Promise<NamedLogEntry>;

/**
 * One POST for each root, and a GET where the log says that it has that entry (Rekor's API, version 1); no redirect is
 * followed. It rejects with LedgerError for what concerns this root alone, with another Error that says what came back,
 * and with GatewayError as every way out.
 */
export function enterInLog(door: PostWithAnswer & Fetching, to: WebAddress): EnterInLog {
  const at = withPathEnd(to, ENTRIES);
  const said = (answer: GetAnswer) => `${bracketHost(to.authority.host)} answered ${answer.status}${wordsIn(answer)}: CP_REKOR_URL`;
  return async ({ proposal, leaf }, signal) => {
    const sent = { headers: HEADERS, maxBytes: MAX_BYTES, timeoutMs: TIMEOUT_MS, signal };
    let answer = await door.ask({ ...sent, to: at, body: proposal });
    if (REFUSALS.includes(answer.status)) throw new LedgerError(said(answer));
    if (answer.status === CONFLICT) {
      const uuid = uuidIn(answer.headers.get('location'), leaf);
      answer = await door.get({ ...sent, to: withPathEnd(at, `/${uuid}`) });
    } else if (answer.status !== CREATED) throw new Error(said(answer));
    if (answer.status !== CREATED && answer.status !== OK) throw new Error(said(answer));
    return readLogAnswer(jsonIn(answer));
  };
}

/** Where the entry is: of what the log says only the name is taken, and only one of this entry. */
function uuidIn(location: string | undefined, leaf: string): string {
  const [uuid] = /[0-9a-f]{64,80}(?=\/?(?:[?#].*)?$)/.exec(location?.toLowerCase() ?? '') ?? [];
  if (uuid?.endsWith(leaf) === true) return uuid;
  throw new LedgerError('log entry: the log has it already, and does not say where (409 without its Location)');
}

function jsonIn({ body }: GetAnswer): unknown {
  try {
    return unambiguousJson(body);
  } catch (error) {
    if (error instanceof AmbiguousJsonError) throw new LedgerError(`log entry: ${error.message}`, { cause: error });
    throw error;
  }
}

/** `message` of an error of the log, where it has one. */
function wordsIn({ body }: GetAnswer): string {
  const [, message] = /"message"\s*:\s*"((?:[^"\\]|\\.){1,400})"/.exec(Buffer.from(body).toString('utf8')) ?? [];
  return message === undefined ? '' : ` (${message.replaceAll(/\p{Cc}/gu, ' ').slice(0, MOST_WORDS)})`;
}
