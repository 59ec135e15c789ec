import { canonicalConnectorId } from '../../base/catalogue/connector-id.ts';
import { isJsonObject } from '../../base/json/json-object.ts';
import { type Clock, parseDate, parseDuration, parseTime, systemClock } from '../../base/lib/clock.ts';
import { parseIp } from '../../base/lib/ip.ts';
import { type Paint, paintFor } from '../../policy-tools/render-problem.ts';
import { badValue, parseWithWords } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from '../command.ts';
import { untilStopped } from '../demo/until-stopped.ts';
import { URL_OPTION } from '../gateway-client.ts';
import { columnNames } from '../management/table-cells.ts';
import { COST_MARKS } from '../money/money-table.ts';
import { printJson, terminalText } from '../terminal-text.ts';
import { callOfLogLine, callOfRecord, type SeenCall } from './call-line.ts';
import { type CallTable, type CallView, callTable } from './call-table.ts';
import { followCalls } from './follow-calls.ts';

const USUAL = 20;
const DAY_MS = 86_400_000;
const EVERY_MS = 1_000;

const OPTIONS = {
  follow: { type: 'boolean' },
  decision: { type: 'string' },
  workload: { type: 'string' },
  provider: { type: 'string' },
  model: { type: 'string' },
  reason: { type: 'string' },
  caller: { type: 'string' },
  'caller-ip': { type: 'string' },
  since: { type: 'string' },
  limit: { type: 'string' },
  json: { type: 'boolean' },
  whole: { type: 'boolean' },
  wide: { type: 'boolean' },
  columns: { type: 'string' },
  org: { type: 'string' },
  key: { type: 'string' },
  ...URL_OPTION,
} as const;

type Options = ReturnType<typeof parseWithWords<typeof OPTIONS>>['values'];

/** Prints the calls of a running gateway, or of its log, as one readable line each. */
export const logs: Command = {
  name: 'logs',
  usage:
    '[--follow] [--decision allow|downgrade|rate_limit|require_approval|require_attribution|deny|quarantine|error] [--workload ID] [--provider NAME] [--model NAME] [--reason CODE] [--caller ID] [--caller-ip ADDRESS] [--since 1h|TIME] [--limit N] [--json] [--whole] [--wide] [--columns NAME,…] [--url http://HOST:PORT] [--key mgk_…] [--org ID] [-]',
  summary: 'Prints the last calls as one line each, and with --follow those that come; -: from the log on standard input.',
  help: `
  --follow     goes on until Ctrl-C, also over a restart of the gateway
  --decision   allow is also what was downgraded, deny every refusal
  --model      a part of its name
  --reason     one of its reason codes, such as default_deny
  --caller     who calls, as the caller says it
  --caller-ip  the address that it comes from
  --since      a duration such as 15m or 2h, a time, or a day (of UTC); default: the last 24 hours
  --limit      of the calls that are there already, the newest (default ${USUAL})
  --json       the records, one a line, without what policy saw of them
  --whole      the records as they were hashed, for gw verify and gw policy diff
  --wide       every column, whole: also caller, door, provider, status, tokens in and out, and how long it took
  --columns    those alone, such as time,who,path,reason
  -            reads lines of the gateway's log: journalctl -u ai-request-gateway -o cat | gw logs -

  ${COST_MARKS}
`,
  run: (args, io) => printCalls(args, io, systemClock),
};

async function printCalls(args: readonly string[], io: CliIo, clock: Clock): Promise<number> {
  const { values, words } = parseWithWords(args, OPTIONS, 1);
  const [word] = words;
  if (word !== undefined && word !== '-')
    throw new UsageError(
      `it takes no "${terminalText(word)}": - is standard input, gw records read ID shows one call, and gw records explain ID says why it was decided so`,
    );
  if (values.whole === true && (values.json !== true || word === '-'))
    throw new UsageError('--whole goes with --json, and not with the lines of a log');
  const most = limitOf(values);
  const since = sinceOf(values.since, clock.now());
  if (word === '-') await fromLog(values, values.since === undefined ? 0 : since, io, clock);
  else await fromGateway(values, { most, since }, io, clock);
  return EXIT_OK;
}

function limitOf({ limit }: Options): number {
  const most = limit === undefined ? USUAL : Number(limit);
  if (!Number.isInteger(most) || most < 1 || most > 100_000) throw badValue('--limit', 'a whole number from 1 to 100000', limit ?? '');
  return most;
}

function sinceOf(text: string | undefined, now: number): number {
  if (text === undefined) return now - DAY_MS;
  const duration = parseDuration(text);
  if (duration !== undefined) return now - duration;
  const time = parseDate(text) ?? parseTime(text);
  if (time === undefined)
    throw badValue('--since', 'a duration such as 15m, a time such as 2026-11-22T05:00:00Z, or a day such as 2026-11-22 (UTC)', text);
  return time;
}

