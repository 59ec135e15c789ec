import { EventBus } from '../../../src/base/events/bus.ts';
import { timestamp } from '../../../src/base/lib/clock.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { picoFromUsd, usdFromPico } from '../../../src/base/lib/money.ts';
import type { BudgetLimit } from '../../../src/base/model/budget-limit.ts';
import type { ExecutionRecord } from '../../../src/base/model/execution-record.ts';
import { rollUp } from '../../../src/record/roll-up.ts';
import { type Ask, type Grant, isRefused, type Refused, type SettledCall, type SpendAsk } from '../../../src/services/money/allowance.ts';
import { BudgetService } from '../../../src/services/money/budgets.ts';
import { MemoryAllowance } from '../../../src/services/money/memory-allowance.ts';
import { MonthlyRequestService } from '../../../src/services/money/monthly-requests.ts';
import type { NodeCaps } from '../../../src/services/money/node-caps.ts';
import { RateLimitService } from '../../../src/services/money/rate-limits.ts';
import type { Effect } from '../../../src/storage/contract/store.ts';
import { type Tap, turns } from '../../contract/store-under-test.ts';
import { MemoryJournal } from '../../storage/postgres/cap-rig.ts';
import type { OpenedRig, PgRig } from '../../storage/postgres/pg-rig.ts';
import { ledgerOf, nodeCaps } from '../../support/shared-caps.ts';

export const SPENDER = { orgId: 'o', workloadId: 'w', projectId: 'p', connectorId: 'openai', providerId: 'openai' };
let ids = 0;

/** A limit of the org `o`, as it is stored. */
export function orgLimit(limit_usd: string, more: Partial<BudgetLimit> = {}): BudgetLimit {
  const thresholds = { warning_threshold_pct: 80, critical_threshold_pct: 95 };
  const made = { limit_id: `limit-${String(ids++).padStart(6, '0')}`, org_id: 'o', scope: 'org' as const, period: 'monthly' as const };
  return { ...made, limit_usd, ...thresholds, actions: ['cap'], created_at: '', ...more };
}

/** What a machine keeps of a node when its process dies: the journal, and what calls under way may cost. */
export class NodeDisk {
  readonly journal = new MemoryJournal();
  /** Pico-dollars by the id of their call. */
  readonly intents = new Map<string, bigint>();
  readonly name: string;
  /** All that its journal says was spent. */
  noted = 0n;

  constructor(name: string) {
    this.name = name;
  }

  note(effects: readonly Effect[], pico: bigint): void {
    this.journal.append(effects);
    this.noted += pico;
  }
}

export interface SharedNodeOptions {
  readonly monthlyLimit?: number;
  readonly goesOn?: boolean;
}

/**
 * The money room of one gateway of several: its calls are noted in a journal of its own, its limits are the database's.
 */
export class SharedNode {
  readonly disk: NodeDisk;
  readonly opened: OpenedRig;
  readonly caps: NodeCaps;
  readonly budgets: BudgetService;
  readonly allowance: MemoryAllowance;
  readonly #rig: PgRig;

  private constructor(rig: PgRig, disk: NodeDisk, opened: OpenedRig, parts: Pick<SharedNode, 'caps' | 'budgets' | 'allowance'>) {
    this.#rig = rig;
    this.disk = disk;
    this.opened = opened;
    this.caps = parts.caps;
    this.budgets = parts.budgets;
    this.allowance = parts.allowance;
  }

