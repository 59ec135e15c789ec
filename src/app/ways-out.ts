import type { Config } from '../base/config/config.ts';
import type { Clock } from '../base/lib/clock.ts';
import { bracketHost } from '../base/lib/host.ts';
import { ChannelTelemetry } from '../link/channel-telemetry.ts';
import { SmtpSender } from '../outbound/destinations/smtp-sender.ts';
import { postReports } from '../outbound/destinations/telemetry-post.ts';
import type { Fetching, WayOut } from '../outbound/destinations/way-out.ts';
import { SideDoor } from '../outbound/net/side-door.ts';
import type { RawWays } from '../outbound/net/upstream.ts';
import type { GatewayPlace } from '../services/sending/alerts/card-parts.ts';
import type { StaticDestination } from '../services/sending/exports/export-service.ts';
import type { TelemetryState } from '../services/sending/telemetry/usage-telemetry.ts';

/** What alerts and exported events leave by, and price lists come by. */
export interface WaysOut {
  readonly door: WayOut & Fetching;
  /** Undefined without `GW_SMTP_URL`. */
  readonly smtp: SmtpSender | undefined;
  /** Whether `http` is allowed to a host that somebody who manages an org has named. */
  readonly mayBePlain: (host: string) => boolean;
  /** Where people manage this gateway, for what an alert tells them. */
  readonly place: GatewayPlace;
  /** Where settings want every event to go. */
  readonly configured: readonly StaticDestination[];
  /** Where usage reports go, or why they go nowhere. */
  readonly telemetry: TelemetryState;
  /** What carries them to the control plane; undefined without one. */
  readonly throughChannel: ChannelTelemetry | undefined;
}

export interface WaysOutOptions extends Pick<WaysOut, 'place'> {
  readonly upstream: RawWays;
  readonly clock: Clock;
  /** PEM text of `GW_UPSTREAM_CA_FILE`. */
  readonly extraRoots: string | undefined;
  readonly closers: (() => Promise<void>)[];
}

export function waysOut(config: Config, { upstream, clock, extraRoots, place, closers }: WaysOutOptions): WaysOut {
  const { egressAllow, smtpUrl: server, smtpFrom: from } = config;
  const door = new SideDoor(upstream, clock);
  closers.push(async () => door.close());
  const throughChannel = new ChannelTelemetry();
  return {
    door,
    smtp: server === undefined || from === undefined ? undefined : new SmtpSender({ door, clock, server, from, extraRoots }),
    mayBePlain: (to) => egressAllow.hosts.has(to) || egressAllow.ranges.has(to),
    place,
    configured: configuredDestinations(config),
    telemetry: telemetryState(config, { door, clock, throughChannel }),
    throughChannel: config.cpAddr === undefined ? undefined : throughChannel,
  };
}

function configuredDestinations({
  exportWebhookUrl: to,
  exportWebhookToken: token,
  exportSyslogAddr: address,
}: Config): readonly StaticDestination[] {
  const found: StaticDestination[] = [];
  if (to !== undefined) found.push({ id: 'setting-webhook', target: { kind: 'webhook', to, token } });
  if (address !== undefined)
    found.push({ id: 'setting-syslog', target: { kind: 'syslog', ...address, format: 'rfc5424', operatorOwn: true } });
  return found;
}

function telemetryState(
  { telemetryUrl: to, telemetryEnabled, cpAddr }: Config,
  { door, clock, throughChannel }: { readonly door: WayOut; readonly clock: Clock; readonly throughChannel: ChannelTelemetry },
): TelemetryState {
  if (!telemetryEnabled) return { sending: false, why: 'GW_TELEMETRY_ENABLED is false' };
  if (cpAddr !== undefined) return { sending: true, url: `grpcs://${bracketHost(cpAddr.host)}:${cpAddr.port}`, send: throughChannel.send };
  if (to === undefined) return { sending: false, why: 'GW_TELEMETRY_URL is not set' };
  const { host, port } = to.authority;
  const url = `${to.tls ? 'https' : 'http'}://${bracketHost(host)}:${port}${to.path.split('?', 1)[0] ?? ''}`;
  return { sending: true, url, send: postReports({ door, clock }, to) };
}
