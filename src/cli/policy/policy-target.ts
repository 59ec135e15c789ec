import { readFile, stat } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { loadCatalogue } from '../../base/catalogue/catalogue.ts';
import { actionTypeConnectors, canonicalConnectorId, coversHost } from '../../base/catalogue/connector-id.ts';
import { CatalogueError } from '../../base/catalogue/row-reader.ts';
import type { Catalogue } from '../../base/catalogue/types.ts';
import { isJsonObject } from '../../base/json/json-object.ts';
import { parseSafeJsonText } from '../../base/json/safe-json.ts';
import { readRegularFile } from '../../base/lib/file-system.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { decodeUtf8, NOT_UTF8, type Utf8Fault } from '../../base/lib/text.ts';
import { parseYaml, toPlain } from '../../base/lib/yaml.ts';
import { PLAN_TIERS, type PlanTier } from '../../base/model/org.ts';
import { type PolicyText, ruleFileNames } from '../../decide/policy/bundle.ts';
import { compilePolicy, type PolicyInput, type PolicyOptions } from '../../decide/policy/compile.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import type { PassageOptions } from '../../decide/policy/refuses-all.ts';
import { aloneInABundle, isRuleFile } from '../../policy-tools/check.ts';
import type { Surroundings } from '../../policy-tools/given-request.ts';
import { renderProblems } from '../../policy-tools/render-problem.ts';
import { MAX_BYTES, readPolicyFolder } from '../../services/policy/policy-folder.ts';
import { parseWithWords } from '../checked-arguments.ts';
import { type CliIo, GatewayRefusal, Unusable, UsageError } from '../command.ts';
import { GatewayClient } from '../gateway-client.ts';
import { whyUnreadable } from '../process-io.ts';
import { settingsOf } from '../settings-of.ts';

/**
 * What a path names, read: a policies folder, a bundle with the files that it names, or one rule file. File names are
 * as a person can open them.
 */
export interface PolicyTarget {
  readonly path: string;
  readonly input: PolicyInput;
  /** A rule file, or an overlay: what others allow is not in it. */
  readonly isPart: boolean;
  /** Of a folder: SHA-256 over its texts, as the gateway makes it. */
  readonly contentHash?: string;
}

/** A path that cannot be read at all. */
export class UnreadablePath extends Unusable {}

/** @throws UnreadablePath */
export async function readTarget(path: string, tier: PlanTier): Promise<PolicyTarget> {
  try {
    if ((await stat(path)).isDirectory()) return { path, ...(await readFolder(path, tier)), isPart: false };
    const text = { text: await readUtf8(path), file: path };
    const isPart = isRuleFile(text) || basename(dirname(resolve(path))) === 'overlays';
    return { path, input: await readOneFile(text, tier), isPart };
  } catch (error) {
    throw unreadable(path, error);
  }
}

/** What a person is told of a file that cannot be read. */
export function unreadable(path: string, cause: unknown): UnreadablePath {
  if (cause instanceof GatewayError) return new UnreadablePath(cause.message, { cause });
  if (cause instanceof NotUtf8) {
    const { line, column, text } = cause.fault;
    const problem = { path: '', file: path, line, column, code: 'unreadable', ...NOT_UTF8 };
    return new UnreadablePath(renderProblems([problem], new Map([[path, text]])), { cause });
  }
  return new UnreadablePath(`${path}: ${whyUnreadable(cause)}`, { cause });
}

async function readFolder(dir: string, tier: PlanTier): Promise<Pick<PolicyTarget, 'input' | 'contentHash'>> {
  const folder = await readPolicyFolder(dir);
  const named = (text: PolicyText) => ({ ...text, file: join(dir, text.file) });
  const { org, node } = folder.overlays;
  const overlays = { org: org && named(org), node: node && named(node) };
  const input = { bundle: named(folder.bundle), files: folder.files, addons: folder.addons.map(named), overlays, tier };
  return { input, contentHash: folder.hash };
}

async function readOneFile(text: PolicyText, tier: PlanTier): Promise<PolicyInput> {
  const { file: path } = text;
  if (isRuleFile(text)) return { ...aloneInABundle(text), tier };
  const files = new Map<string, string>();
  for (const name of ruleFileNames(text)) {
    const named = await readRegularFile(join(dirname(path), name), MAX_BYTES)
      .then(asUtf8)
      .catch(() => undefined);
    if (named !== undefined) files.set(name, named);
  }
  return { bundle: text, files, tier };
}

