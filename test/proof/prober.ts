import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { CleanUp } from './checks.ts';
import type { Phase } from './health-prober.ts';

const PROBER = fileURLToPath(new URL('./health-prober.js', import.meta.url));

/** A process that keeps asking a gateway for `/healthz`. */
export class Prober {
  readonly #child: ChildProcess;

  constructor(port: number, cleanUp: CleanUp) {
    this.#child = fork(PROBER, [String(port)]);
    cleanUp.teardown(() => this.stop());
  }

  stop(): void {
    this.#child.removeAllListeners('exit');
    this.#child.kill('SIGKILL');
  }

  /** Ends a phase. */
  phase(): Promise<Phase> {
    return new Promise((resolve, reject) => {
      const ended = (): void => reject(new Error('the prober ended: the gateway broke its connection'));
      if (!this.#child.connected) return ended();
      this.#child.once('exit', ended);
      this.#child.once('message', (phase) => {
        this.#child.removeAllListeners('exit');
        resolve(phase as Phase);
      });
      this.#child.send('end');
    });
  }
}
