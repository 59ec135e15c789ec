import type { DurableEvent } from '../../../base/events/destination.ts';
import { readAmount } from '../../../base/lib/amounts.ts';
import { timestamp } from '../../../base/lib/clock.ts';
import type { BudgetAlert, BudgetLevel } from '../../../base/model/budget-limit.ts';
import type { QuarantineEntry } from '../../../base/model/quarantine-entry.ts';
import type { RiskAlert } from '../../../base/model/risk-alert.ts';
import { type AlertCard, own, said } from '../../../outbound/destinations/alert-card.ts';
import { approvalSaid } from './approval-cards.ts';
import { facts, type GatewayPlace, ownIfAny, type Said } from './card-parts.ts';

const TONES: Readonly<Record<BudgetLevel, AlertCard['tone']>> = { warning: 'warning', critical: 'critical', exceeded: 'critical' };
const NEAR: Readonly<Record<BudgetLevel, string>> = {
  warning: 'has reached its warning threshold',
  critical: 'has reached its critical threshold',
  exceeded: 'is spent',
};

/** What an alert of an event says; undefined for one of which nobody is alerted. */
export function cardOf(event: DurableEvent, alertId: string, place: GatewayPlace): AlertCard | undefined {
  const said = saidOf(event, place);
  return said && { ...said, alertId, at: timestamp(event.at) };
}

/** An alert that says that alerts arrive. */
export function testCard(alertId: string, channelName: string, orgId: string, epochMs: number): AlertCard {
  return {
    alertId,
    title: own('Test alert'),
    tone: 'info',
    text: own('Somebody has asked for this alert to see whether it arrives. Nothing has happened.'),
    facts: facts(['test', own('true')], ['channel', channelName], ['org_id', orgId]),
    at: timestamp(epochMs),
  };
}

function saidOf(durable: DurableEvent, place: GatewayPlace): Said | undefined {
  if (durable.name === 'budgetAlert') return budget(durable.event);
  if (durable.name === 'approval') return durable.event.status === 'pending' ? approvalSaid(durable.event, place) : undefined;
  if (durable.name === 'quarantine') return durable.event.released_at === null ? quarantine(durable.event, place.url) : undefined;
  return durable.name === 'riskNotice' ? risk(durable.event) : undefined;
}

/** Decision 11.2 has the members. */
function budget({ limit, level, periodStart, spentUsd, refusal }: BudgetAlert): Said {
  const pct = percentOf(spentUsd, limit.limit_usd);
  const whose = limit.scope === 'org' ? said`org ${limit.org_id}` : said`${own(limit.scope)} ${limit.scope_id ?? ''}`;
  const kind = limit.period === 'life' ? 'whole' : limit.period;
  const sums = said`$${own(spentUsd)} of $${own(limit.limit_usd)}`;
  return {
    title:
      refusal === undefined ? said`Budget ${own(level)}: ${whose} at ${own(pct)} %` : said`Budget refuses calls: ${whose} at ${own(pct)} %`,
    tone: TONES[level],
    text:
      refusal === undefined
        ? said`The ${own(kind)} budget of ${whose} ${own(NEAR[level])}: ${sums}.`
        : said`The ${own(kind)} budget of ${whose} refuses calls: ${sums} are spent, $${own(refusal.reservedUsd)} set aside, and a call that may cost $${own(refusal.estimateUsd)} was the first to be refused. ${own(
            refusal.resetsAt === undefined ? 'It never resets.' : `It resets at ${refusal.resetsAt}.`,
          )}`,
    facts: facts(
      ['type', own('budget_alert')],
      ['level', own(level)],
      ['spent_usd', own(spentUsd)],
      ['limit_usd', own(limit.limit_usd)],
      ['pct', own(pct)],
      ['scope', own(limit.scope)],
      ['scope_id', limit.scope_id],
      ['period', own(limit.period)],
      ['period_start', own(periodStart)],
      ['org_id', limit.org_id],
      ['limit_id', limit.limit_id],
      ['refused_cost_usd', ownIfAny(refusal?.estimateUsd)],
      ['reserved_usd', ownIfAny(refusal?.reservedUsd)],
      ['resets_at', ownIfAny(refusal?.resetsAt)],
    ),
  };
}

function quarantine(entry: QuarantineEntry, gatewayUrl: string): Said {
  const whom = entry.caller_id ?? entry.caller_ip ?? 'everybody';
  return {
    title: said`Quarantine: ${whom} of ${entry.workload_id}`,
    tone: 'critical',
    text: said`Policy has put ${whom} of the workload ${entry.workload_id} into quarantine until somebody releases it: ${entry.reason}`,
    facts: facts(
      ['workload_id', entry.workload_id],
      ['caller_id', entry.caller_id],
      ['caller_ip', ownIfAny(entry.caller_ip)],
      ['action', own(entry.action_type)],
      ['reason', entry.reason],
      ['risk_score', own(String(entry.risk_score))],
      ['org_id', entry.org_id],
      ['quarantine_id', entry.quarantine_id],
      ['record_id', entry.record_id],
    ),
    command: `curl -X POST -H "Authorization: Bearer $GW_MGMT_KEY" ${gatewayUrl}/mgmt/v1/quarantine/${entry.quarantine_id}/release`,
  };
}

function risk(alert: RiskAlert): Said {
  const who = alert.caller_id ?? alert.workload_id;
  return {
    title: said`Unusual behaviour: ${who}, risk score ${alert.risk_score}`,
    tone: 'critical',
    text: said`The requests of ${who} (workload ${alert.workload_id}) are unusual: ${own(alert.signals.join(', '))}.`,
    facts: facts(
      ['risk_score', own(String(alert.risk_score))],
      ['signals', own(alert.signals.join(', '))],
      ['request_rate', own(`${alert.request_rate} a minute`)],
      ['cost_rate', own(`$${alert.cost_rate} a minute`)],
      ['workload_id', alert.workload_id],
      ['caller_id', alert.caller_id],
      ['org_id', alert.org_id],
      ['record_id', alert.record_id],
    ),
  };
}

/** Of one decimal, rounded down. */
function percentOf(spentUsd: string, limitUsd: string): string {
  const [spent, limit] = [readAmount(spentUsd) ?? 0n, readAmount(limitUsd) ?? 0n];
  if (limit === 0n) return '100.0';
  const tenths = (spent * 1_000n) / limit;
  return `${tenths / 10n}.${tenths % 10n}`;
}
