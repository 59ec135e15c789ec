import type { Events } from '../../base/events/bus.ts';
import type { PolicyLoadEvent } from '../../base/events/events.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { ShadowTrace } from '../../base/model/execution-record.ts';
import type { HealthWarning } from '../../base/model/not-ready.ts';
import type { PlanTier } from '../../base/model/org.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import { decide } from '../../decide/policy/evaluate.ts';
import type { Facts } from '../../decide/policy/facts.ts';
import { unusedFilesMessage } from '../../decide/policy/lint.ts';
import type { Verdict } from '../../decide/policy/verdict.ts';
import { type LanguageOptions, loadPolicy } from './load-policy.ts';
import { doubtsOf } from './policy-doubts.ts';
import { foldersOf, type PolicyFolder, readPolicyFolder } from './policy-folder.ts';
import { firstProblem } from './policy-warnings.ts';

export interface ShadowPolicyOptions extends LanguageOptions {
  /** A folder as `GW_POLICIES_DIR` names one, or a file in the place of its `bundle.yaml`. */
  readonly path: string;
  /** Where the tier can change: the one that holds. */
  readonly tierNow?: () => PlanTier;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: Events;
}

/**
 * What can be said of the second bundle; `error` of one that did not load, while the one before it, if any, goes on.
 */
export interface ShadowState {
  readonly bundle_id?: string;
  readonly version?: string;
  readonly loaded_at?: number;
  readonly error?: string;
}

/**
 * A second bundle (`GW_POLICIES_SHADOW`) that is asked beside the active one and never obeyed. Nothing that happens to
 * it touches a call: one that does not load is logged, and one that fails is counted.
 */
export class ShadowPolicy {
  readonly #options: ShadowPolicyOptions;
  #policy: CompiledPolicy | undefined;
  #loadedAt: number | undefined;
  #folder: PolicyFolder | undefined;
  #problem: unknown;
  #failureLogged = false;
  /** Loads run one after the other, so that the last one that was begun is the last to take effect. */
  #loads: Promise<void> = Promise.resolve();

  constructor(options: ShadowPolicyOptions) {
    this.#options = options;
  }

  state(): ShadowState {
    return {
      ...(this.#policy === undefined ? {} : { bundle_id: this.#policy.bundle_id, version: this.#policy.version }),
      ...(this.#loadedAt === undefined ? {} : { loaded_at: this.#loadedAt }),
      ...(this.#problem === undefined ? {} : { error: messageOf(this.#problem) }),
    };
  }

  /** What health says of it. */
  warnings(): readonly HealthWarning[] {
    if (this.#problem === undefined) return [];
    const then = this.#policy === undefined ? 'nothing is compared' : 'the one before it is compared';
    const message = `The shadow bundle does not load, so that ${then}: ${firstProblem(this.#problem)}`;
    return [{ code: 'shadow_policy_not_loaded', message }];
  }

  /** The folders that its files are in. */
  folders(): readonly string[] {
    return foldersOf(this.#options.path, this.#folder);
  }

  /** Reads it again; a watch only takes what has changed. Never rejects. */
  load(trigger: PolicyLoadEvent['trigger']): Promise<void> {
    this.#loads = this.#loads.then(() => this.#load(trigger));
    return this.#loads;
  }

  async #load(trigger: PolicyLoadEvent['trigger']): Promise<void> {
    const { path, tier, tierNow, log, clock, events } = this.#options;
    try {
      const folder = await readPolicyFolder(path, 'GW_POLICIES_SHADOW');
      if (trigger === 'watch' && folder.hash === this.#folder?.hash) return;
      this.#folder = folder;
      this.#policy = await loadPolicy(folder, { ...this.#options, tier: tierNow?.() ?? tier }, `The shadow bundle ${path} does not load`);
      this.#loadedAt = clock.now();
      this.#problem = undefined;
      this.#failureLogged = false;
      const { bundle_id, version, ruleCount, unusedFiles } = this.#policy;
      log.info({ path, bundle_id, version, rules: ruleCount }, 'shadow policy bundle loaded');
      if (unusedFiles.length > 0) log.warn({ path, files: unusedFiles }, unusedFilesMessage(unusedFiles));
      for (const { code, message, files } of doubtsOf(this.#policy)) log.warn({ path, code, files }, message);
      events.emit('policyLoad', { bundle: 'shadow', trigger, result: 'loaded' });
    } catch (error) {
      const message = messageOf(error);
      const before = this.#problem;
      this.#problem = error;
      if (trigger === 'watch' && before !== undefined && message === messageOf(before)) return;
      log.error({ path, trigger }, message);
      events.emit('policyLoad', { bundle: 'shadow', trigger, result: 'refused' });
    }
  }

  /** Whether a rule of it reads `context.risk`. */
  get readsRisk(): boolean {
    return this.#policy?.readsRisk === true;
  }

  /**
   * What this bundle would have decided where the active one decided `active`; undefined when there is none or it
   * failed.
   */
  judge(facts: Facts, active: Verdict): ShadowTrace | undefined {
    const policy = this.#policy;
    if (policy === undefined) return undefined;
    const { events, log } = this.#options;
    try {
      const { decision, matched, reason_codes, stopped_at } = decide(policy, facts);
      events.emit('shadowDecision', { active: active.decision, shadow: decision });
      return {
        bundle_id: policy.bundle_id,
        decision,
        matched_rule_ids: matched.map((rule) => rule.rule_id),
        reason_codes,
        stopped_at,
        version: policy.version,
      };
    } catch (error) {
      events.emit('shadowDecision', { active: active.decision, shadow: 'failed' });
      if (!this.#failureLogged) log.error({ err: error, bundle_id: policy.bundle_id }, 'the shadow bundle failed on a request');
      this.#failureLogged = true;
      return undefined;
    }
  }
}
