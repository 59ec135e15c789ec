import type { Clock } from '../base/lib/clock.ts';
import type { ControlPlaneCalls, OrgState, Update, UpdatesRequest } from '../control-plane/proto/messages.ts';
import type { Protocol } from '../control-plane/proto/protocol.ts';
import { ProtocolClient } from '../control-plane/proto/protocol-client.ts';
import { ProtocolError } from '../control-plane/proto/protocol-error.ts';
import type { Channel } from './link-ports.ts';
import type { NodeIdentity } from './node-identity.ts';

const TIMEOUT_MS = 10_000;

/** Who is told of what the channel carries. */
export interface ChannelListener {
  /**
   * An answer, before whoever has asked gets it. Never rejects.
   * @param turn of the call: what began later has a higher one
   */
  heard(org: OrgState | null, turn: number): Promise<void>;
  /** Not told of what a check-in itself fails at. */
  broke(error: ProtocolError): void;
}

export interface ControlPlaneChannelOptions {
  readonly protocol: Protocol;
  /** `host:port`. */
  readonly address: string;
  readonly identity: NodeIdentity;
  readonly clock: Clock;
  readonly listener: ChannelListener;
}

type Unary = Exclude<keyof ControlPlaneCalls & string, 'StreamUpdates'>;

/**
 * The one way to the control plane: everything goes over it, so that it alone knows when it was last used (decision
 * 13.8).
 */
export class ControlPlaneChannel implements Channel {
  readonly #options: ControlPlaneChannelOptions;
  #client: ProtocolClient;
  /** How many calls each connection carries. */
  readonly #underWay = new Map<ProtocolClient, number>();
  #turn = 0;
  #carriedAt: number;

  constructor(options: ControlPlaneChannelOptions) {
    this.#options = options;
    this.#client = this.#clientFor(options.identity);
    this.#carriedAt = options.clock.monotonic();
  }

  /** Monotonic milliseconds at which something last went over it, or was tried. */
  get carriedAt(): number {
    return this.#carriedAt;
  }

  /** Of the call that begins next. */
  get nextTurn(): number {
    return this.#turn + 1;
  }

  async call<K extends Unary>(name: K, request: ControlPlaneCalls[K]['request']): Promise<ControlPlaneCalls[K]['response']> {
    const { protocol, listener, clock } = this.#options;
    this.#turn += 1;
    const turn = this.#turn;
    this.#carriedAt = clock.monotonic();
    try {
      const answer = await this.#carried(
        this.#client,
        (client): Promise<ControlPlaneCalls[K]['response']> => client.call(protocol.controlPlane, name, request as never, TIMEOUT_MS),
      );
      this.#carriedAt = clock.monotonic();
      await listener.heard((answer as { readonly org: OrgState | null }).org, turn);
      return answer;
    } catch (error) {
      // Who says when to come again has answered.
      if (name !== 'CheckIn' && error instanceof ProtocolError && error.retryAfterMs === undefined) listener.broke(error);
      throw error;
    }
  }

  async *updates(request: UpdatesRequest, signal: AbortSignal): AsyncGenerator<Update, void, undefined> {
    const { protocol, listener, clock } = this.#options;
    try {
      for await (const update of this.#client.stream(protocol.controlPlane, 'StreamUpdates', request, signal)) {
        this.#carriedAt = clock.monotonic();
        this.#turn += 1;
        await listener.heard(update.org, this.#turn);
        yield update;
      }
    } catch (error) {
      if (error instanceof ProtocolError) listener.broke(error);
      throw error;
    }
  }

  /** From now on the gateway shows this one. Calls under way end on the former connection, and a stream breaks off. */
  use(identity: NodeIdentity): void {
    const former = this.#client;
    this.#client = this.#clientFor(identity);
    if (!this.#underWay.has(former)) former.close();
  }

  close(): void {
    this.#client.close();
    for (const client of this.#underWay.keys()) client.close();
  }

  /** A connection that was replaced is closed behind its last call. */
  async #carried<T>(client: ProtocolClient, call: (client: ProtocolClient) => Promise<T>): Promise<T> {
    this.#underWay.set(client, (this.#underWay.get(client) ?? 0) + 1);
    try {
      return await call(client);
    } finally {
      const left = (this.#underWay.get(client) ?? 1) - 1;
      if (left > 0) this.#underWay.set(client, left);
      else this.#underWay.delete(client);
      if (left === 0 && client !== this.#client) client.close();
    }
  }

  #clientFor({ certificatePem, keyPem, caPem }: NodeIdentity): ProtocolClient {
    const { address, clock } = this.#options;
    return new ProtocolClient({ address, ca: caPem, identity: { certificate: certificatePem, key: keyPem }, clock });
  }
}
