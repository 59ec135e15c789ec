import { isJsonObject } from '../../base/json/json-object.ts';
import { type Clock, systemClock } from '../../base/lib/clock.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { paintFor } from '../../policy-tools/render-problem.ts';
import { checkRecord } from '../../record/verify-record.ts';
import { parseOptions } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, Unusable } from '../command.ts';
import { callOfRecord } from '../logs/call-line.ts';
import { callTable } from '../logs/call-table.ts';
import { plural } from '../prices/price-update.ts';
import { isShown } from '../standard-output.ts';
import { JSON_OPTION, printJson, terminalLines, terminalText } from '../terminal-text.ts';
import type { DemoCall } from './demo-calls.ts';
import type { DemoPlace } from './demo-place.ts';
import { ask } from './demo-requests.ts';
import { endText, findingSettings, keptText } from './demo-text.ts';
import { untilStopped } from './until-stopped.ts';

const OPTIONS = { keep: { type: 'boolean' }, dir: { type: 'string' }, ...JSON_OPTION } as const;

/** Shows on this machine alone, and without a key, what the gateway does. */
export const demo: Command = {
  name: 'demo',
  usage: '[--keep] [--dir FOLDER] [--json]',
  summary: 'Shows it all on this machine: a stand-in for providers, a gateway, a call through each door. No key, no cost.',
  help: `
  --keep   stays running, so that programs can be pointed at it, until Ctrl-C
  --dir    keeps its records, root and policy in FOLDER; else they are in a temporary folder that is removed at the end
  --json   how it is found, the records of its calls and the domains, as one object and without the rest

Exit code: 0 when all went as it says, 1 when something did not.
`,
  async run(args, io) {
    const { keep = false, dir, json = false } = parseOptions(args, OPTIONS);
    const stopped = keep ? untilStopped() : undefined;
    // The gateway is loaded by what starts one alone.
    const [{ DEMO_CALLS }, { openDemo }] = await Promise.all([import('./demo-calls.ts'), import('./demo-place.ts')]);
    let place: DemoPlace;
    try {
      place = await openDemo(systemClock, dir);
    } catch (error) {
      throw new Unusable(messageOf(error), { cause: error });
    }
    try {
      const shown = await show(place, DEMO_CALLS, json ? { ...io, stdout: () => undefined } : io, systemClock);
      if (shown === undefined) return EXIT_NO;
      const gw = io.program ?? 'gw';
      if (json) printJson({ url: place.url, root_file: place.rootFile, settings: findingSettings(place), ...shown }, io);
      else io.stdout(keep ? keptText(place, gw) : endText(gw));
      await isShown(io);
      await stopped;
      return EXIT_OK;
    } finally {
      await place.close();
    }
  },
};

interface Made {
  readonly call: DemoCall;
  readonly record: Readonly<Record<string, unknown>>;
  readonly recordText: string;
  readonly answer: string;
}

/** What a newcomer is shown of a call. */
const COLUMNS = ['decision', 'who', 'door', 'model', 'status', 'cost', 'id'];

interface Shown {
  readonly records: readonly object[];
  readonly domains: readonly object[];
}

/** @returns undefined when something did not go as it should, which is said then */
async function show(place: DemoPlace, calls: readonly DemoCall[], io: CliIo, clock: Clock): Promise<Shown | undefined> {
  const paint = paintFor(io.colours);
  io.stdout(`A gateway at ${paint.bold(place.url)}, and a stand-in for OpenAI, Anthropic and Google behind it.\n`);
  io.stdout('Both are on this machine: no key, no cost, nothing leaves it.\n\n');
  const table = callTable({ width: io.columns, usual: COLUMNS, now: () => clock.now() });
  io.stdout(`${paint.dim(table.heading)}\n`);
  const made: Made[] = [];
  for (const call of calls) {
    const done = await makeCall(place, call, clock);
    if (typeof done === 'string') {
      io.stderr(`gw demo: ${call.title}: ${terminalLines(done)}\n`);
      return undefined;
    }
    made.push(done);
    io.stdout(`${table.line(callOfRecord(done.record), paint)}\n  ${paint.dim(call.title)}\n`);
  }
  const denied = made.find(({ call }) => call.decision === 'deny');
  const [first] = made;
  io.stdout(`\nWhat the program sees that was refused, in the form of its own provider's errors:\n  ${explanation(denied?.answer)}\n`);
  if (first === undefined || !showRecord(first, io)) return undefined;
  const domains = await showDomains(place, io);
  return domains && { records: made.map(({ record }) => record), domains };
}

