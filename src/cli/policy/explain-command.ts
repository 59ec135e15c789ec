import { systemClock } from '../../base/lib/clock.ts';
import { BUNDLE_SCHEMA, RULE_FILE_SCHEMA } from '../../decide/policy/bundle.ts';
import { compilePolicy } from '../../decide/policy/compile.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import { SUITE_SCHEMA } from '../../decide/policy/suite.ts';
import { emptyBuckets, inputOf } from '../../decide/policy/suite-case.ts';
import { type Explanation, explain, explainRecorded } from '../../policy-tools/explain.ts';
import { callMeaning, factsOfRequest, readCall } from '../../policy-tools/given-request.ts';
import { isExecutionRecord, recordedRequest } from '../../policy-tools/recorded-request.ts';
import { renderExplanation } from '../../policy-tools/render-explanation.ts';
import { paintFor } from '../../policy-tools/render-problem.ts';
import { type CliIo, type Command, EXIT_OK, GatewayRefusal, UsageError } from '../command.ts';
import { GatewayClient } from '../gateway-client.ts';
import { isUuid } from '../management/table-cells.ts';
import { expectWhole } from '../record-texts.ts';
import { printJsonDocument, terminalText } from '../terminal-text.ts';
import {
  compiledTarget,
  type Document,
  gatewayPolicy,
  loadPolicy,
  parseJsonMap,
  parseMap,
  policyOptions,
  policySettings,
  readDocument,
  readOptions,
  readTarget,
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
  if (values.record !== undefined) return explainRecord(parseJsonMap(await fetchRecord(values.record, values.url, io)), values, io);
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
  const { policy, contentHash } = await judgeOf(record, values, io);
  const { catalogue } = surroundingsOf(io, values.pricing);
  const request = recordedRequest(
    record,
    [policy],
    (facts) => readCall(facts, true, catalogue),
    () => contentHash,
  );
  if (request === undefined) throw new UnreadablePath('policy was not asked about the call of this record');
  return explainRecorded(policy, request, { contentHash });
}

/**
 * The policy of `--policies`; of a record that is asked of a gateway that gateway's own, as the org of the record is
 * judged by it; else that of `GW_POLICIES_DIR`.
 */
async function judgeOf(
  record: Readonly<Record<string, unknown>>,
  { policies, record: id, url }: Options,
  io: CliIo,
): Promise<{ readonly policy: CompiledPolicy; readonly contentHash: string | undefined }> {
  const { dir, tier } = policySettings(io, undefined);
  const isAsked = policies === undefined && id !== undefined;
  const target = isAsked ? await gatewayPolicy(String(record['org_id']), url, io) : await readTarget(policies ?? dir, tier);
  return { policy: compiledTarget(target), contentHash: target.contentHash };
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

const RECORD_ID = /^[\x21-\x7e]{1,128}$/;

/**
 * A record of a running gateway.
 * @param id its beginning or end will do @param url of the gateway; default: where a gateway with the same settings
 * listens
 * @throws UnreadablePath when it has no such record; Unusable when it does not answer
 */
async function fetchRecord(id: string, url: string | undefined, io: CliIo): Promise<Document> {
  if (!RECORD_ID.test(id)) throw new UsageError('--record takes the id of a record, as X-GW-Record-ID names it');
  const gateway = await GatewayClient.open(url, io);
  const read = (whole: string) => gateway.text('GET', `/v1/records/${encodeURIComponent(whole)}`);
  try {
    return { name: `record ${id}`, text: await read(isUuid(id) ? id : ((await wholeRecordId(id, url, io)) ?? id)) };
  } catch (error) {
    if (!(error instanceof GatewayRefusal)) throw error;
    const said = error.status === 404 ? `has no record ${id}` : `answered ${error.status}`;
    throw new UnreadablePath(`${gateway.origin} ${said}`, { cause: error });
  }
}

/** What a person has shortened is looked for among the newest records of the org that this shell means. */
async function wholeRecordId(short: string, url: string | undefined, io: CliIo): Promise<string | undefined> {
  // The operations are loaded by what needs them alone.
  const [{ RecordSource }, { wholeId }] = await Promise.all([import('../logs/record-source.ts'), import('../management/short-ids.ts')]);
  const records = new RecordSource({ url, key: undefined, org: undefined }, {}, io, systemClock, 'gw policy explain');
  try {
    return await wholeId({ short, list: 'mgmt.records.list', changes: false, removes: false }, records.newestFirst(0), io);
  } finally {
    await records.close();
  }
}
