import { decide } from '../../src/decide/policy/evaluate.ts';
import { compileAll, someFacts } from '../decide/policy/policy-facts.ts';
import { type FuzzTarget, must } from './target.ts';

const FACTS = someFacts();

/** A bundle's text, compiled and, when it loads, asked. */
const bundle: FuzzTarget = {
  name: 'policy-bundle',
  inputs: 1_000_000,
  dear: true,
  // Behind the admin token, and the time is that of the YAML parser.
  stallMs: 1_000,
  headLines: 0,
  dictionary: [
    'schema: gw.policy_bundle.v1\n',
    'schema: gw.rule_file.v1\n',
    '  - id: x\n',
    'inline_rules:\n',
    'custom.a:\n',
    'when:\n',
    'decision: ',
    'allow',
    'deny',
    'downgrade',
    '&a ',
    '*a',
    '<<: *a',
    '- - - ',
    '[[[[',
    '{a: {b: ',
    '? ',
    ': ',
    '|\n',
    '>-\n',
    '!!binary ',
    '!x ',
    '---\n',
    '...\n',
    '%YAML 1.1\n',
    '"\\x41"',
    "''",
    '#',
    '\t',
    '  ',
    '\n',
    '{regex: "(a+)+$"}',
    '(?i)',
    '{1000}',
    'mutations:\n',
    'action.params.model',
    'default_attribution',
    '0x10',
    '.inf',
    '1e400',
    'null',
    '~',
    '__proto__: 1\n',
  ],
  run(input) {
    const text = input.toString('utf8');
    const { policy, errors } = compileAll(
      text.startsWith('schema: gw.rule_file') ? { text: BASE, addons: [{ text, file: 'addons/1.yaml' }] } : { text },
    );
    if (policy === undefined) {
      must(errors.length > 0, 'a bundle that does not load says why');
      for (const error of errors) must(error.message.length < 4096, 'a mistake is told in few words');
      return `errors ${errors[0]?.code}`;
    }
    const verdict = decide(policy, FACTS);
    must(JSON.stringify(verdict) === JSON.stringify(decide(policy, FACTS)), 'equal facts get equal verdicts');
    return `${verdict.decision} ${verdict.matched.length}`;
  },
};

const BASE = 'schema: gw.policy_bundle.v1\nbundle_id: b\nversion: "1"\n';

export const POLICY_TARGETS: readonly FuzzTarget[] = [bundle];
