import { GatewayError } from '../../base/lib/gateway-error.ts';
import { API_KEY_PREFIX, WORKLOAD_TOKEN_PREFIX } from '../../base/lib/own-tokens.ts';
import type { ArrivalHead, TriedCaller, Tunnel } from '../../base/model/arrival.ts';
import type { LineGround } from '../../pipeline/parts/call-services.ts';
import { ProxyAuthenticationRequired } from '../../pipeline/parts/proxy-authentication.ts';
import type { ApiKeyVerdict } from '../../services/people/api-keys.ts';
import { keyRefusal, orgOfKey } from '../../services/people/authenticator.ts';
import { callerIp } from '../normalise/identity.ts';
import { namedBy, type ShownToProxy, shownAs } from '../normalise/shown-by.ts';

/** What is settled for everything inside a tunnel. */
type Fixed = Pick<Tunnel, 'fixedWorkload' | 'workloadOrg' | 'fixedOrg'>;

/**
 * Whether somebody may use the proxy (decisions 4.5, 9.5). A user name in `Proxy-Authorization` names a workload; one
 * that has a token must give it as the password. In the place of either may stand an API key, which must be valid; with
 * `GW_MANAGED_MODE` there must be one.
 * @param headOf for who is told of a failure
 * @param isTrial it only asks what would be said: nobody is told of a failure, and none is counted (decision 12.11)
 */
export async function letIn(
  shown: ShownToProxy,
  headOf: () => ArrivalHead,
  pipeline: LineGround,
  isTrial = false,
): Promise<Fixed | GatewayError> {
  const org = await orgOf(shown, headOf, pipeline, isTrial);
  if (org instanceof Error) return org;
  const { authenticator } = pipeline;
  const token = shownAs(WORKLOAD_TOKEN_PREFIX, shown) ?? shown.password;
  const holder = token === undefined ? undefined : authenticator.holderOf(token);
  const workloadId = namedBy(shown) ?? holder?.workload_id;
  // Of whose workload the token is it says itself; requests inside are asked again, with the org that they name.
  const ofToken = holder?.workload_id === workloadId ? holder?.org_id : undefined;
  const named = ofToken ?? org ?? (headOf().headers['x-gw-org-id'] || pipeline.settings.orgId) ?? 'default';
  const verdict = authenticator.caller(named, workloadId, token, org === undefined ? undefined : false);
  const fixed = org === undefined ? {} : { fixedOrg: org };
  if (verdict === 'open') return fixed;
  if (verdict === 'holder' && workloadId !== undefined)
    return { ...fixed, fixedWorkload: workloadId, ...(holder?.org_id === undefined ? {} : { workloadOrg: holder.org_id }) };
  if (!isTrial) authenticator.failed({ surface: 'proxy', head: headOf(), presented: token, workloadId });
  return tokenNeeded(workloadId, token);
}

function tokenNeeded(workloadId: string | undefined, shown: string | undefined): GatewayError {
  const needed = workloadId === undefined ? 'a workload and its token' : `the token of workload ${workloadId}`;
  const wrong = shown?.startsWith(WORKLOAD_TOKEN_PREFIX) === true ? '; the one that was shown is not valid' : '';
  return ProxyAuthenticationRequired.forWorkload(`This proxy needs ${needed}${wrong}.`, workloadId);
}

/**
 * What calls of somebody would come to who shows this: nobody is told of a failure, and none is counted (decision
 * 12.11).
 */
export async function tryCaller(shown: ShownToProxy, headOf: () => ArrivalHead, pipeline: LineGround): Promise<TriedCaller> {
  const org = await orgOf(shown, headOf, pipeline, true);
  if (org instanceof Error) return { refused: true, problem: org.message, needs: 'api_key' };
  const who = await letIn(shown, headOf, pipeline, true);
  if (who instanceof Error) return { refused: true, problem: who.message, needs: 'workload_token' };
  const { settings, workloads } = pipeline;
  const orgId = org ?? who.workloadOrg ?? settings.orgId ?? 'default';
  const workloadId = who.fixedWorkload ?? namedBy(shown) ?? workloads.defaultWorkloadId(orgId);
  if (workloads.get(orgId, workloadId) === undefined)
    return { refused: true, problem: `Workload ${workloadId} is not registered for org ${orgId}.`, needs: 'registration' };
  const ignored = who.fixedWorkload === undefined && shownAs(WORKLOAD_TOKEN_PREFIX, shown) !== undefined;
  const problem = `The workload token that is shown is not that of workload ${workloadId}, which needs none: it counts as if none were shown.`;
  return { refused: false, problem: ignored ? problem : undefined, needs: ignored ? 'workload_token' : undefined };
}

/** The org of the key that is shown; undefined where none is, and none needed. */
async function orgOf(
  shown: ShownToProxy,
  headOf: () => ArrivalHead,
  { authenticator, settings }: LineGround,
  isTrial: boolean,
): Promise<string | undefined | GatewayError> {
  const key = shown.apiKey ?? shownAs(API_KEY_PREFIX, shown);
  if (key === undefined && !authenticator.needsApiKey) return undefined;
  let verdict: ApiKeyVerdict | undefined;
  try {
    verdict = key === undefined ? undefined : await authenticator.apiKey(key, callerIp(headOf(), settings.trustedProxies));
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
  if (verdict?.result === 'valid') return verdict.key.org_id;
  const reason = verdict?.result ?? 'missing_header';
  if (!isTrial)
    authenticator.failed({ surface: 'proxy', head: headOf(), presented: undefined, reason, orgId: verdict && orgOfKey(verdict) });
  const message = verdict === undefined ? 'This proxy needs an API key.' : keyRefusal(verdict);
  return new ProxyAuthenticationRequired(message, 'the password is an API key, gwk_...');
}