/** A text file. @throws NotUtf8; the system's error */
export async function readUtf8(path: string): Promise<string> {
  return asUtf8(await readFile(path));
}

/** @throws NotUtf8 */
function asUtf8(bytes: Uint8Array): string {
  const text = decodeUtf8(bytes);
  if (typeof text === 'string') return text;
  throw new NotUtf8(text);
}

class NotUtf8 extends Error {
  readonly fault: Utf8Fault;

  constructor(fault: Utf8Fault) {
    super(NOT_UTF8.message);
    this.fault = fault;
  }
}

/** A bundle knows the files that it names by their names alone; a person wants to open them. */
export function openable(file: string, { input }: PolicyTarget): string {
  return input.files?.has(file) === true ? join(dirname(input.bundle.file), file) : file;
}

/** The compiled policy of a path. @throws UnreadablePath when it does not load */
export async function loadPolicy(path: string, tier: PlanTier): Promise<CompiledPolicy> {
  return compiledTarget(await readTarget(path, tier));
}

/** What was read, compiled. @throws UnreadablePath when it does not load */
export function compiledTarget({ path, input }: Pick<PolicyTarget, 'path' | 'input'>): CompiledPolicy {
  const { policy, errors } = compilePolicy(input, policyOptions());
  if (policy !== undefined) return policy;
  const [first] = errors;
  const where = [first?.file, first?.line, first?.column].filter((part) => part !== undefined).join(':');
  throw new UnreadablePath(`${path} does not load: ${where}: ${first?.message ?? ''} (gw policy check ${path} shows all of it)`);
}

/** @throws UsageError */
function actionTypesOf(catalogue: Catalogue, names: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  try {
    return actionTypeConnectors(catalogue, names);
  } catch (error) {
    if (error instanceof RangeError) throw new UsageError(error.message, { cause: error });
    throw error;
  }
}

/**
 * Who serves what and at which price, as the gateway that runs with the same settings knows it.
 * @param pricing a file of rates in the place of `GW_PRICING_FILE`
 * @throws UsageError; UnreadablePath for rates that do not load
 */
export function surroundingsOf(io: CliIo, pricing: string | undefined): Surroundings {
  const settings = policySettings(io, undefined);
  const pricingFile = pricing ?? settings.pricingFile;
  try {
    const catalogue = loadCatalogue(pricingFile === undefined ? {} : { pricingFile });
    return { catalogue, actionTypes: actionTypesOf(catalogue, settings.actionTypes), pricingCached: settings.pricingCached };
  } catch (error) {
    if (error instanceof CatalogueError) throw new UnreadablePath(error.message, { cause: error });
    throw error;
  }
}

/** Connector ids, and their hosts, as the gateway knows them. */
export function policyOptions(): PolicyOptions & PassageOptions {
  const catalogue = loadCatalogue();
  return {
    connectorId: (text) => canonicalConnectorId(catalogue, text),
    covers: (connectorId, host) => coversHost(catalogue, connectorId, host),
  };
}

const MAX_INPUT = 16 * 1024 * 1024;

export interface Document {
  /** As a person named it. */
  readonly name: string;
  readonly text: string;
}

/** A file, or standard input for `-`. @throws UnreadablePath */
export async function readDocument(path: string, io: CliIo): Promise<Document> {
  if (path !== '-') return { name: path, text: await readUtf8(path).catch((error: unknown) => Promise.reject(unreadable(path, error))) };
  try {
    return { name: 'standard input', text: asUtf8(await io.stdin(MAX_INPUT)) };
  } catch (error) {
    throw unreadable('standard input', error);
  }
}

/** The map that a YAML or JSON text holds. @throws UnreadablePath with the place of the first mistake */
export function parseMap({ name, text }: Document): Readonly<Record<string, unknown>> {
  const { root, errors } = parseYaml(text, name);
  const [first] = errors;
  if (first !== undefined) throw new UnreadablePath(`${name}:${first.line}:${first.column}: ${first.message}`);
  return asMap(toPlain(root), name);
}

/** @throws UnreadablePath */
export function parseJsonMap({ name, text }: Document): Readonly<Record<string, unknown>> {
  try {
    return asMap(parseSafeJsonText(text, { malformed: 'invalid_request' }).value, name);
  } catch (error) {
    if (error instanceof GatewayError) throw new UnreadablePath(`${name}: ${error.message}`, { cause: error });
    throw error;
  }
}

function asMap(value: unknown, name: string): Readonly<Record<string, unknown>> {
  if (isJsonObject(value)) return value;
  throw new UnreadablePath(`${name}: this is not a map`);
}

