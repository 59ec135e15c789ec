/**
 * How each effect is written (specification, "Policy bundle"; "Merging effects" of policy.md). The readers in
 * effects.ts are typed by this table, so that neither can have an effect or a member that the other lacks; the JSON
 * Schema and the reference page are made from it.
 */
export type EffectShape =
  | { readonly kind: EffectValue; readonly help: string }
  | {
      readonly kind: 'map';
      readonly help: string;
      readonly members: Readonly<Record<string, { readonly kind: EffectValue; readonly help: string }>>;
    };

export type EffectValue =
  | 'decision'
  | 'text'
  | 'texts'
  | 'amount'
  | 'count'
  | 'approvers'
  | 'hold'
  | 'credential_mode'
  | 'attribution_keys'
  | 'attribution_values'
  | 'mutations';

export const CREDENTIAL_MODES = ['byok', 'alias'] as const;

export const EFFECT_SHAPES = {
  decision: { kind: 'decision', help: 'What the rule decides; without it the rule has effects only.' },
  reason: { kind: 'text', help: 'A sentence for the caller, when this rule decides.' },
  reason_codes: { kind: 'texts', help: 'Stable codes for the answer and the record; those of all rules that took part are united.' },
  rate_limit: {
    kind: 'map',
    help: 'A bucket of its own for this rule and each workload.',
    members: {
      requests_per_minute: { kind: 'count', help: 'Size of the bucket and its refill in a minute; a whole number from 1 to 999999999.' },
    },
  },
  budget: {
    kind: 'map',
    help: 'Caps in USD; the smallest of all rules counts.',
    members: {
      usd_max: { kind: 'amount', help: 'The most that one request may cost by its estimate, as decimal text.' },
      monthly_usd_max: {
        kind: 'amount',
        help: 'The most that the project of the request may cost in a calendar month (UTC), as decimal text.',
      },
    },
  },
  approval: {
    kind: 'map',
    help: 'How persons are asked where the rule decides `require_approval`.',
    members: {
      hold: {
        kind: 'hold',
        help: 'How long the call waits on its open connection, such as `90s`; at most `5m`, `0s` never. Without it `GW_APPROVAL_HOLD` counts.',
      },
      required: { kind: 'approvers', help: 'How many different persons must say yes, from 1 to 5; one denial ends it.' },
      group: { kind: 'text', help: 'Only keys and persons of this group may decide, and the admin token.' },
    },
  },
  select_connector: { kind: 'text', help: 'The connector that takes the call; the first by order counts.' },
  select_credential: {
    kind: 'map',
    help: 'Which stored credential is used: one by its id, or filters, which intersect.',
    members: {
      credential_id: { kind: 'text', help: 'The id of a stored credential.' },
      provider: { kind: 'text', help: 'Only credentials of this provider.' },
      mode: { kind: 'credential_mode', help: 'Only credentials of this mode.' },
      billing_owner: { kind: 'text', help: 'Only credentials that this owner pays for.' },
    },
  },
  enforce_attribution: {
    kind: 'map',
    help: 'What must be known about who pays.',
    members: {
      require: { kind: 'attribution_keys', help: 'Keys without which the request is refused (require_attribution).' },
      allow_overrides: { kind: 'attribution_keys', help: 'Keys that the caller may set; others take their default.' },
    },
  },
  default_attribution: {
    kind: 'attribution_values',
    help:
      'Attribution for requests whose caller and workload gave none. What a refusing rule gives meets no requirement of another rule; one that denies or ' +
      'quarantines gives nothing.',
  },
  mutations: { kind: 'mutations', help: 'What is changed in the call: a list of key and value.' },
} as const satisfies Readonly<Record<string, EffectShape>>;

export type EffectName = keyof typeof EFFECT_SHAPES;
/** The members of an effect that is a map. */
export type MembersOf<N extends EffectName> = keyof Extract<(typeof EFFECT_SHAPES)[N], { readonly kind: 'map' }>['members'];

export function isEffectName(name: string): name is EffectName {
  return Object.hasOwn(EFFECT_SHAPES, name);
}
