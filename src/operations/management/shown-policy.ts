/* The policy of an org as it is read, listed and tagged. */
import { z } from 'zod';
import { timestamp } from '../../base/lib/clock.ts';
import { type ActivePolicy, POLICY_SOURCES } from '../../services/policy/active-policy.ts';
import type { PolicyService } from '../../services/policy/policies.ts';
import { doubtsOf } from '../../services/policy/policy-doubts.ts';
import { emptiedWarnings, notLoadedPieces } from '../../services/policy/policy-warnings.ts';
import { withEtag } from '../etag.ts';
import { optional } from '../members.ts';
import type { Shown } from '../operation.ts';
import { namesOf, POLICY_WARNINGS } from '../policy-operations.ts';
import { etag, PROBLEM, time } from '../shapes.ts';

/** The bundle, or an overlay. */
export const BUNDLE = z.object({
  level: z.enum(['base', 'org', 'node']),
  node_id: z.string().optional(),
  bundle_id: z.string().optional().meta({ description: 'Of the base' }),
  version: z.string().optional().meta({ description: 'Of the base; of one from a control plane: as it was signed there' }),
  sequence: z.int().optional().meta({ description: 'Of a base from a control plane' }),
  kid: z.string().optional().meta({ description: 'Of a base from a control plane: the key that has signed it' }),
  source: z
    .enum([...POLICY_SOURCES, 'generated'])
    .meta({ description: '`generated`: the rules `auto.allow.{provider}` of an org that has credentials from its control plane' }),
  loaded_at: time,
  bundle_yaml: z.string().optional().meta({ description: 'Of an overlay' }),
});
/** What is said of all of it. */
export const ABOUT_ALL = {
  etag,
  warnings: POLICY_WARNINGS.optional().meta({ description: 'Gating layers that have lost their last rule and count as absent' }),
  not_loaded: z
    .array(
      z.object({
        piece: z.string().meta({ description: '`org overlay`, `node overlay`, `preset ID`, or the file of the bundle' }),
        problems: z.array(PROBLEM),
        take_away: z.string().meta({ description: 'What takes it away; the rest need not load for that' }),
      }),
    )
    .optional()
    .meta({ description: 'What does not load here, and why: while there is some, all requests of the org are denied' }),
};
export type ShownBundle = z.output<typeof BUNDLE>;

const SHOWN = z.object({ data: z.array(BUNDLE), ...ABOUT_ALL });
/** What of an org's policy several people may change. */
export type ShownPolicy = Shown<z.output<typeof SHOWN>>;

/** It, as it is read and tagged. @param judged what the org is judged by */
export function shownPolicy(
  policies: PolicyService,
  orgId: string,
  overlays = policies.overlays(orgId),
  judged: ActivePolicy = policies.current(orgId),
): ShownPolicy {
  const active = policies.current();
  const { source, loaded_at } = active;
  const auto = policies.autoRules(orgId);
  const base = { level: 'base' as const, ...namesOf(active), source, loaded_at: timestamp(loaded_at) };
  const warnings = [...emptiedWarnings(judged.policy), ...doubtsOf(judged.policy, policies.passage)];
  const laid = overlays.map(({ level, node_id, bundle_yaml, put_at }) => ({
    level,
    ...optional('node_id', node_id),
    source: 'api' as const,
    loaded_at: timestamp(put_at),
    bundle_yaml,
  }));
  const generated =
    auto === undefined ? [] : [{ level: 'org' as const, source: 'generated' as const, loaded_at: base.loaded_at, bundle_yaml: auto }];
  return withEtag({
    data: [base, ...generated, ...laid],
    ...(warnings.length === 0 ? {} : { warnings }),
    ...(judged.notLoaded === undefined ? {} : { not_loaded: notLoadedPieces(judged.notLoaded) }),
  });
}
