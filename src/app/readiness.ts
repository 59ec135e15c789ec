import type { Clock } from '../base/lib/clock.ts';
import type { NotReady } from '../base/model/not-ready.ts';

/** Something an operator should know of a gateway that runs, told in its health. */
export interface HealthWarning {
  /** Stable. */
  readonly code: string;
  readonly message: string;
}

export interface ReadinessOptions {
  readonly clock: Clock;
  /** How long after its start the gateway counts as starting (`GW_HEALTHZ_STARTUP_GRACE`), milliseconds. */
  readonly startupGraceMs: number;
  readonly store: { readonly writable: boolean };
  /** Of the certificate of the ports; undefined: they speak plain HTTP. */
  readonly certificate: { warnings(): readonly HealthWarning[] } | undefined;
}

/** Whether work should be sent to this gateway (decision 12.2), and what to know of it. */
export class Readiness {
  readonly #options: ReadinessOptions;
  readonly #startedAt: number;
  readonly #lasting: HealthWarning[] = [];
  readonly #sources: { warnings(): readonly HealthWarning[] }[] = [];
  #refusedAnyway: () => readonly NotReady[] = () => [];
  #draining = false;

  constructor(options: ReadinessOptions) {
    this.#options = options;
    this.#startedAt = options.clock.monotonic();
  }

  get starting(): boolean {
    const { clock, startupGraceMs } = this.#options;
    return clock.monotonic() - this.#startedAt < startupGraceMs;
  }

  /** The stop has begun. */
  drain(): void {
    this.#draining = true;
  }

  /** Something that holds for as long as this process runs. */
  warn(warning: HealthWarning): void {
    this.#lasting.push(warning);
  }

  /** Somebody who may have something to tell whenever health is asked for. */
  ask(source: { warnings(): readonly HealthWarning[] }): void {
    this.#sources.push(source);
  }

  /** Whoever knows whether all calls are refused at the moment, and why; asked whenever somebody wants to know. */
  judgeBy(refusedAnyway: () => readonly NotReady[]): void {
    this.#refusedAnyway = refusedAnyway;
  }

  /** Why nothing should be sent here; empty: it is ready. The gravest first. */
  reasons(): readonly NotReady[] {
    return [
      ...(this.#draining ? (['draining'] as const) : []),
      ...(this.#options.store.writable ? [] : (['record_store_unavailable'] as const)),
      ...this.#refusedAnyway(),
      ...(this.starting ? (['starting'] as const) : []),
    ];
  }

  warnings(): readonly HealthWarning[] {
    return [...this.#lasting, ...(this.#options.certificate?.warnings() ?? []), ...this.#sources.flatMap((source) => source.warnings())];
  }
}
