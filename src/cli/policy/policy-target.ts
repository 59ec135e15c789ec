import { readFile, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { loadCatalogue } from '../../base/catalogue/catalogue.ts';
import { actionTypeConnectors, canonicalConnectorId, coversHost } from '../../base/catalogue/connector-id.ts';
import { CatalogueError } from '../../base/catalogue/row-reader.ts';
import type { Catalogue } from '../../base/catalogue/types.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { readRegularFile } from '../../base/lib/regular-file.ts';
import { decodeUtf8, NOT_UTF8, type Utf8Fault } from '../../base/lib/utf8.ts';
import type { PlanTier } from '../../base/model/plan-tier.ts';
import { type PolicyText, ruleFileNames } from '../../decide/policy/bundle.ts';
import { compilePolicy, type PolicyInput, type PolicyOptions } from '../../decide/policy/compile.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import type { PassageOptions } from '../../decide/policy/refuses-all.ts';
import { aloneInABundle, isRuleFile } from '../../policy-tools/check.ts';
import type { Surroundings } from '../../policy-tools/given-request.ts';
import { renderProblems } from '../../policy-tools/render-problem.ts';
import { MAX_BYTES, readPolicyFolder } from '../../services/policy/policy-folder.ts';
import { type CliIo, Unusable, UsageError } from '../command.ts';
import { whyUnreadable } from '../unreadable-file.ts';
import { policySettings } from './options.ts';

/** What a path names, read: a policies folder, a bundle with the files that it names, or one rule file. File names are as a person can open them. */
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
export function asUtf8(bytes: Uint8Array): string {
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
