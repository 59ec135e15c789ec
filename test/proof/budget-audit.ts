import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../../src/base/lib/clock.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import { counterRows } from '../../src/storage/contract/store-pages.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';

const PAGE = 1_000;

/** One record as far as money is concerned. */
export interface Charged {
  readonly id: string;
  readonly tag: string;
  readonly workload: string;
  readonly project: string;
  readonly provider: string;
  readonly createdAt: string;
  readonly completedAt: string;
  readonly pico: bigint;
  readonly metered: boolean;
  /** The provider did not come to report it: it costs what was seen. */
  readonly approximated: boolean;
  /** It reached the provider, or was under way when the process died. */
  readonly forwarded: boolean;
  readonly reasonCodes: readonly string[];
  /** Delegations with a budget that it was made under. */
  readonly delegations: readonly string[];
}

export interface MoneyAudit {
  /** In order of commit. */
  readonly charged: readonly Charged[];
  readonly openIntents: number;
  /** Where roll-ups are not the sums of the records. */
  readonly wrongCounters: readonly string[];
}

/** The same of the store of a gateway that runs. */
export async function auditCopy({ root, data }: { readonly root: string; readonly data: string }): Promise<MoneyAudit> {
  const copy = join(root, 'copy');
  cpSync(join(data, 'store'), copy, { recursive: true });
  try {
    return await auditMoney(copy);
  } finally {
    rmSync(copy, { recursive: true });
  }
}

interface ReadRecord {
  readonly record_id: string;
  readonly record_tier: string;
  readonly caller_id?: string;
  readonly org_id: string;
  readonly workload_id: string;
  readonly project_id?: string;
  readonly connector_id?: string;
  readonly created_at: string;
  readonly completed_at: string;
  readonly upstream_status?: number;
  readonly reason_codes: readonly string[];
  readonly delegation_chain?: readonly { readonly delegation_id: string; readonly usd_max?: string }[];
  readonly metering?: { readonly cost_usd: string; readonly usage_reported: boolean };
}

/** Opens a copy of a store folder and reads what every record cost: sums are made here a second time. */
async function auditMoney(dir: string): Promise<MoneyAudit> {
  const store = await openEmbeddedStore({ dir, fsync: 'off', clock: systemClock, log: silentLogger });
  try {
    const charged: Charged[] = [];
    const recount = new Map<string, bigint>();
    for (let after = ''; ; ) {
      const page = await store.records({ limit: PAGE, ...(after === '' ? {} : { after }) });
      for (const { text, position } of page) {
        after = position;
        const record = JSON.parse(text) as ReadRecord;
        if (record.record_tier === 'action') charged.push(chargedOf(record, recount));
      }
      if (page.length < PAGE) break;
    }
    const stored = new Map<string, bigint>();
    for (const space of ['usage_day', 'spend_day']) {
      for await (const { key, amounts } of counterRows(store, space)) {
        const parts = key.split('|').map(decodeURIComponent);
        // What belongs to no project is what others leave of the org's spend.
        if (space === 'spend_day' && parts[2] === '') continue;
        // Both begin with the day; the first goes on with org, workload and connector, the second with org and project.
        add(stored, `${space} ${parts.slice(0, space === 'usage_day' ? 4 : 3).join('|')}`, amounts['cost_pico'] ?? 0n);
      }
    }
    for await (const { key, amounts } of counterRows(store, 'spend_delegation'))
      add(stored, `spend_delegation ${key}`, amounts['cost_pico'] ?? 0n);
    const openIntents = (await store.list('intent')).length;
    return { charged, openIntents, wrongCounters: differences(stored, recount) };
  } finally {
    await store.close();
  }
}

function chargedOf(record: ReadRecord, recount: Map<string, bigint>): Charged {
  const { org_id: org, workload_id: workload, project_id: project = '', connector_id: provider = '', completed_at: completedAt } = record;
  const pico = picoOf(record.metering?.cost_usd ?? '0');
  const day = completedAt.slice(0, 10);
  add(recount, `usage_day ${day}|${org}|${workload}|${provider}`, pico);
  // A call without a project has no row of its own there.
  if (project !== '') add(recount, `spend_day ${day}|${org}|${project}`, pico);
  const delegations = (record.delegation_chain ?? []).filter(({ usd_max: max }) => max !== undefined).map((link) => link.delegation_id);
  for (const id of delegations) add(recount, `spend_delegation ${org}|${id}`, pico);
  return {
    id: record.record_id,
    tag: record.caller_id ?? '',
    workload,
    project,
    provider,
    createdAt: record.created_at,
    completedAt,
    pico,
    metered: record.metering !== undefined,
    approximated: record.metering?.usage_reported === false && pico > 0n && !record.reason_codes.includes('gateway_restarted'),
    forwarded: record.upstream_status !== undefined || record.reason_codes.includes('gateway_restarted'),
    reasonCodes: record.reason_codes,
    delegations,
  };
}

function add(sums: Map<string, bigint>, key: string, pico: bigint): void {
  sums.set(key, (sums.get(key) ?? 0n) + pico);
}

function differences(stored: ReadonlyMap<string, bigint>, recount: ReadonlyMap<string, bigint>): string[] {
  return [...new Set([...stored.keys(), ...recount.keys()])]
    .filter((key) => (stored.get(key) ?? 0n) !== (recount.get(key) ?? 0n))
    .map((key) => `${key}: stored ${stored.get(key) ?? 0n}, recounted ${recount.get(key) ?? 0n} pico-dollars`);
}

/** Decimal text of dollars as pico-dollars. */
export function picoOf(usd: string): bigint {
  const [whole = '0', fraction = ''] = usd.split('.');
  return BigInt(whole) * 1_000_000_000_000n + BigInt(fraction.padEnd(12, '0'));
}

/** Pico-dollars as decimal text of dollars. */
export function usdOf(pico: bigint): string {
  return `${pico / 1_000_000_000_000n}.${String(pico % 1_000_000_000_000n).padStart(12, '0')}`;
}
