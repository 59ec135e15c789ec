/** Keeps what an upstream says while something is waited for without which nothing of its answer may leave, and says it again in its order. */
export class Opening {
  #said: (() => unknown)[] | undefined;

  /** True: what is said now is for {@link later}. */
  isWaiting = false;

  /** @returns the answer of `onData` to an upstream that is to wait */
  later(event: () => unknown): false {
    this.#said?.push(event);
    return false;
  }

  /** @param go on either way; `replay` says what came meanwhile, and whether more is wanted by now */
  wait<T>(
    pending: Promise<T>,
    go: { readonly on: (replay: () => boolean, what: T) => void; readonly failed: (error: unknown) => void },
  ): void {
    const said: (() => unknown)[] = [];
    this.#said = said;
    this.isWaiting = true;
    const replay = () => said.reduce<boolean>((_, event) => event() !== false, true);
    const opened = pending.then((what) => {
      this.#said = undefined;
      this.isWaiting = false;
      go.on(replay, what);
    });
    // What is thrown while it is said again included: nobody else would hear of it.
    opened.catch((error: unknown) => {
      this.#said = undefined;
      this.isWaiting = false;
      go.failed(error);
    });
  }
}
