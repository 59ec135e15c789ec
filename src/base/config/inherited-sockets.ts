import type { TrafficClass } from '../model/action-request.ts';
import type { Environment } from './settings-reader.ts';

/** Where systemd puts the first descriptor that it hands over (sd_listen_fds(3)). */
const FIRST = 3;
const NAMES: Readonly<Record<string, TrafficClass>> = { proxy: 'developer', ambient: 'ambient' };
const ORDER = ['developer', 'ambient'] as const satisfies readonly TrafficClass[];

/** Descriptors of sockets that listen already, by the traffic they are for. */
export type InheritedSockets = Readonly<Partial<Record<TrafficClass, number>>>;

/**
 * The sockets that whoever started this process hands over, as systemd does (`LISTEN_FDS`, `LISTEN_PID`,
 * `LISTEN_FDNAMES`): those that are named `proxy` and `ambient`; else the first is for `GW_PORT`, the second for
 * `GW_AMBIENT_PORT`. They stay open in that process, so that connections wait while this one restarts.
 * @throws Error for a person when they cannot be told apart
 */
export function inheritedSockets(env: Environment = process.env, pid = process.pid): InheritedSockets {
  // Meant for another process, which handed its environment on.
  if (env['LISTEN_PID'] !== String(pid)) return {};
  const text = env['LISTEN_FDS'] ?? '';
  if (!/^[1-9]\d{0,3}$/.test(text)) throw new Error(`LISTEN_FDS: ${JSON.stringify(text.slice(0, 80))} is no number of sockets`);
  const count = Number(text);
  const names = (env['LISTEN_FDNAMES'] ?? '').split(':');
  const named = names.length === count && names.every((name) => Object.hasOwn(NAMES, name));
  if (count > ORDER.length || (named && new Set(names).size < count)) {
    throw new Error(`LISTEN_FDS: ${count} sockets were handed over; this takes one for GW_PORT and one for GW_AMBIENT_PORT`);
  }
  const sockets: Partial<Record<TrafficClass, number>> = {};
  for (let at = 0; at < count; at++) {
    const trafficClass = named ? NAMES[names[at] ?? ''] : ORDER[at];
    if (trafficClass !== undefined) sockets[trafficClass] = FIRST + at;
  }
  return sockets;
}
