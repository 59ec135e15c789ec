import type { PriceListStatus } from '../../operations/price-list-operations.ts';
import { findingsOf } from './ask-admin.ts';
import { type DoctorCheck, type Finding, ok, type Patient, warning } from './finding.ts';

/** Providers change prices every few weeks. */
const OLD_DAYS = 60;
/** Models that are named; the others are counted. */
const NAMED = 5;

/** Whether what calls cost is still what providers bill (decision 6.16). */
export const PRICE_CHECK: DoctorCheck = {
  id: 'prices',
  looksAt:
    'the price list in force: older than 60 days, not renewed, held back in parts; models that were called and have no price (needs the admin token)',
  look: prices,
};

function prices(patient: Patient): Promise<readonly Finding[]> {
  return findingsOf<PriceListStatus>(PRICE_CHECK.id, patient, '/v1/admin/prices/status', priceFindings);
}

export function priceFindings({ in_force: list, source, last, held, priced_by_default: unpriced }: PriceListStatus): readonly Finding[] {
  const { id } = PRICE_CHECK;
  const findings: Finding[] = [];
  const day = `that of ${list.date ?? 'no day'} (${list.name}), ${list.age_days} day(s) old`;
  if (list.age_days > OLD_DAYS)
    findings.push(
      warning(id, `the price list in force is ${day}`, 'gw prices update URL, GW_PRICE_LIST, or a newer version of the gateway'),
    );
  if (last?.outcome === 'failed' || last?.outcome === 'refused')
    findings.push(
      warning(
        id,
        `${source} was not taken: ${last.detail ?? last.outcome}`,
        'correct GW_PRICE_LIST, or what is there; gw prices status shows it',
      ),
    );
  if (held.length > 0)
    findings.push(
      warning(id, `${held.length} rate(s) of the newest list wait for a yes`, 'gw prices status shows them, gw prices accept takes them'),
    );
  if (unpriced.length > 0) {
    const names = unpriced.slice(0, NAMED).map(({ provider, model }) => `${provider} ${model}`);
    const more = unpriced.length > NAMED ? ` and ${unpriced.length - NAMED} more` : '';
    const found = `models without a price were called, and charged 10 / 30: ${names.join(', ')}${more}`;
    findings.push(
      warning(id, found, 'gw prices update, or rows of their own (GW_PRICING_FILE); gw prices explain PROVIDER MODEL says why'),
    );
  }
  return findings.length > 0 ? findings : [ok(id, `the price list in force is ${day}`)];
}
