/*
 * The long proofs: programs that start the compiled gateway as a process of its own and try to catch it losing, leaking
 * or stalling. `npm run proof` runs them one after the other; they are no tap tests, `npm test` does not know them.
 * What only one proof needs stands in its own file.
 */

/** Prints one line per check, and the sum at the end. */
export class Checks {
  #passed = 0;
  #failed = 0;

  /** `problems` empty: the check holds. Only the first few are printed. */
  check(name: string, problems: readonly string[]): void {
    if (problems.length === 0) {
      this.#passed += 1;
      this.note(`ok     ${name}`);
      return;
    }
    this.#failed += 1;
    this.note(`FAILED ${name}`);
    for (const problem of problems.slice(0, 8)) this.note(`         ${problem}`);
    if (problems.length > 8) this.note(`         and ${problems.length - 8} more`);
  }

  note(text: string): void {
    process.stdout.write(`${text}\n`);
  }

  /** Prints the sum and ends the process: a connection that something still holds would keep it. */
  finish(): void {
    const text = `${this.#passed} passed, ${this.#failed} failed\n`;
    process.stdout.write(text, () => process.exit(this.#failed > 0 || this.#passed === 0 ? 1 : 0));
  }
}

/** Runs a proof to its end, whatever happens in it: what it throws is a failed check, what it opened is closed. */
export async function prove(proof: (checks: Checks, cleanUp: CleanUp) => Promise<void>): Promise<void> {
  const checks = new Checks();
  const cleanUp = new CleanUp();
  const interrupted = (): void => void cleanUp.run().finally(() => process.exit(130));
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, interrupted);
  // Whoever reads may go; the gateways must be stopped all the same.
  process.stdout.on('error', interrupted);
  try {
    await proof(checks, cleanUp);
  } catch (error) {
    checks.check('the proof ran to its end', [error instanceof Error ? (error.stack ?? error.message) : String(error)]);
  }
  await cleanUp.run();
  checks.finish();
}

/** Stands where the test support expects a tap test: what was opened last is closed first. */
export class CleanUp {
  readonly #actions: (() => unknown)[] = [];

  teardown(action: () => unknown): void {
    this.#actions.push(action);
  }

  async run(): Promise<void> {
    for (let action = this.#actions.pop(); action !== undefined; action = this.#actions.pop()) await action();
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
