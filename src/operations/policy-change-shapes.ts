/* What every operation that changes policy takes and answers beside the policy itself (decision 5.10). */
import { z } from 'zod';
import { type ErrorDetail, GatewayError } from '../base/lib/gateway-error.ts';
import { callMeaning, readCall, type Surroundings } from '../policy-tools/given-request.ts';
import { losesUnasked, lostUnasked, type RuleAt, type WeighedChange } from '../policy-tools/policy-change.ts';
import { overlayFile } from '../services/policy/org-overlays.ts';
import { DRAFT_BUNDLE } from '../services/policy/policy-drafts.ts';
import { compareSuites, replayRecent } from '../services/policy/policy-preview.ts';
import type { AcceptWeighed, Weighed } from '../services/policy/weigh-policy.ts';
import { preconditionOf } from './etag.ts';
import { optional } from './members.ts';
import type { Shown } from './operation.ts';
import type { OperationServices } from './services.ts';
import { count, PROBLEM } from './shapes.ts';

/** Rules and groups that an answer shows of each kind; the counts are of all. */
const SHOWN = 100;
/** Lost rules that one sentence names. */
const NAMED = 5;

const flag = z.boolean('must be true or false').optional();

const SWITCH_RULE = 'must be true or false';
/** One of these members as a parameter of an address. */
export const SWITCH: z.ZodOptional<z.ZodString> = z
  .string(SWITCH_RULE)
  .refine((text) => text === 'true' || text === 'false', SWITCH_RULE)
  .optional()
  .meta({ type: 'boolean' });

/** What such a parameter says; undefined: it is left out. */
export function isTrue(text: string | undefined): boolean | undefined {
  return text === undefined ? undefined : text === 'true';
}

/** Members of a body that changes policy. */
export const CHANGE_MEMBERS: {
  readonly dry_run: z.ZodOptional<z.ZodBoolean>;
  readonly confirm: z.ZodOptional<z.ZodBoolean>;
  readonly if_match: z.ZodOptional<z.ZodString>;
} = {
  dry_run: flag.meta({ description: 'true: nothing is written; the answer says what would change' }),
  confirm: flag.meta({ description: 'false: refuses to lose rules, make allow-lists or allow nothing' }),
  if_match: z.string('must be text').optional().meta({ description: 'The etag that was read; refused when it has changed since' }),
};

const RULE_NAME = z.string().meta({ description: '`layer/rule_id@level`' });

/** What a change of policy does, or would do. */
export const CHANGE = z.object({
  dry_run: z.boolean(),
  counts: z.object({ added: count, changed: count, lost: count }),
  added: z.array(RULE_NAME),
  changed: z.array(RULE_NAME),
  lost: z.array(z.object({ rule: RULE_NAME, because: z.enum(['left_out', 'disabled']), instead: RULE_NAME.optional() })),
  new_allow_lists: z
    .array(z.object({ layer: z.string(), allowed_by: z.array(z.string()), reason_code: z.string(), message: z.string() }))
    .meta({ description: 'Layers that deny from now on what their rules do not allow' }),
  no_longer_allow_lists: z.array(z.string()),
  header: z.array(z.string()).meta({ description: 'Members of the header that say something else' }),
  denies_all: z.boolean(),
  check: z
    .object({ errors: z.array(PROBLEM), warnings: z.array(PROBLEM) })
    .optional()
    .meta({ description: 'Of a dry run: as `gw policy check` says it, unless the texts are long' }),
  tests: z
    .object({
      cases: count,
      broken: z.array(z.object({ suite: z.string(), name: z.string(), members: z.array(z.string()) })),
      failing_before: count,
    })
    .optional()
    .meta({ description: 'Of a dry run: suites of the policies folder' }),
  records: z
    .object({
      replayed: count,
      changed: count,
      cannot_say: count,
      groups: z.array(z.object({ change: z.string(), records: count, examples: z.array(z.string()) })),
    })
    .optional()
    .meta({ description: 'Of a dry run: the newest records, judged again' }),
});

/** A change as it is answered. */
export type ChangeShown = Shown<z.output<typeof CHANGE>>;

export interface ChangeAsked {
  readonly dry_run?: boolean | undefined;
  readonly confirm?: boolean | undefined;
  readonly if_match?: string | undefined;
}

/**
 * Whether the one who asks for a change means it. @param named rules that he takes away by name, `layer/id`
 * @throws GatewayError `precondition_failed`, `confirmation_needed`
 */
export function acceptChange(
  { confirm, if_match: tag }: ChangeAsked,
  shown: unknown,
  { change }: Weighed,
  named?: ReadonlySet<string>,
): void {
  if (tag !== undefined) preconditionOf({ 'if-match': tag })(shown);
  if (confirm !== false || !losesUnasked(change, named)) return;
  const details: ErrorDetail[] = [
    ...lostUnasked(change, named).map(({ file, line, ...rule }) => {
      const instead = rule.instead === undefined ? '' : `; ${nameOf(rule.instead)} counts in its place`;
      return { path: 'lost', message: `${nameOf(rule)} would be lost${instead}`, rule_id: rule.rule_id, file, line };
    }),
    ...change.new_allow_lists.map(({ message }) => ({ path: 'new_allow_lists', message })),
    ...(change.denies_all ? [{ path: 'denies_all', message: `no call could be let through any more${because(change)}` }] : []),
  ];
  throw new GatewayError('confirmation_needed', `Nothing was changed. ${lossText(change, named)} ${UNCONFIRMED_WAYS}`, { details });
}

