import { GatewayError } from '../../base/lib/gateway-error.ts';
import { type IpSet, parseIp } from '../../base/lib/ip.ts';
import { holdsOwnToken, refuseTokenInUrl, tokenInUrl } from '../../base/lib/own-tokens.ts';
import type { Attribution } from '../../base/model/action-request.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import { EnvelopeProblems, headerText, ID_RULE, isId, MAX_LABELS, MAX_TEXT, member, OWN_TOKEN_RULE, TEXT_RULE } from './envelope-rules.ts';
import { namedBy, providerHeaderToken, shownBy } from './shown-by.ts';

/**
 * What a proxied request says about its sender, unverified. An absent member means that the request does not say it.
 */
export interface ProxiedIdentity {
  readonly orgId?: string;
  readonly workloadId?: string;
  /** Where `workloadId` comes from; the org's default workload stands in for `none` (decision 4.4). */
  readonly workloadSource: 'header' | 'proxy_user' | 'none';
  /** Set when the CONNECT authenticated: another workload inside the tunnel is refused (decision 4.5). */
  readonly fixedWorkload?: string;
  readonly callerId?: string;
  readonly attribution: Attribution;
  /** Recorded, never verified (specification, "Transparent proxy mode"). */
  readonly delegationId?: string;
  /**
   * `X-GW-Workload-Token`, what begins as one in `X-GW-API-Key`, or what begins as one in a header in which a provider
   * takes its key.
   */
  readonly workloadToken?: string;
  /**
   * `X-GW-API-Key`, what begins as one in `X-GW-Workload-Token`, or what begins as one in a header in which a provider
   * takes its key, or in the Basic credentials of the proxy.
   */
  readonly apiKey?: string;
  /** User name and password of `Proxy-Authorization: Basic`, of the CONNECT or of this request. */
  readonly proxyUser?: string;
  readonly proxyPassword?: string;
}

type Kind = 'id' | 'text';

/**
 * Request header → member, and the rule that its value keeps (specification, "Transparent proxy mode"; decisions 4.2,
 * 4.3, 4.5).
 */
const HEADERS = {
  org: ['x-gw-org-id', 'X-GW-Org-ID', 'id'],
  workload: ['x-gw-workload-id', 'X-GW-Workload-ID', 'id'],
  caller: ['x-gw-caller-id', 'X-GW-Caller-ID', 'text'],
  project: ['x-gw-project-id', 'X-GW-Project-ID', 'text'],
  customer: ['x-gw-customer-id', 'X-GW-Customer-ID', 'text'],
  account: ['x-gw-account-id', 'X-GW-Account-ID', 'text'],
  delegation: ['x-gw-delegation-id', 'X-GW-Delegation-ID', 'id'],
} as const satisfies Record<string, readonly [lower: string, shown: string, kind: Kind]>;

const LABEL_HEADER = 'x-gw-label-';
const NO_ATTRIBUTION: Attribution = {};
/** Nearly every request of an application that was not changed for this gateway. */
const NOBODY: ProxiedIdentity = { workloadSource: 'none', attribution: NO_ATTRIBUTION };

/**
 * Reads who sent a proxied request. An empty header counts as absent.
 * @throws GatewayError `invalid_request`, `details` naming every header that breaks decision 4.7
 */
export function readIdentity(head: ArrivalHead): ProxiedIdentity {
  const byHeader = providerHeaderToken(head);
  if (byHeader === undefined && saysNothing(head)) return NOBODY;
  const problems = new EnvelopeProblems();
  const read = (key: keyof typeof HEADERS): string | undefined => readHeader(head, HEADERS[key], problems);
  const { apiKey, workloadToken, proxy } = shownBy(head, byHeader);
  const orgId = read('org');
  const workload = readWorkload(read('workload'), namedBy(proxy), problems);
  const callerId = read('caller');
  const attribution = readAttribution(read('project'), read('customer'), read('account'), readLabels(head, problems));
  const delegationId = read('delegation');
  if (problems.found) throw new GatewayError('invalid_request', 'The identity headers are not valid.', { details: problems.details });
  return {
    ...member('orgId', orgId),
    ...workload,
    ...member('fixedWorkload', head.tunnel?.fixedWorkload),
    ...member('callerId', callerId),
    attribution,
    ...member('delegationId', delegationId),
    ...member('workloadToken', workloadToken),
    ...member('apiKey', apiKey),
    ...member('proxyUser', proxy.user),
    ...member('proxyPassword', proxy.password),
  };
}

function saysNothing({ headers, tunnel }: ArrivalHead): boolean {
  if (tunnel?.fixedWorkload !== undefined || tunnel?.apiKey !== undefined) return false;
  if (tunnel?.proxyUser !== undefined || tunnel?.proxyPassword !== undefined) return false;
  for (const name in headers) if (name.startsWith('x-gw-') || name === 'proxy-authorization') return false;
  return true;
}

