import { relative } from 'node:path';
import { PLAN_TIERS, type PlanTier } from '../../base/model/plan-tier.ts';
import { type CliIo, UsageError } from '../command.ts';
import { parseWithWords } from '../parse-options.ts';
import { settingsOf } from '../settings-of.ts';

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
