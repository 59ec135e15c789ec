/*
 * The keeper's half of a gateway: the jobs that run by the clock beside the calls, and the jobs that must run once for
 * a store. The other half (`line.ts`, `ports.ts`) answers calls, and would go on answering without this one. A job that
 * runs once for a store (retention) runs in the process that holds its lease. Every process runs what is its own: its
 * outbox, the exports of its records, its certificate, its folder of policies.
 */
import type { Config } from '../base/config/config.ts';
import { type Kept, keepFromNow } from '../services/keeper/keep-hourly.ts';
import type { ShadowPolicy } from '../services/policy/shadow-policy.ts';
import { followCertificate } from './follow-certificate.ts';
import { followPolicies } from './follow-policies.ts';
import type { Resources } from './resources.ts';

/** A clock may have been wrong. */
const DAY_MS = 86_400_000;

export interface Keeper {
  /** Removes nothing more. The rest goes on while calls finish. */
  drain(): void;
  /** Resolves when nothing of it is under way. */
  stop(): Promise<void>;
}

/** To be called when the ports are open: nobody waits for anything that it does. */
export function startKeeper(config: Config, resources: Resources, shadow: ShadowPolicy | undefined): Keeper {
  resources.outbox.start();
  resources.budgets.raiseMissed();
  const stops: (() => Promise<void>)[] = [];
  if (resources.certificate) stops.push(followCertificate(resources.certificate, resources));
  // Of the shadow bundle alone where the control plane gives the other.
  const isFollowed = config.cpAddr === undefined || shadow !== undefined;
  if (config.policiesWatch && isFollowed) stops.push(followPolicies(resources, shadow));
  const stopRetention = keepFromNow(resources, keptOf(config, resources));
  stops.push(stopRetention);
  return {
    drain: () => void stopRetention(),
    stop: async () => {
      for (let stop = stops.pop(); stop; stop = stops.pop()) await stop();
    },
  };
}

/** What is removed when it is old. */
function keptOf(
  config: Config,
  { store, audit, alerts, chatUsers, consoleSessions, exports, approvals, quarantines, stops, delegations, risks, link }: Resources,
): readonly Kept[] {
  return [
    {
      what: 'records',
      ms: config.recordRetention,
      removeBefore: (epochMs) => {
        const remove = (): Promise<number> => exports.countingUnsent(epochMs, () => store.removeRecordsBefore(epochMs));
        return link === undefined ? remove() : link.submission.countingUnsent(epochMs, remove);
      },
    },
    { what: 'entries of the audit trail', ms: config.auditRetention, removeBefore: (epochMs) => audit.removeBefore(epochMs) },
    { what: 'the history of alerts', ms: config.recordRetention, removeBefore: (epochMs) => alerts.history.removeBefore(epochMs) },
    { what: 'messages about approvals', ms: config.recordRetention, removeBefore: (epochMs) => alerts.messages.removeBefore(epochMs) },
    { what: 'links by which users of chats say who they are', ms: DAY_MS, removeBefore: (epochMs) => chatUsers.removeBefore(epochMs) },
    { what: 'ended sessions of the console', ms: 0, removeBefore: () => consoleSessions?.removeEnded() ?? Promise.resolve(0) },
    { what: 'undelivered events', ms: config.recordRetention, removeBefore: (epochMs) => exports.deadLetters.removeBefore(epochMs) },
    { what: 'decided approvals', ms: config.recordRetention, removeBefore: (epochMs) => approvals.removeBefore(epochMs) },
    { what: 'released quarantine entries', ms: config.recordRetention, removeBefore: (epochMs) => quarantines.removeBefore(epochMs) },
    { what: 'stops that have ended', ms: DAY_MS, removeBefore: (epochMs) => stops.removeBefore(epochMs) },
    { what: 'revocations of delegations that have ended', ms: DAY_MS, removeBefore: (epochMs) => delegations.removeBefore(epochMs) },
    { what: 'risk profiles', ms: config.recordRetention, removeBefore: (epochMs) => risks.removeBefore(epochMs) },
  ];
}
