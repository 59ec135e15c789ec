import type { Logger } from '../lib/log.ts';
import { EVENTS, type EventName, type EventPayloads } from './events.ts';

/** What somebody wants to hear, by name. */
export type Listeners = { readonly [N in EventName]?: (event: EventPayloads[N]) => void };

/** What those see of the bus who tell of something. */
export interface Events {
  /** Tells every listener, in the order in which they came, before it returns. Never throws. */
  emit<N extends EventName>(name: N, event: EventPayloads[N]): void;
  /** Whether anybody listens: ask before an event is put together that costs something. */
  hears(name: EventName): boolean;
}

/** An object of its own for each subscription: the same function may be given twice, and each is ended alone. */
interface Listener {
  readonly tell: (event: never, name: never) => void;
}
const NOBODY: readonly Listener[] = [];

/**
 * The one bus of a gateway: made before the services, and handed to everybody who tells of something or wants to know.
 */
export class EventBus implements Events {
  readonly #log: Logger;
  /** Never changed in place: who is told of an event is settled when it is emitted. */
  readonly #listeners: Record<EventName, readonly Listener[]>;

  constructor(log: Logger) {
    this.#log = log;
    this.#listeners = Object.fromEntries(Object.keys(EVENTS).map((name) => [name, NOBODY])) as Record<EventName, readonly Listener[]>;
  }

  emit<N extends EventName>(name: N, event: EventPayloads[N]): void {
    const listeners = this.#listeners[name];
    if (listeners !== NOBODY) this.#tell(listeners, name, event);
  }

  hears(name: EventName): boolean {
    return this.#listeners[name] !== NOBODY;
  }

  /**
   * Calls `listener` for every event of these names. What it throws is logged, and keeps no event from anybody else.
   * @returns what ends it
   */
  subscribe<N extends EventName>(names: readonly N[], listener: (event: EventPayloads[N], name: N) => void): () => void {
    const own: Listener = { tell: listener };
    for (const name of names) this.#listeners[name] = [...this.#listeners[name], own];
    return () => {
      for (const name of names) {
        const left = this.#listeners[name].filter((one) => one !== own);
        this.#listeners[name] = left.length === 0 ? NOBODY : left;
      }
    };
  }

  /** Subscribes a listener for each name that has one. @returns what ends them all */
  attach(listeners: Listeners): () => void {
    const ends = (Object.keys(listeners) as EventName[]).map((name) => {
      const listener = listeners[name];
      return listener === undefined ? () => undefined : this.subscribe([name], listener as (event: EventPayloads[EventName]) => void);
    });
    return () => {
      for (const end of ends) end();
    };
  }

  #tell(listeners: readonly Listener[], name: EventName, event: EventPayloads[EventName]): void {
    for (const listener of listeners) {
      try {
        listener.tell(event as never, name as never);
      } catch (error) {
        this.#log.error({ err: error, event: name }, 'a listener failed');
      }
    }
  }
}
