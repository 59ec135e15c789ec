import { join } from 'node:path';
import type { LaunchedGateway } from '../support/gateway-process.ts';
import { launchGateway } from '../support/gateway-process.ts';
import { callThrough, PLACE_DOORS, type PlaceAnswer } from '../support/place-calls.ts';
import { type CleanUp, sleep } from './checks.ts';
import type { Mortal } from './link-faults.ts';
import type { Seeded } from './seeded.ts';

const LIMIT_MS = 86_400_000;
/** A call has no connection that anybody would have to close for it. */
const NOTHING_TO_CLOSE = { teardown: () => undefined };
/** The model that every bundle of the proof allows, and one that none does. */
export const ALLOWED_MODEL = 'gpt-4o-mini';
const OTHER_MODEL = 'gpt-4o';

/** What a client has heard of one call. */
export interface HeardAnswer {
  readonly model: string;
  readonly answer: PlaceAnswer;
}

/** A gateway of a control plane, as a process of its own that is killed and comes back on other ports. */
export class ControlledGateway implements Mortal {
  readonly name: string;
  readonly env: Readonly<Record<string, string>>;
  /** Every answer that came, in order. */
  readonly heard: HeardAnswer[] = [];
  readonly #cleanUp: CleanUp;
  readonly #apiKey: string | undefined;
  #running: LaunchedGateway | undefined;

  constructor(cleanUp: CleanUp, name: string, env: Readonly<Record<string, string>>, apiKey?: string) {
    this.#cleanUp = cleanUp;
    this.name = name;
    this.env = env;
    this.#apiKey = apiKey;
  }

  get dataDir(): string {
    return join(String(this.env['GW_DATA_DIR']));
  }

  async start(): Promise<void> {
    this.#running = await launchGateway(this.#cleanUp, this.env, { timeoutMs: LIMIT_MS });
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** The orderly end. @returns what is wrong with it */
  async stop(): Promise<string[]> {
    const ended = await this.#end('SIGTERM');
    return ended === undefined || ended.code === 0 ? [] : [`${this.name}: exit code ${ended.code ?? ended.signal}: ${ended.stderr}`];
  }

  async #end(signal: NodeJS.Signals) {
    const running = this.#running;
    this.#running = undefined;
    running?.child.kill(signal);
    return running?.child.ended;
  }

  /** As `/healthz` answers; undefined where nobody does. */
  async health(): Promise<Readonly<Record<string, unknown>> | undefined> {
    const running = this.#running;
    if (running === undefined) return undefined;
    try {
      return (await (await fetch(`http://127.0.0.1:${running.port}/healthz`)).json()) as Record<string, unknown>;
    } catch {
      return undefined;
    }
  }

  /** The value of a metric without labels. */
  async metric(name: string): Promise<number> {
    const running = this.#running;
    if (running === undefined) return Number.NaN;
    const text = await (await fetch(`http://127.0.0.1:${running.port}/metrics`)).text();
    return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN);
  }

  /** One call of a client that remembers what it was told; undefined where the gateway went before it had answered. */
  async call(random: Seeded): Promise<PlaceAnswer | undefined> {
    const running = this.#running;
    if (running === undefined) return undefined;
    const called = { port: running.port, url: `http://127.0.0.1:${running.port}`, caFile: running.caFile };
    const model = random.chance(0.8) ? ALLOWED_MODEL : OTHER_MODEL;
    try {
      const answer = await callThrough(NOTHING_TO_CLOSE, called, random.pick(PLACE_DOORS), { model, apiKey: this.#apiKey });
      this.heard.push({ model, answer });
      return answer;
    } catch (error) {
      // Who is not there any more need not answer.
      if (this.#running === running) throw error;
      return undefined;
    }
  }

  /** A caller who calls again as soon as he is answered, until it is over. */
  async lane(random: Seeded, isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      const answer = await this.call(random);
      // Whoever finds nobody there comes again later.
      await sleep(answer === undefined ? 50 : random.between(1, 10));
    }
  }
}