  /** Starts it: what was under way when it ended is spent. */
  static async start(rig: PgRig, disk: NodeDisk, { monthlyLimit, goesOn = false }: SharedNodeOptions = {}): Promise<SharedNode> {
    const { clock } = rig;
    const opened = await rig.open();
    const { store } = opened;
    for (const [id, pico] of disk.intents) {
      disk.note(rollUp(recordOf({ spender: SPENDER, pico, at: clock.now(), isMade: true })), pico);
      disk.intents.delete(id);
    }
    const caps = nodeCaps(ledgerOf(store, disk.name, disk.journal), clock);
    const plan = { limit: monthlyLimit, overage: false };
    const budgets = await BudgetService.open({ store, clock, events: new EventBus(silentLogger), caps });
    const months = await MonthlyRequestService.open({ store, clock, plans: { alike: plan, of: () => plan }, caps });
    const initial = { refill_rate: 1_000_000, max_tokens: 1_000_000, window_duration: '1m' };
    const rates = await RateLimitService.open({ store, clock, initial, ownOrg: 'o' });
    const allowance = new MemoryAllowance({ budgets, months, rates, goesOn: () => goesOn });
    caps.start();
    return new SharedNode(rig, disk, opened, { caps, budgets, allowance });
  }

  /** Takes what a call may cost, and notes it. @returns its id, or why it is refused */
  async take(usd: string, more: Omit<Partial<Ask>, 'spend'> & { readonly spend?: Partial<SpendAsk> } = {}): Promise<string | Refused> {
    const id = `${this.disk.name}-${ids++}`;
    const pico = picoFromUsd(usd);
    const spend = { spender: SPENDER, pico: `${pico}`, ...more.spend };
    const answer: Grant | Refused | undefined = await this.allowance.take({ orgId: 'o', workloadId: 'w', ...more, id, spend });
    if (answer === undefined || isRefused(answer)) return answer ?? Promise.reject(new Error('nothing was asked for'));
    // A process that is dead notes nothing.
    if (!this.opened.pools.dead) this.disk.intents.set(id, pico);
    return id;
  }

  /** A call ends that has cost so much. */
  end(id: string, usd: string, spender: SettledCall['spender'] = SPENDER): void {
    const pico = picoFromUsd(usd);
    const settled: SettledCall = { spender, pico, at: this.#rig.clock.now(), isMade: true };
    const counted = this.allowance.settle(id, settled);
    this.disk.intents.delete(id);
    this.disk.note([...rollUp(recordOf(settled)), ...counted], pico);
    this.allowance.stored(id);
  }

  async spend(usd: string): Promise<Refused | undefined> {
    const id = await this.take(usd);
    if (typeof id !== 'string') return id;
    this.end(id, usd);
    return undefined;
  }

  /** What it shows of the first limit. */
  get shown(): readonly [spent: string, reserved: string] {
    const [status] = this.budgets.list('o');
    return [status?.spentUsd ?? '', status?.reservedUsd ?? ''];
  }
}

/** Lets time pass, a little whenever nothing goes on, until it is there. */
export async function inTime<T>(rig: PgRig, promise: Promise<T>): Promise<T> {
  let isOver = false;
  const over = () => {
    isOver = true;
  };
  promise.then(over, over);
  for (let pause = 0; !isOver; pause += 1) {
    await turns(60);
    if (pause > 3 && !isOver) rig.clock.advance(125);
  }
  return promise;
}

/** Closes with the test. */
export async function startNode(t: Tap, rig: PgRig, disk: NodeDisk, options?: SharedNodeOptions): Promise<SharedNode> {
  const node = await SharedNode.start(rig, disk, options);
  t.teardown(() => (node.opened.pools.dead ? undefined : node.caps.close()));
  return node;
}

export function recordOf({ spender, pico, at }: SettledCall): ExecutionRecord {
  return {
    record_tier: 'action',
    completed_at: timestamp(at),
    org_id: spender.orgId,
    workload_id: spender.workloadId,
    project_id: spender.projectId,
    connector_id: spender.connectorId,
    provider: spender.providerId,
    decision: 'allow',
    metering: { tokens_in: 0, tokens_out: 0, cost_usd: usdFromPico(pico) },
    delegation_chain: spender.delegations?.map(({ delegationId, capUsd }) => ({ delegation_id: delegationId, usd_max: capUsd })),
  } as unknown as ExecutionRecord;
}
