import { BUNDLE_SCHEMA, RULE_FILE_SCHEMA } from '../../decide/policy/bundle.ts';
import { compilePolicy } from '../../decide/policy/compile.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import { SUITE_SCHEMA } from '../../decide/policy/suite.ts';
import { emptyBuckets, inputOf } from '../../decide/policy/suite-case.ts';
import { type Explanation, explain, explainRecorded } from '../../policy-tools/explain.ts';
import { callMeaning, factsOfRequest } from '../../policy-tools/given-request.ts';
import { isExecutionRecord } from '../../policy-tools/recorded-request.ts';
import { renderExplanation } from '../../policy-tools/render-explanation.ts';
import { paintFor } from '../../policy-tools/render-problem.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from '../command.ts';
import { expectWhole } from '../record-texts.ts';
import { printJsonDocument, terminalText } from '../terminal-text.ts';
import { fetchRecord, judgedRecord } from './judged-record.ts';
import {
  type Document,
  loadPolicy,
  parseMap,
  policyOptions,
  policySettings,
  readDocument,
  readOptions,
  surroundingsOf,
  UnreadablePath,
} from './policy-target.ts';
import { loadSuites } from './suites.ts';

/** Says of every rule why it took part in a decision or not. */
export const explainDecision: Command = {
  name: 'policy explain',
  usage: '<REQUEST | SUITE --case NAME | --record ID [--url URL]> [--policies PATH] [--pricing FILE] [--json]',
  summary:
    'Says of every rule why it took part in a decision or not: for a request (fields or an ActionRequest, - for standard input), a case, or a record, which the policy of its gateway judges, with the overlays of its org, unless --policies names another.',
  run: runExplain,
};

interface Options {
  readonly policies?: string;
  readonly pricing?: string;
  readonly case?: string;
  readonly record?: string;
  readonly url?: string;
}

async function runExplain(args: readonly string[], io: CliIo): Promise<number> {
  const { values, paths } = readOptions(args, {
    policies: 'string',
    pricing: 'string',
    case: 'string',
    record: 'string',
    url: 'string',
    json: 'boolean',
  });
  const [path] = paths;
  if (paths.length > 1 || (path === undefined) === (values.record === undefined)) throw new UsageError('give one request, or --record ID');
  const explanation = await explained(path, values, io);
  if (values.json === true) printJsonDocument(explanation, io);
  else io.stdout(renderExplanation(explanation, paintFor(io.colours)));
  return EXIT_OK;
}

async function explained(path: string | undefined, values: Options, io: CliIo): Promise<Explanation> {
  if (values.record !== undefined) return explainRecord(await fetchRecord(values.record, values.url, io, 'gw policy explain'), values, io);
  const document = await readDocument(path ?? '-', io);
  const given = parseMap(document);
  if (isExecutionRecord(given)) return explainRecord(expectWhole(given, document.name), values, io);
  if (given['schema'] === SUITE_SCHEMA) return explainCase(document, values, io);
  if (given['schema'] === BUNDLE_SCHEMA || given['schema'] === RULE_FILE_SCHEMA) {
    throw new UsageError(`${document.name} is a policy: give it with --policies, and a request to decide`);
  }
  const { facts, mistakes, costAfter } = factsOfRequest(given, surroundingsOf(io, values.pricing));
  if (mistakes.length > 0) {
    const lines = mistakes.map(
      ({ path: at, message, hint }) => `  ${terminalText(`${at}: ${message}${hint === undefined ? '' : ` (${hint})`}`)}`,
    );
    throw new UnreadablePath(`${document.name} is not a request that rules can be asked about:\n${lines.join('\n')}`);
  }
  return explain(await policyFor(values, io), facts, { costAfter });
}

async function explainRecord(record: Readonly<Record<string, unknown>>, values: Options, io: CliIo): Promise<Explanation> {
  const { policies, pricing, record: id, url } = values;
  const judged = await judgedRecord(record, { policies, pricing, gateway: id === undefined ? undefined : { url } }, io);
  return explainRecorded(judged.policy, judged.request, judged);
}

async function explainCase(document: Document, values: Options, io: CliIo): Promise<Explanation> {
  const [loaded] = await loadSuites([document.name], values.policies, callMeaning(surroundingsOf(io, values.pricing)));
  if (loaded?.suite === undefined) throw new UnreadablePath(`${document.name}: the suite has mistakes; gw policy test shows them`);
  const names = loaded.suite.cases.map(({ name }) => name);
  const one = loaded.suite.cases.find(({ name }) => name === values.case);
  if (one === undefined)
    throw new UsageError(`--case takes the name of a case of ${document.name}: ${names.map((name) => JSON.stringify(name)).join(', ')}`);
  const { policy, errors } = compilePolicy(inputOf(one, loaded.named), { ...policyOptions(), allowUnsupported: one.unsupported ?? false });
  if (policy === undefined)
    throw new UnreadablePath(`the policy of this case does not load: ${errors.map(({ message }) => message).join('; ')}`);
  const { facts, costAfter, spentPico } = one;
  return explain(policy, facts, { rateLimited: emptyBuckets(one), costAfter, spentPico });
}

async function policyFor({ policies }: Options, io: CliIo): Promise<CompiledPolicy> {
  const { dir, tier } = policySettings(io, undefined);
  return loadPolicy(policies ?? dir, tier);
}