async function fromGateway(
  values: Options,
  { most, since }: { readonly most: number; readonly since: number },
  io: CliIo,
  clock: Clock,
): Promise<void> {
  const { follow = false, json = false, whole, url, key, org, decision, workload, provider, model } = values;
  const given = Object.entries({
    decision,
    workload_id: workload,
    provider,
    model,
    ...whoAndWhy(values),
    whole: whole === true ? 'true' : undefined,
  });
  const filters = Object.fromEntries(given.filter((entry): entry is [string, string] => entry[1] !== undefined));
  // The operations are loaded by the commands that need them alone.
  const { RecordSource } = await import('./record-source.ts');
  const source = new RecordSource({ url, key, org }, filters, io, clock);
  const paint = paintFor(io.colours);
  const stop = new AbortController();
  if (follow) void untilStopped().then(() => stop.abort());
  const view = viewOf(values, io, clock);
  const once = !follow;
  // What is there already has columns that fit it; what comes has columns of usual widths.
  const calls: SeenCall[] = [];
  const table = once ? undefined : headed(callTable(view), io, paint, json);
  const show = (call: SeenCall) => (table === undefined ? void calls.push(call) : io.stdout(`${table.line(call, paint)}\n`));
  try {
    await followCalls((from) => source.newestFirst(from), {
      clock,
      everyMs: EVERY_MS,
      first: most,
      since,
      signal: stop.signal,
      tell: (record) => {
        if (json) printJson(record, io);
        else show(callOfRecord(record));
        return io.written?.();
      },
      onGap: (problem) =>
        io.stderr(`gw logs: ${problem === undefined ? 'the gateway answers again' : `${terminalText(problem)}; waiting for it`}\n`),
      once,
    });
    if (once && !json) printTable(calls, view, io, paint);
  } finally {
    await source.close();
  }
}

function viewOf({ wide, columns }: Options, io: CliIo, clock: Clock): CallView {
  return { width: io.columns, wide: wide === true, columns: columnNames(columns), now: () => clock.now() };
}

/** A heading is for people: a program has lines alone. */
function headed(table: CallTable, io: CliIo, paint: Paint, json: boolean): CallTable {
  if (!json && io.columns !== undefined) io.stdout(`${paint.dim(table.heading)}\n`);
  return table;
}

function printTable(calls: readonly SeenCall[], view: CallView, io: CliIo, paint: Paint): void {
  if (calls.length === 0 && io.columns !== undefined)
    io.stderr('gw logs: there are no calls that fit (without --since: of the last 24 hours)\n');
  if (calls.length === 0) return;
  const table = headed(callTable(view, calls), io, paint, false);
  for (const call of calls) io.stdout(`${table.line(call, paint)}\n`);
}

/**
 * Lines that tell of something else, and those that are no JSON, are passed over: what comes from a journal may begin
 * in the middle of one.
 */
async function fromLog(values: Options, since: number, io: CliIo, clock: Clock): Promise<void> {
  const paint = paintFor(io.colours);
  const asked = await asGatewayReads(values);
  const table = headed(callTable(viewOf(values, io, clock)), io, paint, values.json === true);
  for await (const line of io.stdinLines?.() ?? []) {
    const found = objectIn(line);
    const call = found && callOfLogLine(found);
    if (found === undefined || call === undefined || !isAsked(call, asked, since) || !hasAll(found, whoAndWhy(asked))) continue;
    if (values.json === true) printJson(found, io);
    else io.stdout(`${table.line(call, paint)}\n`);
    await io.written?.();
  }
}

function objectIn(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Names and words as the gateway's own list reads them (decisions 1, 8.15). The registry is read where a provider is
 * named alone.
 */
async function asGatewayReads({ provider, decision, 'caller-ip': ip, ...values }: Options): Promise<Options> {
  let id = provider;
  if (provider !== undefined) {
    const { loadCatalogue } = await import('../../base/catalogue/catalogue.ts');
    id = canonicalConnectorId(loadCatalogue(), provider) ?? provider.toLowerCase();
  }
  return {
    ...values,
    ...(id === undefined ? {} : { provider: id }),
    ...(decision === undefined ? {} : { decision: decision.toLowerCase() }),
    ...(ip === undefined ? {} : { 'caller-ip': parseIp(ip)?.text ?? ip }),
  };
}

/** By the names that these have in the gateway's own list. */
function whoAndWhy({ reason, caller, 'caller-ip': ip }: Options) {
  return { reason_code: reason, caller_id: caller, caller_ip: ip };
}

/** Whether a line of the log has what is asked for. */
function hasAll(
  line: Readonly<Record<string, unknown>>,
  { reason_code: code, caller_id: id, caller_ip: ip }: ReturnType<typeof whoAndWhy>,
): boolean {
  const { reason_codes: codes, reason } = line;
  return (
    (code === undefined || code === reason || (Array.isArray(codes) && codes.includes(code))) &&
    (id === undefined || line['caller_id'] === id) &&
    (ip === undefined || line['caller_ip'] === ip)
  );
}

/** As the gateway's own list narrows (decision 8.10). */
function isAsked(call: SeenCall, { decision, workload, provider, model }: Options, since: number): boolean {
  const permitted = ['allow', 'downgrade'].includes(call.decision);
  const decided =
    decision === undefined ||
    call.decision === decision ||
    (decision === 'allow' && permitted) ||
    (decision === 'deny' && !permitted && call.decision !== 'error');
  return (
    decided &&
    (workload === undefined || call.workload === workload) &&
    (provider === undefined || call.provider === provider) &&
    (model === undefined || call.model.includes(model) || call.model.includes(model.toLowerCase())) &&
    (parseTime(call.at) ?? since) >= since
  );
}
