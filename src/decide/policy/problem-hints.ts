const REFERENCE = 'docs/reference/policy-language.md lists what is known here';

/**
 * Every code that a mistake in a bundle can have, beside those of the YAML reader, with what to do when nothing more exact can be said at its place: nobody is
 * told that something is wrong without a way on.
 */
export const HINTS = {
  bad_schema: 'the line schema: says what a file is: gw.policy_bundle.v1 a bundle, gw.rule_file.v1 a rule file, gw.policy_tests.v1 a suite',
  bad_type: REFERENCE,
  bad_value: REFERENCE,
  missing_key: REFERENCE,
  unknown_key: REFERENCE,
  unknown_layer: REFERENCE,
  unknown_field: REFERENCE,
  unknown_operator: REFERENCE,
  unknown_effect: REFERENCE,
  unknown_decision: REFERENCE,
  operator_not_for_field: REFERENCE,
  empty: 'leave it out, or put something into it',
  duplicate_rule: 'give one of them another id; only an overlay replaces a rule',
  not_mutable: REFERENCE,
  tier_not_allowed: 'GW_PLAN_TIER names the tier of the org; gw policy check takes it as --tier',
  patterns_too_large:
    'write shorter patterns and smaller counts, such as {0,20}; what is equal to one of some texts, or begins with one, needs no pattern (in, starts_with)',
  files_not_allowed: 'write the rules under inline_rules; files are read from the policies folder alone',
  missing_file: 'names count from the folder of the bundle',
  not_supported_yet: 'leave it out',
} as const satisfies Record<string, string>;

export type ProblemCode = keyof typeof HINTS;
