import { messageOf } from '../../base/lib/gateway-error.ts';
import type { DeadLetter } from '../../base/model/export-destination.ts';
import type { PriceListStatus } from '../../operations/price-list-operations.ts';
import { GatewayClient } from '../gateway-client.ts';
import { type DoctorCheck, type Finding, ok, type Patient, skipped, warning } from './finding.ts';

/**
 * What a check finds in an answer of the gateway that the admin token opens. Where nobody answers, or the token is not
 * there, the check is skipped, with the reason.
 * @param path of a GET, with its query
 */
export async function findingsOf<T>(
  id: string,
  { health, io, url }: Patient,
  path: string,
  judge: (answer: T) => readonly Finding[],
): Promise<readonly Finding[]> {
  if (health.kind !== 'gateway' || url === undefined) return [skipped(id, 'no gateway answers')];
  try {
    const client = await GatewayClient.open(url.origin, io);
    return judge((await client.json('GET', path)) as T);
  } catch (error) {
    return [skipped(id, messageOf(error))];
  }
}

/** A page of the newest; more of them only make the count larger. */
const LOOKED_AT = 500;

/** Whether each receiver takes what is exported to it (decision 11.3): the log does not tell of one that does not. */
export const EXPORT_CHECK: DoctorCheck = {
  id: 'exports',
  looksAt: 'export destinations that did not take events after all tries, and the last reason (needs the admin token)',
  look: exports,
};

function exports(patient: Patient): Promise<readonly Finding[]> {
  const path = `/v1/admin/export/dead-letters?limit=${LOOKED_AT}`;
  return findingsOf<{ readonly items: readonly DeadLetter[] }>(EXPORT_CHECK.id, patient, path, ({ items }) => exportFindings(items));
}

/** @param letters the newest first */
export function exportFindings(letters: readonly DeadLetter[]): readonly Finding[] {
  const { id } = EXPORT_CHECK;
  if (letters.length === 0) return [ok(id, 'no event waits for a destination that did not take it')];
  const destinations = new Map<string, readonly DeadLetter[]>();
  for (const letter of letters) destinations.set(letter.destination_id, [...(destinations.get(letter.destination_id) ?? []), letter]);
  const then = 'see to the receiver, then send them again (docs/guides/exports.md, When a receiver is away)';
  return [...destinations].map(([destination, [last, ...older]]) => {
    const count = letters.length >= LOOKED_AT ? `${older.length + 1} or more` : String(older.length + 1);
    return warning(
      id,
      `${count} event(s) were not taken by ${destination}, the last at ${last?.at}: ${last?.detail || last?.reason}`,
      then,
    );
  });
}

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
