/** What became of exported events. */
export const EXPORT_OUTCOMES = ['delivered', 'retried', 'dead', 'dropped'] as const;
export type ExportOutcome = (typeof EXPORT_OUTCOMES)[number];

/** Counts since the start, by destination. */
export class ExportCounts {
  readonly #counts = new Map<string, Record<ExportOutcome, number>>();

  add(destinationId: string, more: Readonly<Partial<Record<ExportOutcome, number>>>): void {
    const counts = this.#counts.get(destinationId) ?? { delivered: 0, retried: 0, dead: 0, dropped: 0 };
    for (const outcome of EXPORT_OUTCOMES) counts[outcome] += more[outcome] ?? 0;
    this.#counts.set(destinationId, counts);
  }

  /** A destination that is gone is counted no more. */
  drop(destinationId: string): void {
    this.#counts.delete(destinationId);
  }

  rows(): readonly (readonly [destination: string, outcome: ExportOutcome, count: number])[] {
    return [...this.#counts].flatMap(([id, counts]) => EXPORT_OUTCOMES.map((outcome) => [id, outcome, counts[outcome]] as const));
  }
}