/** What somebody who asks by HTTP or MCP can do then; the command line has its own words. */
export const UNCONFIRMED_WAYS =
  'To change one rule and keep all others, put that rule alone, or put these rules with `merge: true`; `dry_run: true` shows everything. If it is meant, ask again with `confirm: true`.';

/** What a change takes away, in a sentence or two; empty: nothing that nobody has named. */
export function lossText(change: WeighedChange, named?: ReadonlySet<string>): string {
  const lost = lostUnasked(change, named);
  const names = lost.slice(0, NAMED).map(nameOf).join(', ');
  const more = lost.length > NAMED ? ` and ${lost.length - NAMED} more` : '';
  return [
    ...(lost.length === 0 ? [] : [`It would lose ${lost.length} rule${lost.length === 1 ? '' : 's'}: ${names}${more}.`]),
    ...change.new_allow_lists.map(({ message }) => `${message.charAt(0).toUpperCase()}${message.slice(1)}.`),
    ...(change.denies_all ? [`No call could be let through any more${because(change)}.`] : []),
  ].join(' ');
}

function because({ why_denies_all: why }: WeighedChange): string {
  return why === undefined ? '' : `: ${why}`;
}

function nameOf({ layer, rule_id: id, level }: Pick<RuleAt, 'layer' | 'rule_id' | 'level'>): string {
  return `${layer}/${id}@${level}`;
}

/** A change as it is answered. */
export function shownChange({ change }: Weighed, dryRun: boolean): ChangeShown {
  const { added, changed, lost, why_denies_all: _why, ...rest } = change;
  return {
    dry_run: dryRun,
    counts: { added: added.length, changed: changed.length, lost: lost.length },
    added: added.slice(0, SHOWN).map(nameOf),
    changed: changed.slice(0, SHOWN).map(nameOf),
    lost: lost.slice(0, SHOWN).map(({ because, instead, ...rule }) => ({
      rule: nameOf(rule),
      because,
      ...optional('instead', instead && nameOf(instead)),
    })),
    ...rest,
  };
}

/** The same of a change that is only tried, with what it would mean for calls. @param orgId undefined: for every org */
export async function shownTrial(weighed: Weighed, orgId: string | undefined, services: OperationServices): Promise<ChangeShown> {
  const { before, after } = weighed;
  const { policies, store, connectors } = services;
  const check = await policies.drafts.checked(after.texts);
  const shown = {
    ...shownChange(weighed, true),
    ...optional('check', check && { errors: check.errors, warnings: orgId === undefined ? check.warnings : ownWarnings(check.warnings) }),
  };
  if (before.policy === undefined || after.policy === undefined) return shown;
  const meaning = callMeaning(surroundingsOf(services));
  const suites = await policies.drafts.suites();
  const tests = suites.length === 0 ? undefined : await compareSuites(suites, before.policy, after.policy, meaning);
  const catalogue = connectors.catalogues.current();
  const sides = { before: before.policy, after: after.policy };
  const diff = await replayRecent(store, orgId, sides, (facts) => readCall(facts, true, catalogue));
  return {
    ...shown,
    ...optional(
      'tests',
      tests && {
        ...tests,
        broken: tests.broken.slice(0, SHOWN).map(({ mismatches, ...one }) => ({ ...one, members: mismatches.map(({ member }) => member) })),
      },
    ),
    records: {
      replayed: diff.records - diff.not_decided,
      changed: diff.changed,
      cannot_say: diff.cannot_say.records,
      groups: diff.groups
        .slice(0, SHOWN)
        .map(({ change, records, examples }) => ({ change, records, examples: examples.map(({ record_id }) => record_id) })),
    },
  };
}

const OWN_FILES: ReadonlySet<string | undefined> = new Set([DRAFT_BUNDLE, overlayFile('org'), overlayFile('node')]);

/** Warnings about what an org has written, or is about to: those about the operator's bundle are the operator's. */
export function ownWarnings(warnings: readonly ErrorDetail[]): readonly ErrorDetail[] {
  return warnings.filter(({ file }) => OWN_FILES.has(file));
}

/** The rules of a text that is taken away by name. */
export function namesAllLost({ change: { lost } }: Weighed): ReadonlySet<string> {
  return new Set(lost.map(({ layer, rule_id: id }) => `${layer}/${id}`));
}

/**
 * For a change that is weighed where it is stored: who is refused, whether it is stored, and what is answered.
 * @param namedIn rules that it takes away by name; default: none
 */
export function weighing(
  asked: ChangeAsked,
  namedIn: (weighed: Weighed) => ReadonlySet<string> | undefined = () => undefined,
): {
  readonly accept: AcceptWeighed;
  /** @throws TypeError when nothing was weighed */
  readonly shown: () => { readonly change: ChangeShown };
} {
  let change: ChangeShown | undefined;
  const dryRun = asked.dry_run === true;
  return {
    accept: (weighed: Weighed): boolean => {
      if (!dryRun) acceptChange(asked, undefined, weighed, namedIn(weighed));
      change = shownChange(weighed, dryRun);
      return !dryRun;
    },
    shown: () => {
      if (change === undefined) throw new TypeError('a change that was made has been weighed');
      return { change };
    },
  };
}

/** What is known beside a described call: who serves it, at which price. */
export function surroundingsOf({
  connectors: { catalogues, actionTypes, pricingCached },
}: Pick<OperationServices, 'connectors'>): Surroundings {
  return { catalogue: catalogues.current(), actionTypes, pricingCached };
}
