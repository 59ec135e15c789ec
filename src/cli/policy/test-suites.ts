import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { callMeaning } from '../../policy-tools/given-request.ts';
import { paintFor, renderProblem } from '../../policy-tools/render-problem.ts';
import { junitXml, renderSuite } from '../../policy-tools/render-suite.ts';
import { nameOf, runSuite, type SuiteReport } from '../../policy-tools/run-suite.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, EXIT_USAGE, UsageError } from '../command.ts';
import { printJsonDocument, terminalText } from '../terminal-text.ts';
import { policyOptions, policySettings, readOptions, surroundingsOf, unreadable } from './policy-target.ts';
import { type LoadedSuite, loadSuites } from './suites.ts';

/** Runs request fixtures through a policy and compares its decisions with what is expected. */
export const testSuites: Command = {
  name: 'policy test',
  usage: '[SUITE…] [--policies PATH] [--pricing FILE] [--junit FILE] [--strict] [--json]',
  summary:
    'Runs suites of test cases (default tests/ of the policies folder); exit code 1 for a failed case, with --strict also for a rule that never matched.',
  run: runTests,
};

async function runTests(args: readonly string[], io: CliIo): Promise<number> {
  const { values, paths } = readOptions(args, {
    policies: 'string',
    pricing: 'string',
    junit: 'string',
    strict: 'boolean',
    json: 'boolean',
  });
  const meaning = callMeaning(surroundingsOf(io, values.pricing));
  const suites = await loadSuites(paths.length === 0 ? [defaultFolder(io)] : paths, values.policies, meaning);
  const mistakes = suites.filter(({ errors }) => errors.length > 0);
  if (mistakes.length > 0) return showMistakes(mistakes, io);
  const options = policyOptions();
  const reports = suites.flatMap(({ file, suite, named }) => (suite === undefined ? [] : [runSuite(file.file, suite, named, options)]));
  if (values.junit !== undefined) await write(values.junit, junitXml(reports));
  if (values.json === true) printJsonDocument(asJson(reports), io);
  else io.stdout(asText(reports, io));
  const failed = reports.some(({ results }) => results.some(({ mismatches }) => mismatches.length > 0));
  const unused = reports.some(({ coverage }) => coverage.neverMatched.length > 0);
  return failed || (values.strict === true && unused) ? EXIT_NO : EXIT_OK;
}

function defaultFolder(io: CliIo): string {
  const folder = join(policySettings(io, undefined).dir, 'tests');
  if (!existsSync(folder)) throw new UsageError(`name a suite; there is no folder ${folder}, where they are looked for by default`);
  return folder;
}

/** A suite that cannot be read proves nothing, so no case of any runs. */
function showMistakes(suites: readonly LoadedSuite[], io: CliIo): number {
  const paint = paintFor(io.colours);
  for (const { file, errors } of suites) {
    for (const problem of errors) io.stdout(`${renderProblem(problem, 'error', file.text, paint)}\n`);
  }
  io.stderr(`gw policy test: ${suites.map(({ file }) => terminalText(file.file)).join(', ')}: not a suite of test cases\n`);
  return EXIT_USAGE;
}

function asText(reports: readonly SuiteReport[], io: CliIo): string {
  const paint = paintFor(io.colours);
  return reports.map((report) => renderSuite(report, paint)).join('');
}

function asJson(reports: readonly SuiteReport[]): unknown {
  return {
    suites: reports.map(({ file, results, coverage }) => ({
      file,
      cases: results.map(({ name, line, mismatches }) => ({ name, line, passed: mismatches.length === 0, mismatches })),
      coverage: {
        rules: coverage.rules,
        never_matched: coverage.neverMatched.map((rule) => ({ rule: nameOf(rule), file: rule.file, line: rule.line })),
      },
    })),
  };
}

async function write(path: string, text: string): Promise<void> {
  try {
    await writeFile(path, text);
  } catch (error) {
    throw unreadable(path, error);
  }
}
