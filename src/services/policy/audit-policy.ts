import { isJsonObject, type JsonObject } from '../../base/json/json-object.ts';
import type { AuditChange } from '../../base/model/audit-entry.ts';
import type { RuleEdit } from '../../policy-tools/rule-edits.ts';
import { changesOf, memberChange } from '../registers/audit-changes.ts';
import { NOT_SHOWN } from '../registers/audit-values.ts';
import type { ToldChanges } from '../registers/commit.ts';
import type { ActivePolicy } from './active-policy.ts';
import type { Weighed } from './weigh-policy.ts';

/** As the entries name them. */
const POLICY = 'policy';
const RULE = 'policy_rule';
/** Member of a rule that is new, or gone: all that it says. */
const WHOLE = 'rule';

/**
 * What the audit trail tells of a change of policy beside the hashes of its texts (decision 9.6): members of the
 * header, and which rules are gone, changed and new.
 */
export function policyTold({ header, edits }: Pick<Weighed, 'header' | 'edits'>): ToldChanges {
  return (toOrg) => [...changesOf(POLICY, header.before, header.after), ...rulesTold(edits, toOrg)];
}

/**
 * The same of a change of the bundle, with what it was called and is called, also where that stays: an entry says which
 * one it is about.
 */
export function bundleTold(weighed: Pick<Weighed, 'header' | 'edits'>, before: ActivePolicy, after: ActivePolicy): ToldChanges {
  const [was, is] = [namesIn(before), namesIn(after)];
  const names = (['bundle_id', 'version'] as const).map((name) => memberChange(POLICY, name, { before: was[name], after: is[name] }));
  const from = changesOf(
    POLICY,
    { source: before.source, content_hash: before.content_hash },
    { source: after.source, content_hash: after.content_hash },
  );
  const rest = policyTold(weighed);
  return (toOrg) => [...names, ...from, ...rest(toOrg).filter(({ member }) => !(member in is))];
}

/** A control plane calls a bundle by the version that it has signed. */
function namesIn({ bundle_id, version, signed }: ActivePolicy) {
  return { bundle_id, version: signed?.version ?? version };
}

function rulesTold(edits: readonly RuleEdit[], toOrg: boolean): readonly AuditChange[] {
  // The text of the bundle is the operator's: an org is told which of its rules, and what they decide (decision 5.10).
  return edits.flatMap((edit) => ruleTold(edit, toOrg && edit.level === 'base'));
}

function ruleTold({ layer, rule_id: id, level, before, after }: RuleEdit, inShort: boolean): readonly AuditChange[] {
  const shownOf = (rule: JsonObject | undefined) => rule && (inShort ? inShortOf(rule) : withoutSecrets(rule));
  const shown = { before: shownOf(before), after: shownOf(after) };
  const isWhole = inShort || before === undefined || after === undefined;
  const changes = isWhole ? [memberChange(RULE, WHOLE, { before, after }, shown)] : changesOf(RULE, before, after, shown);
  return changes.map(({ entity, ...change }) => ({ entity, rule: `${layer}/${id}@${level}`, ...change }));
}

/** What a rule decides. */
function inShortOf({ effect }: Readonly<{ effect?: unknown }>): JsonObject {
  const { decision }: { readonly decision?: unknown } = isJsonObject(effect) ? effect : {};
  return decision === undefined ? {} : { effect: { decision } };
}

/** Fields of calls in which callers write what they like. A model is none: it says what is asked for. */
const FREE_FIELD = /^(?:context\.)?action\.params\.(?!model$)/;

/**
 * A rule without the values that it writes into calls, and without the texts that it compares what callers write with:
 * either may be a secret.
 */
function withoutSecrets(rule: JsonObject): JsonObject {
  return redacted(rule) as JsonObject;
}

function redacted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(redacted);
  if (!isJsonObject(value)) return value;
  const isFree = isFreeField(value['field']);
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => {
      if (name === 'mutations') return [name, valuesHidden(one)];
      return [name, (isFree && name !== 'field') || isFreeField(name) ? textsHidden(one) : redacted(one)];
    }),
  );
}

function isFreeField(name: unknown): boolean {
  return typeof name === 'string' && FREE_FIELD.test(name);
}

/** Mutations of these write no secret. */
const PLAIN_KEYS: readonly unknown[] = ['action.params.model', 'action.method'];

/** Of mutations which member of a call is written, and a text where that can be no secret. */
function valuesHidden(mutations: unknown): unknown {
  if (!Array.isArray(mutations)) return NOT_SHOWN;
  return mutations.map((one: unknown) =>
    isJsonObject(one) && !PLAIN_KEYS.includes(one['key']) ? { ...one, value: textsHidden(one['value']) } : one,
  );
}

function textsHidden(value: unknown): unknown {
  if (typeof value === 'string') return NOT_SHOWN;
  if (Array.isArray(value)) return value.some((one) => typeof one === 'string') ? NOT_SHOWN : value;
  return isJsonObject(value) ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, textsHidden(one)])) : value;
}
