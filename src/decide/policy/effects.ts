import { readAmount } from '../../base/lib/amounts.ts';
import { parseDuration } from '../../base/lib/clock.ts';
import type { YamlEntry, YamlNode } from '../../base/lib/yaml.ts';
import { GROUP_RULE, isGroupName, MAX_HOLD } from '../../base/model/approval.ts';
import { DECISIONS, type Decision } from '../../base/model/reason-codes.ts';
import { type AttributionKey, readAttributionKey } from './attribution-keys.ts';
import { CREDENTIAL_MODES, type EffectName, isEffectName, type MembersOf } from './effect-shapes.ts';
import { type CompiledMutation, readMutations } from './mutations.ts';
import type { PatternSum } from './pattern-sum.ts';
import type { Problems, SourcePlace } from './problems.ts';
import { NOT_SUPPORTED_YET, type UnsupportedEffect } from './problems.ts';

/** The effects of one rule; undefined members were not stated. */
export interface RuleEffects {
  decision?: Decision;
  reason?: string;
  reasonCodes?: readonly string[];
  requestsPerMinute?: number;
  approval?: ApprovalTerms;
  usdMaxPico?: bigint;
  monthlyUsdMaxPico?: bigint;
  selectConnector?: string;
  selectCredential?: CredentialChoice;
  require?: readonly AttributionKey[];
  allowOverrides?: readonly string[];
  defaults?: readonly (readonly [AttributionKey, string])[];
  mutations?: readonly CompiledMutation[];
}

/** How persons are asked; undefined members were not stated. */
export interface ApprovalTerms {
  /** How long a call waits on its open connection, milliseconds; 0: not at all. */
  holdMs?: number;
  /** How many different persons must say yes. */
  required?: number;
  /** Who may decide. */
  group?: string;
}

export interface CredentialChoice {
  credential_id?: string;
  provider?: string;
  mode?: string;
  billing_owner?: string;
}

export interface EffectReader {
  readonly problems: Problems;
  readonly patterns: PatternSum;
  readonly connectorId: (text: string) => string | undefined;
  /** Lets tests of later features load what {@link NOT_SUPPORTED_YET} refuses. */
  readonly allowUnsupported: boolean;
}

type MemberReaders<N extends EffectName> = { readonly [K in MembersOf<N>]: (entry: YamlEntry, place: SourcePlace) => void };
type ReadEffect = (entry: YamlEntry, place: SourcePlace, effects: RuleEffects, reader: EffectReader) => void;

const EFFECTS: Readonly<Record<EffectName, ReadEffect>> = {
  decision: readDecision,
  reason: ({ value }, place, effects, { problems }) => {
    const reason = problems.text(value, place, 'reason', 1000);
    if (reason !== undefined) effects.reason = reason;
  },
  reason_codes: readReasonCodes,
  rate_limit: readRateLimit,
  budget: readBudget,
  approval: readApproval,
  select_connector: readSelectConnector,
  select_credential: readSelectCredential,
  enforce_attribution: readEnforceAttribution,
  default_attribution: readDefaultAttribution,
  mutations: ({ value }, place, effects, { problems }) => {
    effects.mutations = readMutations(value, place, problems);
  },
};

const MAX_HOLD_MS = parseDuration(MAX_HOLD) ?? 0;
const REASON_CODE = /^[A-Za-z0-9_.:-]{1,128}$/;
const APPROVERS = /^[1-5]$/;
const POSITIVE_INTEGER = /^[1-9]\d{0,8}$/;
const MAX_ID = 128;

/** Reads the `effect` of a rule; every mistake becomes a problem. */
export function readEffects(node: YamlNode, place: SourcePlace, reader: EffectReader): RuleEffects {
  const { problems } = reader;
  const effects: RuleEffects = {};
  const bare = node.kind === 'scalar' && DECISIONS.some((decision) => decision === node.source) ? node.source : undefined;
  if (bare !== undefined) problems.add(place, node, 'bad_type', 'effect must be a map', `write {decision: ${bare}}`);
  const map = bare === undefined ? problems.map(node, place, 'effect') : undefined;
  if (map === undefined) return effects;
  if (map.entries.length === 0) problems.add(place, node, 'empty', 'the effect is empty: the rule would do nothing');
  for (const entry of map.entries) {
    const name = entry.key.source;
    if (isEffectName(name)) EFFECTS[name](entry, place.at(name), effects, reader);
    else unknownEffect(name, entry, place.at(name), problems);
  }
  if (effects.decision === 'rate_limit' && effects.requestsPerMinute === undefined) {
    problems.add(place, node, 'missing_key', 'decision: rate_limit needs rate_limit.requests_per_minute, the size of its bucket');
  }
  if (effects.approval !== undefined && effects.decision !== 'require_approval') {
    problems.add(
      place,
      node,
      'bad_value',
      'approval says how persons are asked, and this rule asks nobody',
      'add decision: require_approval',
    );
  }
  return effects;
}

