import { z } from 'zod';
import { PLAN_TIERS } from '../base/model/org.ts';
import type { PolicyText } from '../decide/policy/bundle.ts';
import { textsOfLevel } from '../decide/policy/compile.ts';
import { id } from './members.ts';
import { type GatewayOperation, operation, READS } from './operation.ts';

/** No org is called so: what holds for all of them. */
const NO_ORG = '';

const TEXT = z.object({
  file: z.string().meta({ description: 'As mistakes in it are reported' }),
  text: z.string(),
  own_rules: z.literal(true).optional().meta({ description: 'Written by the gateway itself' }),
});
const GENERATED = TEXT.extend({ kind: z.enum(['preset', 'switch']) });

const TEXTS = z.object({
  bundle_id: z.string(),
  version: z.string(),
  content_hash: z.string().meta({ description: 'SHA-256 over the texts; records have its first digits' }),
  plan_tier: z.enum(PLAN_TIERS),
  bundle: TEXT,
  files: z.array(TEXT).optional().meta({ description: 'By the names under `files`; absent of a bundle that was put or fetched' }),
  addons: z.array(TEXT),
  org: z.array(TEXT).meta({ description: 'Overlays, in the order in which they are laid' }),
  node: z.array(TEXT),
  generated: z.array(GENERATED).meta({ description: 'Presets and switches of the org' }),
});

/** What somebody needs to judge a call as this gateway does (decision 7.4). */
export const POLICY_TEXT_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'policies.texts',
    method: 'GET',
    path: '/v1/admin/policies/texts',
    scope: 'admin',
    summary:
      'The texts that calls are judged by: the bundle in force with its files, its overlays, and with `org_id` what that org lays over it.',
    annotations: READS,
    input: { query: { schema: () => z.strictObject({ org_id: id.optional() }) } },
    output: { status: 200, schema: TEXTS },
    handle: async ({ query: { org_id: orgId } }, { policies }) => {
      const { bundle_id, version, content_hash } = orgId === undefined ? policies.current() : await policies.ready(orgId);
      const { bundle, files, addons = [], overlays, generated = [] } = policies.texts(orgId ?? NO_ORG);
      return {
        json: {
          bundle_id,
          version,
          content_hash,
          plan_tier: policies.tier,
          bundle: shown(bundle),
          ...(files === undefined ? {} : { files: [...files].map(([file, text]) => ({ file, text })) }),
          addons: addons.map(shown),
          org: textsOfLevel(overlays?.org).map(shown),
          node: textsOfLevel(overlays?.node).map(shown),
          generated: generated.map((one) => ({ ...shown(one), kind: one.kind })),
        },
      };
    },
  }),
];

function shown({ file, text, ownRules }: PolicyText) {
  return { file, text, ...(ownRules === true ? { own_rules: true as const } : {}) };
}
