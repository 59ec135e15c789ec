/**
 * Whatever a stage can end its line with. One class above all of them, so that the runner tells an end from what was
 * made by one look.
 */
export abstract class LineEnd {
  /** Tells the type apart from parts, which a type checker would take for it otherwise. */
  readonly endsLine = true;
}
