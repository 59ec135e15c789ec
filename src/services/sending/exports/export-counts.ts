/** What became of exported events. */
export const EXPORT_OUTCOMES = ['delivered', 'retried', 'dead', 'dropped'] as const;
export type ExportOutcome = (typeof EXPORT_OUTCOMES)[number];

/**
 * Why events were given up: its letters are as many as there may be, or its records were removed for their age before
 * it was sent them.
 */
export const DROP_REASONS = ['dead_letters_full', 'retention'] as const;
export type DropReason = (typeof DROP_REASONS)[number];

/** Counts since the start, by destination. */
export class ExportCounts {
  readonly #counts = new Map<string, Record<ExportOutcome, number>>();
  readonly #dropped = new Map<string, Record<DropReason, number>>();

  add(destinationId: string, more: Readonly<Partial<Record<ExportOutcome, number>>>): void {
    const counts = this.#counts.get(destinationId) ?? { delivered: 0, retried: 0, dead: 0, dropped: 0 };
    for (const outcome of EXPORT_OUTCOMES) counts[outcome] += more[outcome] ?? 0;
    this.#counts.set(destinationId, counts);
  }

  /** Events that are given up: counted as dropped, and why. */
  drop(destinationId: string, reason: DropReason, count: number): void {
    if (count <= 0) return;
    this.add(destinationId, { dropped: count });
    const dropped = this.#dropped.get(destinationId) ?? { dead_letters_full: 0, retention: 0 };
    dropped[reason] += count;
    this.#dropped.set(destinationId, dropped);
  }

  /** A destination that is gone is counted no more. */
  forget(destinationId: string): void {
    this.#counts.delete(destinationId);
    this.#dropped.delete(destinationId);
  }

  rows(): readonly (readonly [destination: string, outcome: ExportOutcome, count: number])[] {
    return [...this.#counts].flatMap(([id, counts]) => EXPORT_OUTCOMES.map((outcome) => [id, outcome, counts[outcome]] as const));
  }

  /** Of each destination that something was given up for. */
  drops(): readonly (readonly [destination: string, reason: DropReason, count: number])[] {
    return [...this.#dropped].flatMap(([id, dropped]) => DROP_REASONS.map((reason) => [id, reason, dropped[reason]] as const));
  }
}