function unknownEffect(name: string, entry: YamlEntry, place: SourcePlace, problems: Problems): void {
  const [parent = '', child] = name.split('.', 2);
  if (child !== undefined && isEffectName(parent)) {
    problems.add(place, entry.key, 'unknown_effect', `unknown effect "${name}"`, `write ${parent}: {${child}: …}`);
  } else problems.unknown(place, entry.key, 'unknown_effect', 'effect', name, Object.keys(EFFECTS));
}

function readDecision({ value }: YamlEntry, place: SourcePlace, effects: RuleEffects, reader: EffectReader): void {
  const name = reader.problems.scalar(value, place, 'decision')?.source;
  if (name === undefined) return;
  const decision = DECISIONS.find((known) => known === name);
  if (decision === undefined) reader.problems.unknown(place, value, 'unknown_decision', 'decision', name, DECISIONS);
  else effects.decision = decision;
}

function readReasonCodes({ value }: YamlEntry, place: SourcePlace, effects: RuleEffects, { problems }: EffectReader): void {
  const codes: string[] = [];
  (problems.items(value, place, 'reason_codes') ?? []).forEach((item, i) => {
    const code = problems.scalar(item, place.at(i), 'a reason code')?.source;
    if (code === undefined) return;
    if (REASON_CODE.test(code)) codes.push(code);
    else problems.add(place.at(i), item, 'bad_value', 'a reason code has 1 to 128 letters, digits and _ . : -');
  });
  effects.reasonCodes = codes;
}

function readRateLimit(entry: YamlEntry, place: SourcePlace, effects: RuleEffects, reader: EffectReader): void {
  readMembers(entry.value, place, reader.problems, 'rate_limit', {
    requests_per_minute: ({ value }, at) => {
      const text = reader.problems.scalar(value, at, 'requests_per_minute')?.source;
      if (text === undefined) return;
      if (POSITIVE_INTEGER.test(text)) effects.requestsPerMinute = Number(text);
      else
        reader.problems.add(
          at,
          value,
          'bad_value',
          'requests_per_minute must be a whole number from 1 to 999999999',
          'write digits alone, as in 60',
        );
    },
  });
}

function readBudget(entry: YamlEntry, place: SourcePlace, effects: RuleEffects, reader: EffectReader): void {
  const amount = ({ value }: YamlEntry, at: SourcePlace): bigint | undefined => {
    const text = reader.problems.scalar(value, at, 'an amount')?.source;
    const pico = text === undefined ? undefined : readAmount(text);
    if (text !== undefined && pico === undefined)
      reader.problems.add(
        at,
        value,
        'bad_value',
        `"${text}" is not an amount such as "0.25"`,
        'write US dollars as "0.25", without a currency sign',
      );
    return pico;
  };
  readMembers(entry.value, place, reader.problems, 'budget', {
    usd_max: (member, at) => {
      const pico = amount(member, at);
      if (pico !== undefined) effects.usdMaxPico = pico;
    },
    monthly_usd_max: (member, at) => {
      const pico = amount(member, at);
      if (pico !== undefined) effects.monthlyUsdMaxPico = pico;
    },
  });
}

function readApproval(entry: YamlEntry, place: SourcePlace, effects: RuleEffects, { problems }: EffectReader): void {
  const terms: ApprovalTerms = {};
  readMembers(entry.value, place, problems, 'approval', {
    hold: ({ value }, at) => {
      const text = problems.scalar(value, at, 'hold')?.source;
      const ms = text === undefined ? undefined : parseDuration(text);
      if (ms !== undefined && ms <= MAX_HOLD_MS) terms.holdMs = ms;
      else if (text !== undefined)
        problems.add(at, value, 'bad_value', `"${text}" is no time from 0s to ${MAX_HOLD}`, 'write it as in 90s or 2m');
    },
    required: ({ value }, at) => {
      const text = problems.scalar(value, at, 'required')?.source;
      if (text === undefined) return;
      if (APPROVERS.test(text)) terms.required = Number(text);
      else problems.add(at, value, 'bad_value', 'required must be a whole number from 1 to 5', 'write digits alone, as in 2');
    },
    group: ({ value }, at) => {
      const text = problems.scalar(value, at, 'group')?.source;
      if (text === undefined) return;
      if (isGroupName(text)) terms.group = text;
      else problems.add(at, value, 'bad_value', GROUP_RULE, 'write it as in finance-leads');
    },
  });
  effects.approval = terms;
}