/** First that is present: the header, the user name of the proxy (decision 4.4). */
function readWorkload(
  named: string | undefined,
  proxyUser: string | undefined,
  problems: EnvelopeProblems,
): Pick<ProxiedIdentity, 'workloadId' | 'workloadSource'> {
  if (named !== undefined) return { workloadId: named, workloadSource: 'header' };
  if (proxyUser === undefined) return { workloadSource: 'none' };
  if (holdsOwnToken(proxyUser)) problems.add('Proxy-Authorization', `the user name ${OWN_TOKEN_RULE}`);
  if (!isId(proxyUser)) problems.add('Proxy-Authorization', `the user name ${ID_RULE}`);
  return { workloadId: proxyUser, workloadSource: 'proxy_user' };
}

/**
 * The caller's address (specification, "Execution record"; decision 4.2): the first of `X-Forwarded-For`, else
 * `X-Real-IP`, else the TCP peer. The headers count only from a trusted peer and only when they hold an IP address.
 * Inside a tunnel the address is that of its CONNECT: what stands on a request in there was written by the client
 * alone, whoever the peer is. IPv4-mapped IPv6 is given as IPv4.
 */
export function callerIp({ headers, remoteAddress: peer, tunnel }: ArrivalHead, trustedProxies: IpSet): string {
  if (tunnel !== undefined) return tunnel.callerIp ?? peerText(peer);
  const isForwarded = headers['x-forwarded-for'] !== undefined || headers['x-real-ip'] !== undefined;
  // A plain IPv4 peer is canonical already.
  return isForwarded || peer.includes(':') ? sentFrom(headers, peer, trustedProxies) : peer;
}

/** The address of whoever sent this head, which stands in no tunnel; see {@link callerIp}. */
export function sentFrom(headers: ArrivalHead['headers'], peer: string, trustedProxies: IpSet): string {
  const forwarded = headers['x-forwarded-for'];
  const real = headers['x-real-ip'];
  if ((forwarded !== undefined || real !== undefined) && trustedProxies.has(peer)) {
    const named = addressText(forwarded?.split(',', 1)[0]) ?? addressText(real);
    if (named !== undefined) return named;
  }
  return peerText(peer);
}

function peerText(peer: string): string {
  // A plain IPv4 peer is canonical already.
  return peer.includes(':') ? (parseIp(peer)?.text ?? peer) : peer;
}

function readHeader(
  head: ArrivalHead,
  [lower, shown, kind]: readonly [string, string, Kind],
  problems: EnvelopeProblems,
): string | undefined {
  const value = head.headers[lower];
  if (value === undefined || value === '') return undefined;
  if (holdsOwnToken(value)) problems.add(shown, OWN_TOKEN_RULE);
  if (kind === 'id') {
    if (!isId(value)) problems.add(shown, ID_RULE);
    return value;
  }
  const text = headerText(value);
  if (text.length > MAX_TEXT) problems.add(shown, TEXT_RULE);
  return text;
}

function readAttribution(
  project: string | undefined,
  customer: string | undefined,
  account: string | undefined,
  labels: Attribution['labels'],
): Attribution {
  if (project === undefined && customer === undefined && account === undefined && labels === undefined) return NO_ATTRIBUTION;
  return {
    ...member('customer_id', customer),
    ...member('account_id', account),
    ...member('project_id', project),
    ...member('labels', labels),
  };
}

/** `X-GW-Label-{name}` is the label of that name, in lower case as header names are (decision 4.3). */
function readLabels({ headers }: ArrivalHead, problems: EnvelopeProblems): Attribution['labels'] {
  const labels: [name: string, value: string][] = [];
  for (const name in headers) {
    const value = name.startsWith(LABEL_HEADER) ? headers[name] : undefined;
    if (value === undefined || value === '' || name === LABEL_HEADER) continue;
    const text = headerText(value);
    if (text.length > MAX_TEXT || name.length - LABEL_HEADER.length > MAX_TEXT)
      problems.add(`X-GW-Label-${name.slice(LABEL_HEADER.length)}`, TEXT_RULE);
    if (holdsOwnToken(text) || holdsOwnToken(name)) problems.add('X-GW-Label-*', OWN_TOKEN_RULE);
    labels.push([name.slice(LABEL_HEADER.length), text]);
  }
  if (labels.length > MAX_LABELS) problems.add('X-GW-Label-*', `at most ${MAX_LABELS} labels`);
  return labels.length === 0 ? undefined : Object.fromEntries(labels);
}

/** Canonical text of an address that may carry a port, as some load balancers write it. */
function addressText(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const bare = text.trim();
  const match = /^\[([^\]]+)\](?::\d+)?$/.exec(bare) ?? /^([\d.]+):\d+$/.exec(bare);
  return parseIp(match?.[1] ?? bare)?.text;
}

/**
 * No key or token of this gateway is a part of an address (decision 3.21): of the target of a request, its Host or the
 * host that it asks for.
 * @throws GatewayError `invalid_request`
 */
export function refuseTokenInAddress({ rawTarget, headers }: ArrivalHead, adminToken: string): void {
  const { host = '', 'x-gw-target-host': named = '' } = headers;
  // What nearly every address lacks is looked for here, without a step for each part of it.
  const isPlain = !(rawTarget.includes('_') || rawTarget.includes('%') || host.includes('_') || named.includes('_'));
  if (isPlain && rawTarget.length < adminToken.length) return;
  refuseTokenInUrl(rawTarget, adminToken);
  if (holdsOwnToken(host) || holdsOwnToken(named)) throw tokenInUrl();
}
