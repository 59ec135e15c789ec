import type { Config } from '../base/config/config.ts';
import { bracketHost } from '../base/lib/host.ts';
import { loadProtocol } from '../control-plane/proto/protocol.ts';
import { ContactBook } from '../link/contact-book.ts';
import { GatewayLink } from '../link/control-plane-link.ts';
import { EnrolmentError } from '../link/enrolment-error.ts';
import { HashSubmission } from '../link/hash-submission.ts';
import { identityAtStart } from '../link/identity-at-start.ts';
import { LedgerComparison } from '../link/ledger-comparison.ts';
import type { Channel, ControlPlaneLink, RemoteResource } from '../link/link-ports.ts';
import { UpdateStream } from '../link/update-stream.ts';
import type { Ground } from './ground.ts';
import type { Services } from './open-services.ts';
import { remoteRegisters } from './remote-registers.ts';

type LinkGround = Omit<Ground, 'destinations'>;

/** What one part of the gateway has from its control plane. */
export interface RemotePart {
  /** Each kind of thing is fetched by one object. */
  readonly resources: readonly RemoteResource[];
  /** Called once, before the first check-in. */
  attach?(channel: Channel, link: ControlPlaneLink): void;
}

type OpenPart = (config: Config, ground: LinkGround, services: Services) => Promise<RemotePart | undefined>;

/** Everything that has something from a control plane has its row here; undefined: not with these settings. */
const PARTS: readonly OpenPart[] = [openPolicyPart, remoteRegisters];

/** Opened with the registers, so that what was fetched last is in force before anything is asked. */
function openPolicyPart(_config: Config, _ground: LinkGround, { remotePolicies }: Services): Promise<RemotePart | undefined> {
  if (remotePolicies === undefined) return Promise.resolve(undefined);
  const { keys, policy, overlays, addons } = remotePolicies;
  return Promise.resolve({ resources: [keys, policy, overlays, addons] });
}

/**
 * Enrols the gateway where it is not, and opens its way to the control plane: the first check-in, and the fetching that
 * it leads to, have ended or taken three seconds when this resolves. What is to be closed again is pushed to `closers`.
 * @returns undefined in free mode
 * @throws EnrolmentError
 */
export async function openLink(
  config: Config,
  ground: LinkGround,
  services: Services,
  closers: (() => Promise<void>)[],
): Promise<GatewayLink | undefined> {
  const { cpAddr: address, orgId, nodeId, keyDir, bootstrapToken: token, cpCaFile: caFile } = config;
  if (address === undefined) return undefined;
  // Opened where there are both.
  if (orgId === undefined || services.remotePolicies === undefined)
    throw new EnrolmentError('no_org', 'GW_CP_ADDR needs GW_ORG_ID: a gateway belongs to one org of its control plane.');
  const { clock, log, store, clockWatch } = ground;
  const protocol = loadProtocol();
  const contact = await ContactBook.open({
    store,
    clock,
    log,
    orgs: services.orgs,
    plan: services.remotePolicies.plan,
    orgId,
    mayBelieveClock: () => clockWatch.mayExpire,
  });
  const known = { protocol, address, orgId, nodeId, token, caFile, keyDir, clock, log };
  const { identity, org } = await identityAtStart({ ...known, revoked: contact.revoked });
  if (org !== undefined) await contact.heard(org);
  const parts: RemotePart[] = [];
  for (const open of PARTS) {
    const part = await open(config, ground, services);
    if (part) parts.push(part);
  }
  const resources = parts.flatMap((part) => part.resources);
  const place = `${bracketHost(address.host)}:${address.port}`;
  const { keys } = services.remotePolicies;
  const ledger = new LedgerComparison({ keys, orgId, log });
  const submission = await HashSubmission.open({ store, clock, log, events: ground.events, orgId, ledger });
  const link = new GatewayLink({
    protocol,
    address: place,
    identity,
    contact,
    resources,
    keys,
    submission,
    keyDir,
    signedBundle: () => services.policies.current().signed,
    idleMs: config.checkinIdleThreshold,
    clock,
    log,
  });
  closers.push(() => link.close());
  for (const part of parts) part.attach?.(link.channel, link);
  await link.start();
  if (config.gatewayMode === 'managed') closers.push(streamUpdates(link, ground));
  return link;
}

/** Managed mode: hears of what changes as it changes. @returns what ends that */
function streamUpdates(link: GatewayLink, { clock, log, events }: LinkGround): () => Promise<void> {
  const stream = new UpdateStream({
    channel: link.channel,
    clock,
    log,
    events,
    versions: () => link.versions(),
    bringIn: (names) => link.bringIn(names),
  });
  stream.start();
  return () => stream.close();
}
