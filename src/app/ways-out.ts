import type { Config } from '../base/config/config.ts';
import type { Clock } from '../base/lib/clock.ts';
import { bracketHost } from '../base/lib/host.ts';
import { SmtpSender } from '../outbound/destinations/smtp-sender.ts';
import type { WayOut } from '../outbound/destinations/way-out.ts';
import { SideDoor } from '../outbound/net/side-door.ts';
import type { RawWays, Upstream } from '../outbound/net/upstream.ts';
import type { StaticDestination } from '../services/exports/export-service.ts';

/** What alerts and exported events leave by. */
export interface WaysOut {
  readonly door: WayOut;
  /** Undefined without `GW_SMTP_URL`. */
  readonly smtp: SmtpSender | undefined;
  /** Whether `http` is allowed to a host that somebody who manages an org has named. */
  readonly mayBePlain: (host: string) => boolean;
  /** Where people manage this gateway, for what an alert tells them to type. */
  readonly gatewayUrl: string;
  /** Where settings want every event to go. */
  readonly configured: readonly StaticDestination[];
}

/** @param extraRoots PEM text of `GW_UPSTREAM_CA_FILE` */
export function waysOut(config: Config, upstream: Upstream & RawWays, clock: Clock, extraRoots: string | undefined): WaysOut {
  const { egressAllow, smtpUrl: server, smtpFrom: from, host, port, mgmtPort, publicNames } = config;
  const door = new SideDoor(upstream, clock);
  const [name = host === '0.0.0.0' || host === '::' ? 'localhost' : host] = publicNames;
  return {
    door,
    smtp: server === undefined || from === undefined ? undefined : new SmtpSender({ door, server, from, extraRoots }),
    mayBePlain: (to) => egressAllow.hosts.has(to) || egressAllow.ranges.has(to),
    gatewayUrl: `http://${bracketHost(name)}:${mgmtPort ?? port}`,
    configured: configuredDestinations(config),
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
