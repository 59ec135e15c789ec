import { type Clock, timestamp } from '../../base/lib/clock.ts';
import type { ControlPlaneCalls, Update, UpdatesRequest } from '../proto/messages.ts';
import { ProtocolError } from '../proto/protocol-error.ts';
import { keyIn } from '../state/control-plane-spaces.ts';
import type { NodeId } from '../state/enrolled-nodes.ts';
import type { LoggedUpdate } from '../state/org-versions.ts';
import type { StoredControlPlane } from '../state/stored-control-plane.ts';
import { checkedNumber, checkedVersions } from './checked-input.ts';
import type { NodeStates } from './node-states.ts';

/** How long a stream says nothing at most. */
const ALIVE_MS = 20_000;
/** Updates that are read at a time. */
const AT_A_TIME = 100;

interface Out {
  send(message: ControlPlaneCalls['StreamUpdates']['response']): Promise<void>;
  readonly signal: AbortSignal;
}

/** One open stream. */
interface Open {
  readonly node: NodeId;
  /** Resolves or rejects when it is to end, whatever it is doing. */
  readonly ended: Promise<void>;
  end(why?: ProtocolError): void;
  /** Something may have happened. */
  wake(): void;
}

export interface UpdateStreamsOptions {
  readonly state: StoredControlPlane;
  readonly states: NodeStates;
  readonly clock: Clock;
}

/**
 * Streams of updates to managed gateways, one for each node: the log of its org from where it left off, and then what
 * happens (decision 13.5).
 */
export class UpdateStreams {
  readonly #options: UpdateStreamsOptions;
  readonly #open = new Map<string, Open>();
  readonly #stopListening: readonly (() => void)[];
  #closed = false;

  constructor(options: UpdateStreamsOptions) {
    this.#options = options;
    const { versions, nodes } = options.state.registers;
    this.#stopListening = [
      versions.onChange((orgId) => {
        for (const stream of this.#open.values()) if (stream.node.orgId === orgId) stream.wake();
      }),
      nodes.onChange(({ orgId, nodeId }) => this.#lookAgain(keyIn(orgId, nodeId))),
    ];
  }

  get count(): number {
    return this.#open.size;
  }

  /**
   * Sends until the node leaves, its certificate counts no longer, it opens another stream, or the control plane stops.
   * @throws ProtocolError
   */
  async run(node: NodeId, request: UpdatesRequest, isGood: () => boolean, out: Out): Promise<void> {
    const after = checkedNumber('after', request.after);
    const versions = checkedVersions(request.versions);
    if (this.#closed) throw new ProtocolError('UNAVAILABLE', 'the control plane is stopping; try again');
    const key = keyIn(node.orgId, node.nodeId);
    this.#open.get(key)?.end(new ProtocolError('UNAVAILABLE', 'the node has opened another stream'));
    const stream = this.#add(node, isGood);
    this.#open.set(key, stream.open);
    const leave = () => stream.open.end();
    out.signal.addEventListener('abort', leave, { once: true });
    if (out.signal.aborted) leave();
    try {
      await this.#options.states.takeVersions(node, versions, { gatewayVersion: undefined });
      await Promise.race([this.#tell(node, after, stream.news, out), stream.open.ended]);
    } finally {
      stream.open.end();
      out.signal.removeEventListener('abort', leave);
      if (this.#open.get(key) === stream.open) this.#open.delete(key);
    }
  }

  /** Ends all of them. */
  close(): void {
    this.#closed = true;
    for (const stop of this.#stopListening) stop();
    for (const stream of this.#open.values()) stream.end(new ProtocolError('UNAVAILABLE', 'the control plane is stopping'));
  }

  async #tell(node: NodeId, after: number, news: News, out: Out): Promise<void> {
    let last = await this.#begin(node, after, out);
    while (!news.over) {
      const seen = news.count;
      const updates = await this.#options.state.registers.versions.updatesAfter(node.orgId, last, AT_A_TIME);
      if (updates === undefined) last = await this.#resync(node, out);
      else if (updates.length > 0) last = await this.#pass(node, updates, news, out);
      else if (await this.#waits(news, seen)) await this.#alive(node, last, out);
    }
  }

  /** @returns the number from which on it goes on */
  async #begin(node: NodeId, after: number, out: Out): Promise<number> {
    const { versions } = this.#options.state.registers;
    const known = after === 0 ? undefined : await versions.updatesAfter(node.orgId, after, AT_A_TIME);
    const last = known === undefined ? versions.sequence(node.orgId) : after;
    await out.send(this.#update(node, 'snapshot', last, { resync: known === undefined && after !== 0 }));
    return last;
  }

  async #pass(node: NodeId, updates: readonly LoggedUpdate[], news: News, out: Out): Promise<number> {
    let last = 0;
    for (const { sequence, at } of updates) {
      if (news.over) break;
      await out.send(this.#update(node, 'changed', sequence, { at }));
      last = sequence;
    }
    return last;
  }

  async #alive(node: NodeId, last: number, out: Out): Promise<void> {
    this.#options.states.seen(node);
    await out.send(this.#update(node, 'alive', last));
  }

  /** He has read so slowly that the log has gone on without him. */
  async #resync(node: NodeId, out: Out): Promise<number> {
    const last = this.#options.state.registers.versions.sequence(node.orgId);
    await out.send(this.#update(node, 'changed', last, { resync: true }));
    return last;
  }

  /** @returns whether nothing has happened for so long that it is to be said */
  #waits(news: News, seen: number): Promise<boolean> {
    return new Promise((resolve) => {
      const cancel = this.#options.clock.after(ALIVE_MS, () => resolve(true));
      news.next(seen, () => {
        cancel();
        resolve(false);
      });
    });
  }

  #update(node: NodeId, kind: string, sequence: number, { at, resync = false }: { at?: string; resync?: boolean } = {}): Update {
    const now = timestamp(this.#options.clock.now());
    return { sequence: String(sequence), at: at ?? now, org: this.#options.states.stateFor(node), kind, resync };
  }

  #add(node: NodeId, isGood: () => boolean): { readonly open: Open & { readonly isGood: () => boolean }; readonly news: News } {
    const news = new News();
    let settle: (why: ProtocolError | undefined) => void = () => undefined;
    const ended = new Promise<void>((resolve, reject) => {
      settle = (why) => (why === undefined ? resolve() : reject(why));
    });
    // Whoever waits for it is told; where nobody does it is no fault.
    ended.catch(() => undefined);
    const end = (why?: ProtocolError): void => {
      news.end();
      settle(why);
    };
    const wake = (): void => {
      if (isGood()) news.tell();
      else end(new ProtocolError('PERMISSION_DENIED', 'the certificate of this node was revoked'));
    };
    return { open: { node, ended, end, wake, isGood }, news };
  }

  #lookAgain(key: string): void {
    this.#open.get(key)?.wake();
  }
}

/** That something has happened, counted, so that nothing is missed between looking and waiting. */
class News {
  #count = 0;
  #over = false;
  #waiting: (() => void) | undefined;

  get count(): number {
    return this.#count;
  }

  get over(): boolean {
    return this.#over;
  }

  /** Calls back once when there is more than what was seen, at once when there is already. */
  next(seen: number, callback: () => void): void {
    if (this.#count !== seen || this.#over) callback();
    else this.#waiting = callback;
  }

  tell(): void {
    this.#count += 1;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.();
  }

  end(): void {
    this.#over = true;
    this.tell();
  }
}
