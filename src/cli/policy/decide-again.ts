import { existsSync } from 'node:fs';
import { type DecisionReplay, renderReplay, replayDecision } from '../../policy-tools/decision-replay.ts';
import { paintFor } from '../../policy-tools/render-problem.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, EXIT_USAGE, UsageError } from '../command.ts';
import { wholeRecord } from '../record-texts.ts';
import { printJsonDocument } from '../terminal-text.ts';
import { fetchRecord, judgedRecord } from './judged-record.ts';
import { readDocument, readOptions } from './policy-target.ts';

/** Decides one recorded call again. */
export const decideAgain: Command = {
  name: 'replay',
  usage: '<RECORD> [--policies FOLDER] [--url URL] [--json]',
  summary:
    'Decides one recorded call again, then and now, rule by rule: RECORD is an id of the running gateway, which its own policy judges, or a file (- for standard input), which that of GW_POLICIES_DIR does, unless --policies names another. Exit code 1 when the decision is another, 2 when it cannot be said.',
  run: runDecideAgain,
};

async function runDecideAgain(args: readonly string[], io: CliIo): Promise<number> {
  const { values, paths } = readOptions(args, { policies: 'string', url: 'string', json: 'boolean' });
  const [given] = paths;
  if (given === undefined || paths.length > 1) throw new UsageError('give one record: its id, a file, or - for standard input');
  const told = await decidedAgain(given, values, io);
  if (values.json === true) printJsonDocument(told, io);
  else io.stdout(renderReplay(told, paintFor(io.colours)));
  if (told.same === null) return EXIT_USAGE;
  return told.same ? EXIT_OK : EXIT_NO;
}

async function decidedAgain(
  given: string,
  values: { readonly policies?: string; readonly url?: string },
  io: CliIo,
): Promise<DecisionReplay> {
  const { policies, url } = values;
  const isText = isFile(given);
  if (isText && url !== undefined) throw new UsageError('--url is of a gateway, which a record in a file needs none of');
  const record = isText ? wholeRecord(await readDocument(given, io)) : await fetchRecord(given, url, io, 'gw replay');
  const { policy, request, contentHash } = await judgedRecord(record, { policies, gateway: isText ? undefined : { url } }, io);
  return replayDecision(policy, request, { contentHash });
}

/** No id has a dot or a slash in it, so that a file that is not there is told as one. */
function isFile(given: string): boolean {
  return given === '-' || /[./\\]/.test(given) || existsSync(given);
}