type OptionTypes = Readonly<Record<string, 'boolean' | 'string'>>;
type OptionValues<T extends OptionTypes> = { readonly [K in keyof T]?: T[K] extends 'boolean' ? boolean : string };

/** The options of a command and what stands beside them. @throws UsageError */
export function readOptions<const T extends OptionTypes>(
  args: readonly string[],
  types: T,
): { values: OptionValues<T>; paths: readonly string[] } {
  const options = Object.fromEntries(Object.entries(types).map(([name, type]) => [name, { type }]));
  const { values, words } = parseWithWords(args, options);
  return { values: values as OptionValues<T>, paths: words };
}

export interface PolicySettings {
  readonly dir: string;
  readonly tier: PlanTier;
  /** `GW_PRICING_FILE`. */
  readonly pricingFile: string | undefined;
  /** `GW_PRICING_CACHED`. */
  readonly pricingCached: boolean;
  /** `GW_APPROVAL_ENABLED`. */
  readonly approvalEnabled: boolean;
  /** `GW_ACTION_TYPE_CONNECTORS`. */
  readonly actionTypes: ReadonlyMap<string, string>;
}

/** What concerns policies of the gateway that runs with the same settings. @throws UsageError */
export function policySettings(io: CliIo, tier: string | undefined): PolicySettings {
  const given = PLAN_TIERS.find((known) => known === tier);
  if (tier !== undefined && given === undefined) throw new UsageError(`--tier takes ${PLAN_TIERS.join(', ')}`);
  const { policiesDir, planTier, pricingFile, pricingCached, approvalEnabled, actionTypeConnectors: actionTypes } = settingsOf(io);
  return { dir: fromHere(policiesDir), tier: given ?? planTier, pricingFile, pricingCached, approvalEnabled, actionTypes };
}

/** As a person in this folder would write it. */
function fromHere(path: string): string {
  const short = relative(process.cwd(), path);
  return short === '' || short.startsWith('..') ? path : short;
}

/**
 * The policy that a running gateway judges the calls of an org by: its bundle, however it came there, with the
 * overlays, presets and switches of the org and the plan tier that holds.
 * @param url of the gateway; default: where a gateway with the same settings listens
 * @throws Unusable when it does not answer; UnreadablePath when it tells none
 */
export async function gatewayPolicy(orgId: string, url: string | undefined, io: CliIo): Promise<PolicyTarget> {
  const gateway = await GatewayClient.open(url, io);
  try {
    const told = await gateway.json('GET', `/v1/admin/policies/texts?org_id=${encodeURIComponent(orgId)}`);
    const path = `the policy of ${gateway.origin}`;
    return { path, input: inputIn(told, path), isPart: false, ...contentHashIn(told) };
  } catch (error) {
    if (!(error instanceof GatewayRefusal)) throw error;
    throw new UnreadablePath(`${gateway.origin} does not tell its policy (${error.message}); give one with --policies`, { cause: error });
  }
}

function contentHashIn(told: unknown): Pick<PolicyTarget, 'contentHash'> {
  const hash = isJsonObject(told) ? told['content_hash'] : undefined;
  return typeof hash === 'string' ? { contentHash: hash } : {};
}

function inputIn(told: unknown, path: string): PolicyInput {
  const given = isJsonObject(told) ? told : {};
  const tier = PLAN_TIERS.find((known) => known === given['plan_tier']);
  const [bundle] = textsIn([given['bundle']]);
  if (tier === undefined || bundle === undefined) throw new UnreadablePath(`${path}: what it tells of it is no policy`);
  const files = given['files'] === undefined ? undefined : new Map(textsIn(given['files']).map(({ file, text }) => [file, text]));
  const generated = textsIn(given['generated']).map((one) => ({
    ...one,
    kind: one.kind === 'switch' ? ('switch' as const) : ('preset' as const),
  }));
  const overlays = { org: textsIn(given['org']), node: textsIn(given['node']) };
  return { bundle, files, addons: textsIn(given['addons']), overlays, generated, tier };
}

function textsIn(list: unknown): readonly (PolicyText & { readonly kind: unknown })[] {
  return (Array.isArray(list) ? list : []).flatMap((one: unknown) => {
    if (!isJsonObject(one) || typeof one['file'] !== 'string' || typeof one['text'] !== 'string') return [];
    const own = one['own_rules'] === true ? { ownRules: true as const } : {};
    return [{ file: one['file'], text: one['text'], kind: one['kind'], ...own }];
  });
}
