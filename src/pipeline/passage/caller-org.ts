import type { Provider } from '../../base/catalogue/types.ts';
import { type Maybe, when } from '../../base/lib/maybe.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import { callerIp, type ProxiedIdentity, readIdentity } from '../../inbound/normalise/identity.ts';
import type { CallUnderWay } from '../../services/review/running-calls.ts';
import type { LineGround, Pipeline } from '../parts/call-services.ts';

/** What is asked for the org of a caller. */
type Registers = Pick<Pipeline, 'workloads' | 'settings' | 'authenticator'>;

/**
 * Of which org a caller is, for what is settled before there is a call: whether a host at which an org has a connector
 * is an AI host for him (decision 3.8). It is the gateway's own org, else that of the API key that was shown, else the
 * one that the head names, else that of the workload whose token was shown or which it names, else the one for which
 * its tunnel was opened, else `default`.
 * @param keyOrg the org of the API key that was shown
 */
export function callerOrg(head: ArrivalHead, registers: Registers, keyOrg = head.tunnel?.fixedOrg): string {
  const known = registers.settings.orgId ?? keyOrg;
  if (known !== undefined) return known;
  const said = saidBy(head);
  return said.orgId ?? orgOfWorkload(head, said, registers) ?? head.tunnel?.org ?? 'default';
}

/**
 * Of which org the workload is that a head names: that of the token which its tunnel was opened with or which it shows,
 * since several orgs may have one of this id, else the only org that has one.
 * @returns undefined where it names none, none has it, or several have
 */
export function orgOfWorkload(
  { tunnel }: ArrivalHead,
  { workloadId: said, workloadToken: token }: Partial<ProxiedIdentity>,
  { workloads, authenticator }: Pick<Registers, 'workloads' | 'authenticator'>,
): string | undefined {
  if (tunnel?.workloadOrg !== undefined) return tunnel.workloadOrg;
  const workloadId = tunnel?.fixedWorkload ?? said;
  const holder = token === undefined ? undefined : authenticator.holderOf(token);
  if (holder?.org_id !== undefined && (workloadId ?? holder.workload_id) === holder.workload_id) return holder.org_id;
  return workloadId === undefined ? undefined : workloads.onlyOrgOf(workloadId);
}

/**
 * The same of a request, whose own API key counts as well. Undefined: what it shows is not valid, or not of the org for
 * which its tunnel was opened.
 */
export function orgOfRequest(head: ArrivalHead, pipeline: Registers): Maybe<string | undefined> {
  const said = identityOf(head);
  if (said === undefined) return undefined;
  if (said.apiKey === undefined) return callerOrg(head, pipeline);
  return when(pipeline.authenticator.apiKey(said.apiKey, callerIp(head, pipeline.settings.trustedProxies)), (verdict) => {
    if (verdict.result !== 'valid') return undefined;
    const { org_id: keyOrg } = verdict.key;
    const { fixedOrg = keyOrg } = head.tunnel ?? {};
    return fixedOrg === keyOrg ? callerOrg(head, pipeline, keyOrg) : undefined;
  });
}

/** An identity that is malformed is nobody's here: what passes is not asked who sent it. */
export function saidBy(head: ArrivalHead): Partial<ProxiedIdentity> {
  return identityOf(head) ?? {};
}

function identityOf(head: ArrivalHead): ProxiedIdentity | undefined {
  try {
    return readIdentity(head);
  } catch {
    return undefined;
  }
}

/** Whose traffic something counts as of which nobody is asked who sends it. */
export interface Sender {
  readonly orgId: string;
  readonly workloadId: string;
}

/**
 * As it would be of a call (decisions 4.1, 4.4), but with the names of registered workloads alone: what names another,
 * or none, is of the workload of the org defaults.
 * @param shownOrg of what was shown to the proxy
 */
export function senderOf(
  head: ArrivalHead,
  pipeline: Pick<LineGround, 'workloads' | 'settings' | 'authenticator'>,
  shownOrg?: string,
): Sender {
  const { workloads, authenticator } = pipeline;
  const orgId = shownOrg ?? callerOrg(head, pipeline);
  const { workloadId: said, workloadToken: token } = saidBy(head);
  const named = head.tunnel?.fixedWorkload ?? said ?? (token === undefined ? undefined : authenticator.holderOf(token)?.workload_id);
  const isKnown = named !== undefined && workloads.get(orgId, named) !== undefined;
  return { orgId, workloadId: isKnown ? named : workloads.defaultWorkloadId(orgId) };
}

/**
 * What something is known by that policy is not asked about: whose traffic it counts as, and the provider of its host,
 * of which nobody sees what is called there.
 */
export function passingCall({ orgId, workloadId }: Sender, provider: Provider | undefined): CallUnderWay {
  const hidden = { connectorId: undefined, provider, operation: undefined, model: undefined, named: undefined };
  return { orgId, workloadId, callerId: undefined, callerIp: undefined, place: provider && hidden };
}

/** What is asked for who passes undecided. */
type ServedOrgs = Pick<Pipeline, 'orgs' | 'workloads' | 'settings' | 'authenticator'>;

/**
 * The org for which nobody is let pass, of something that policy is not asked about (decision 4.6): that of the
 * gateway, and those that its head names by header, API key or workload. Undefined: all of them are served.
 * @param shownOrg the org of the API key, or of the token of a workload, that was shown
 */
export function barredOrg(head: ArrivalHead, registers: ServedOrgs, shownOrg = shownFor(head)): string | undefined {
  const { orgs, workloads, settings } = registers;
  const said = saidBy(head);
  const { orgId: named = shownOrg } = said;
  const workloadId = head.tunnel?.fixedWorkload ?? said.workloadId;
  const orgIn = (org: string): string | undefined => (workloadId === undefined ? undefined : workloads.get(org, workloadId)?.org_id);
  const ofWorkload = named === undefined ? orgOfWorkload(head, said, registers) : orgIn(named);
  // Whoever names another org passes through the gateway of this one all the same.
  const own = settings.orgId ?? (named === undefined && ofWorkload === undefined ? 'default' : undefined);
  const isBarred = (org: string | undefined): org is string => org !== undefined && !orgs.isActive(org);
  return [own, named, shownOrg, ofWorkload].find(isBarred);
}

/** What the tunnel was opened with. */
function shownFor({ tunnel }: ArrivalHead): string | undefined {
  return tunnel?.fixedOrg ?? tunnel?.workloadOrg;
}