/** @returns what is wrong, in words, when it did not go as it should */
async function makeCall(place: DemoPlace, call: DemoCall, clock: Clock): Promise<Made | string> {
  const answer = await call.send(place).catch(messageOf);
  if (typeof answer === 'string') return answer;
  if (!call.isRight(answer)) return `an unexpected answer, ${answer.status} ${answer.text.slice(0, 500)}`;
  const id = answer.headers['x-gw-record-id'];
  if (typeof id !== 'string') return 'the answer has no X-GW-Record-ID';
  const recordText = await recordOf(place, id, clock);
  const record: unknown = recordText === undefined ? undefined : JSON.parse(recordText);
  if (recordText === undefined || !isJsonObject(record)) return `there is no record ${id}`;
  if (record['decision'] !== call.decision) return `decided ${String(record['decision'])}, not ${call.decision}`;
  return { call, record, recordText, answer: answer.text };
}

/** That of a stream is stored with its last byte, which is what a client sees first. */
async function recordOf(place: DemoPlace, id: string, clock: Clock): Promise<string | undefined> {
  for (let tries = 0; tries < 50; tries += 1) {
    const { status, text } = await ask({ url: `${place.url}/v1/records/${id}`, headers: { 'GW-Admin-Token': place.adminToken } });
    if (status === 200) return text;
    await new Promise<void>((resolve) => void clock.after(100, resolve));
  }
  return undefined;
}

function explanation(text = ''): string {
  const answer: unknown = JSON.parse(text);
  const error = isJsonObject(answer) ? answer['error'] : undefined;
  return terminalText(isJsonObject(error) ? String(error['message']) : text);
}

function showRecord({ record, recordText }: Made, io: CliIo): boolean {
  const { stored, computed, recordId } = checkRecord(Buffer.from(recordText));
  const { decision, provider, model, metering, policy_trace: trace, request_sha256: hash } = record;
  const rules = isJsonObject(trace) ? trace['matched_rule_ids'] : [];
  const shown = { decision, provider, model, matched_rule_ids: rules, metering, request_sha256: hash };
  const lines = Object.entries(shown).map(([name, value]) => `  ${name.padEnd(16)} ${terminalText(JSON.stringify(value) ?? '')}`);
  io.stdout(`\nSome of the record of the first call; no prompt and no answer is ever in one:\n${lines.join('\n')}\n`);
  if (stored !== computed) {
    io.stderr(`gw demo: the record ${recordId} does not verify\n`);
    return false;
  }
  io.stdout(`  verified         ${stored}, as gw verify recomputes it\n`);
  return true;
}

async function showDomains(place: DemoPlace, io: CliIo): Promise<readonly object[] | undefined> {
  const { status, text } = await ask({ url: `${place.url}/v1/admin/discovery/domains`, headers: { 'GW-Admin-Token': place.adminToken } });
  const answer: unknown = status === 200 ? JSON.parse(text) : undefined;
  const domains = isJsonObject(answer) && Array.isArray(answer['domains']) ? answer['domains'].filter(isJsonObject) : [];
  if (domains.length === 0) {
    io.stderr('gw demo: the gateway has seen no domain\n');
    return undefined;
  }
  io.stdout('\nDomains that it has seen:\n');
  for (const { domain, requests, vendor } of domains)
    io.stdout(
      `  ${terminalText(String(domain)).padEnd(28)} ${plural(Number(requests), 'request').padEnd(12)}  ${terminalText(String(vendor ?? ''))}\n`,
    );
  return domains;
}