/**
 * A connector id, a neutral name or `custom:<id>`; whether a custom connector exists is only known when a request
 * comes.
 */
function readSelectConnector({ value }: YamlEntry, place: SourcePlace, effects: RuleEffects, reader: EffectReader): void {
  const { problems, connectorId } = reader;
  const text = problems.text(value, place, 'select_connector', MAX_ID);
  if (text === undefined) return;
  const id = connectorId(text);
  if (id?.startsWith('custom:') === true) refuseUnsupported('select_connector: custom', value, place, reader);
  if (id === undefined) problems.add(place, value, 'bad_value', `"${text}" is no connector`, 'a custom connector is written custom:<id>');
  else effects.selectConnector = id;
}

function readSelectCredential(entry: YamlEntry, place: SourcePlace, effects: RuleEffects, reader: EffectReader): void {
  const { problems } = reader;
  const choice: CredentialChoice = {};
  const keep =
    (name: keyof CredentialChoice, convert: (text: string) => string = (text) => text) =>
    ({ value }: YamlEntry, at: SourcePlace) => {
      const text = problems.text(value, at, name, MAX_ID);
      if (text !== undefined) choice[name] = convert(text);
    };
  readMembers(entry.value, place, problems, 'select_credential', {
    credential_id: keep('credential_id'),
    provider: keep('provider', (text) => reader.connectorId(text) ?? text),
    mode: (member, at) => {
      const mode = member.value.kind === 'scalar' ? member.value.source : '';
      if (CREDENTIAL_MODES.some((known) => known === mode)) choice.mode = mode;
      else problems.unknown(at, member.value, 'bad_value', 'mode', mode, CREDENTIAL_MODES);
    },
    billing_owner: keep('billing_owner'),
  });
  effects.selectCredential = choice;
}

function readEnforceAttribution({ value }: YamlEntry, place: SourcePlace, effects: RuleEffects, { problems }: EffectReader): void {
  readMembers(value, place, problems, 'enforce_attribution', {
    require: (member, at) => {
      const keys = readKeys(member.value, at, problems);
      if (keys.length > 0) effects.require = keys;
      else if (member.value.kind === 'seq' && member.value.items.length === 0) problems.add(at, member.value, 'empty', 'require is empty');
    },
    allow_overrides: (member, at) => {
      effects.allowOverrides = readKeys(member.value, at, problems).map((key) => key.name);
    },
  });
}

function readKeys(node: YamlNode, place: SourcePlace, problems: Problems): readonly AttributionKey[] {
  const keys: AttributionKey[] = [];
  (problems.items(node, place, 'the list of attribution keys') ?? []).forEach((item, i) => {
    const name = problems.scalar(item, place.at(i), 'an attribution key')?.source;
    const key = name === undefined ? undefined : readAttributionKey(name, item, place.at(i), problems);
    if (key !== undefined && !keys.some((known) => known.name === key.name)) keys.push(key);
  });
  return keys;
}

function readDefaultAttribution({ value }: YamlEntry, place: SourcePlace, effects: RuleEffects, { problems }: EffectReader): void {
  const map = problems.map(value, place, 'default_attribution');
  if (map === undefined) return;
  if (map.entries.length === 0) problems.add(place, value, 'empty', 'default_attribution is empty');
  const defaults: (readonly [AttributionKey, string])[] = [];
  for (const entry of map.entries) {
    const at = place.at(entry.key.source);
    const key = readAttributionKey(entry.key.source, entry.key, at, problems);
    const text = key && problems.text(entry.value, at, 'the default', 256);
    if (key !== undefined && text !== undefined) defaults.push([key, text]);
  }
  effects.defaults = defaults;
}

function readMembers<N extends EffectName>(
  node: YamlNode,
  place: SourcePlace,
  problems: Problems,
  what: N,
  readers: MemberReaders<NoInfer<N>>,
): void {
  const map = problems.map(node, place, what);
  if (map === undefined) return;
  if (map.entries.length === 0) problems.add(place, node, 'empty', `${what} is empty`);
  problems.members(map, place, readers, 'unknown_effect', `member of ${what}`);
}

function refuseUnsupported(
  effect: UnsupportedEffect,
  node: YamlNode,
  place: SourcePlace,
  { problems, allowUnsupported }: EffectReader,
): void {
  if (allowUnsupported || !NOT_SUPPORTED_YET.includes(effect)) return;
  problems.add(place, node, 'not_supported_yet', `"${effect}" is not enforced by this version yet, so no rule may rely on it`);
}
