import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { decide } from '../../../src/decide/policy/evaluate.ts';
import { bundleOf, policyOf, someFacts } from './policy-facts.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/**
 * Kinds of conditions, none of which holds and none of which an index takes away. (A time is a number too large for V8
 * to hand on without a box.)
 */
const CONDITIONS: readonly ((at: number) => object)[] = [
  (at) => ({ field: 'context.estimates.tokens_in', gt: 1_000_000 + at }),
  (at) => ({ field: 'context.estimates.cost_usd', gt: `${1000 + at}` }),
  (at) => ({ field: 'context.action.target_path', glob: `/v*/x-${at}/*` }),
  (at) => ({ field: 'context.action.target_path', starts_with: `/v${at + 2}` }),
  (at) => ({ field: 'context.caller_ip', cidr: [`192.168.${at % 256}.0/24`] }),
  (at) => ({ field: 'context.purpose', not_in: [`p${at}`], exists: true }),
  (at) => ({
    any: [
      { field: 'context.action.params.model', equals: `m-${at}` },
      { field: 'context.stream', equals: true },
    ],
  }),
];
const RULES = 4_000;
const ROUNDS = 100;

t.test('a rule that does not match costs no memory', async (t) => {
  const risk = Array.from({ length: RULES }, (_, at) => ({
    id: `r${at}`,
    when: CONDITIONS[at % CONDITIONS.length]?.(at),
    effect: { decision: 'deny' },
  }));
  const policy = policyOf(bundleOf({ risk, transforms: [{ id: 'ok', effect: { decision: 'allow' } }] }));
  const facts = someFacts();
  for (let round = 0; round < 300; round++) t.equal(decide(policy, facts).decision, 'allow');
  let least = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < 5; attempt++) {
    collectGarbage();
    const before = process.memoryUsage().heapUsed;
    for (let round = 0; round < ROUNDS; round++) decide(policy, facts);
    least = Math.min(least, process.memoryUsage().heapUsed - before);
  }
  t.ok(
    least < 2 * RULES * ROUNDS,
    `${least} bytes for ${RULES * ROUNDS} rules: less than two for each, where the smallest object takes sixteen`,
  );
});
