import { isJsonObject, type JsonObject } from '../../base/json/json-object.ts';
import { TELEMETRY_SCHEMA } from '../../base/model/telemetry-report.ts';
import type { Store } from '../../storage/contract/store.ts';
import { keyIn, SPACE } from './control-plane-spaces.ts';

const MAX_PROVIDERS = 500;
const OTHER = 'other';
const SUMMED = ['requests', 'tokens_in', 'tokens_out'] as const;

/**
 * Sums of what the nodes of an org have reported, by provider: numbers alone, and no name that the shipped tables do
 * not have (decision 13.5).
 */
export class KeptTelemetry {
  readonly #store: Store;
  readonly #isProvider: (id: string) => boolean;
  #reports = 0;

  constructor(store: Store, isProvider: (id: string) => boolean) {
    this.#store = store;
    this.#isProvider = isProvider;
  }

  /** Reports that were taken since the start. */
  get reports(): number {
    return this.#reports;
  }

  /** @returns what is wrong with a report; undefined: it was taken */
  async take(orgId: string, report: unknown): Promise<string | undefined> {
    if (!isJsonObject(report) || report['schema'] !== TELEMETRY_SCHEMA) return `must be ${TELEMETRY_SCHEMA}`;
    const { providers, risk_alerts: alerts = 0 } = report;
    if (!isJsonObject(providers) || Object.keys(providers).length > MAX_PROVIDERS) return `must have at most ${MAX_PROVIDERS} providers`;
    if (!isCount(alerts)) return 'must have whole numbers';
    const byProvider = new Map<string, Record<string, bigint>>([[keyIn(orgId, OTHER), { risk_alerts: BigInt(alerts) }]]);
    for (const [id, usage] of Object.entries(providers)) {
      const counts = countsOf(usage);
      if (counts === undefined) return 'must have whole numbers';
      const key = keyIn(orgId, this.#isProvider(id) ? id : OTHER);
      const before = byProvider.get(key) ?? {};
      byProvider.set(key, { ...before, ...Object.fromEntries(SUMMED.map((name) => [name, (before[name] ?? 0n) + counts[name]])) });
    }
    await this.#store.commit(
      undefined,
      [...byProvider].map(([key, amounts]) => ({ op: 'add', space: SPACE.telemetry, key, amounts }) as const),
    );
    this.#reports += 1;
    return undefined;
  }
}

function countsOf(usage: unknown): Readonly<Record<(typeof SUMMED)[number], bigint>> | undefined {
  if (!isJsonObject(usage)) return undefined;
  const count = (name: (typeof SUMMED)[number], of: JsonObject = usage) => (isCount(of[name]) ? BigInt(of[name]) : undefined);
  const [requests, tokensIn, tokensOut] = SUMMED.map((name) => count(name));
  if (requests === undefined || tokensIn === undefined || tokensOut === undefined) return undefined;
  return { requests, tokens_in: tokensIn, tokens_out: tokensOut };
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
