import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import type { Facts } from '../../decide/policy/facts.ts';
import { PolicyComparison, renderDiff } from '../../policy-tools/diff.ts';
import { readCall } from '../../policy-tools/given-request.ts';
import { paintFor } from '../../policy-tools/render-problem.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, UsageError } from '../command.ts';
import { recordTexts, wholeRecord } from '../record-texts.ts';
import { printJsonDocument } from '../terminal-text.ts';
import type { Document } from './policy-target.ts';
import { compiledTarget, policySettings, readOptions, readTarget, surroundingsOf } from './policy-target.ts';

/** Says what another policy would have decided about calls that were recorded. */
export const diffPolicies: Command = {
  name: 'policy diff',
  usage: '<OLD> <NEW> <--records FILE | --data FOLDER> [--last N] [--json]',
  summary:
    'Replays records (a file with one a line, - for standard input, or the data folder of a stopped gateway) against two policies; exit code 1 when something would change.',
  run: runDiff,
};

async function runDiff(args: readonly string[], io: CliIo): Promise<number> {
  const { values, paths } = readOptions(args, { records: 'string', data: 'string', last: 'string', json: 'boolean' });
  const [before, after] = paths;
  if (before === undefined || after === undefined || paths.length > 2)
    throw new UsageError('give two policies: folders, bundles or rule files');
  const last = values.last === undefined ? Number.POSITIVE_INFINITY : Number(values.last);
  if (!(last >= 1)) throw new UsageError('--last takes a number of records');
  const { tier } = policySettings(io, undefined);
  const { catalogue } = surroundingsOf(io, undefined);
  const readingOf = (facts: Facts) => readCall(facts, true, catalogue);
  const [old, next] = [await readTarget(before, tier), await readTarget(after, tier)];
  const [oldPolicy, newPolicy] = [compiledTarget(old), compiledTarget(next)];
  const hashOf = (policy: CompiledPolicy) => (policy === oldPolicy ? old : next).contentHash;
  const comparison = new PolicyComparison(oldPolicy, newPolicy, readingOf, hashOf);
  await replayAll(recordTexts(values, io), last, comparison);
  const diff = comparison.result();
  if (values.json === true) printJsonDocument(diff, io);
  else io.stdout(renderDiff(diff, paintFor(io.colours)));
  return diff.changed === 0 ? EXIT_OK : EXIT_NO;
}

async function replayAll(texts: AsyncIterable<Document>, last: number, comparison: PolicyComparison): Promise<void> {
  let left = last;
  for await (const document of texts) {
    comparison.add(wholeRecord(document));
    left--;
    if (left === 0) return;
  }
}
