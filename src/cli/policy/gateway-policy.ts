import { isJsonObject } from '../../base/json/json-object.ts';
import { PLAN_TIERS } from '../../base/model/plan-tier.ts';
import type { PolicyText } from '../../decide/policy/bundle.ts';
import type { PolicyInput } from '../../decide/policy/compile.ts';
import type { CliIo } from '../command.ts';
import { GatewayClient, GatewayRefusal } from '../gateway-client.ts';
import { type PolicyTarget, UnreadablePath } from './policy-target.ts';

/**
 * The policy that a running gateway judges the calls of an org by: its bundle, however it came there, with the overlays, presets and switches of the org and the plan tier that holds.
 * @param url of the gateway; default: where a gateway with the same settings listens
 * @throws Unusable when it does not answer; UnreadablePath when it tells none
 */
export async function gatewayPolicy(orgId: string, url: string | undefined, io: CliIo): Promise<PolicyTarget> {
  const gateway = await GatewayClient.open(url, io);
  try {
    const told = await gateway.json('GET', `/v1/admin/policies/texts?org_id=${encodeURIComponent(orgId)}`);
    const path = `the policy of ${gateway.origin}`;
    return { path, input: inputIn(told, path), isPart: false, ...contentHashIn(told) };
  } catch (error) {
    if (!(error instanceof GatewayRefusal)) throw error;
    throw new UnreadablePath(`${gateway.origin} does not tell its policy (${error.message}); give one with --policies`, { cause: error });
  }
}

function contentHashIn(told: unknown): Pick<PolicyTarget, 'contentHash'> {
  const hash = isJsonObject(told) ? told['content_hash'] : undefined;
  return typeof hash === 'string' ? { contentHash: hash } : {};
}

function inputIn(told: unknown, path: string): PolicyInput {
  const given = isJsonObject(told) ? told : {};
  const tier = PLAN_TIERS.find((known) => known === given['plan_tier']);
  const [bundle] = textsIn([given['bundle']]);
  if (tier === undefined || bundle === undefined) throw new UnreadablePath(`${path}: what it tells of it is no policy`);
  const files = given['files'] === undefined ? undefined : new Map(textsIn(given['files']).map(({ file, text }) => [file, text]));
  const generated = textsIn(given['generated']).map((one) => ({
    ...one,
    kind: one.kind === 'switch' ? ('switch' as const) : ('preset' as const),
  }));
  const overlays = { org: textsIn(given['org']), node: textsIn(given['node']) };
  return { bundle, files, addons: textsIn(given['addons']), overlays, generated, tier };
}

function textsIn(list: unknown): readonly (PolicyText & { readonly kind: unknown })[] {
  return (Array.isArray(list) ? list : []).flatMap((one: unknown) => {
    if (!isJsonObject(one) || typeof one['file'] !== 'string' || typeof one['text'] !== 'string') return [];
    const own = one['own_rules'] === true ? { ownRules: true as const } : {};
    return [{ file: one['file'], text: one['text'], kind: one['kind'], ...own }];
  });
}
