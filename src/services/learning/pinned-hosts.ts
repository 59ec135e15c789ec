import type { Listeners } from '../../base/events/bus.ts';
import type { HandshakeRejectedEvent } from '../../base/events/events.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { LineLimiter } from '../../base/lib/line-limiter.ts';
import type { Logger } from '../../base/lib/log.ts';
import { Lru } from '../../base/lib/lru.ts';
import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';

/** Wildcard rows of the catalogue let callers name hosts at will. */
const MAX_HOSTS = CONTROL_BOUNDS.pinnedHosts.all;
const SAID_AGAIN_AFTER_MS = 3_600_000;
const NEVER = Number.NEGATIVE_INFINITY;

interface Entry {
  readonly alerts: number;
  readonly silentCloses: number;
  /** Milliseconds since the epoch. */
  readonly saidAt: number;
}

/**
 * Learns for which hosts clients reject our certificate, because they pin the real one or were never told to trust our
 * root (decision 3.10). That makes a host a candidate for `GW_PROXY_BYPASS`; nothing is passed on by what is learned
 * here.
 */
export class PinnedHosts {
  readonly #clock: Clock;
  readonly #log: Logger;
  /** Clients name hosts at will where a row covers every name below a domain. */
  readonly #limiter: LineLimiter;
  readonly #hosts = new Lru<string, Entry>({ max: MAX_HOSTS });

  constructor({ clock, log }: { readonly clock: Clock; readonly log: Logger }) {
    this.#clock = clock;
    this.#log = log;
    this.#limiter = new LineLimiter(clock);
  }

  /** What this wants to hear. */
  readonly events: Listeners = { handshakeRejected: (event) => this.#learn(event) };

  #learn({ host, signal }: HandshakeRejectedEvent): void {
    const now = this.#clock.now();
    const before = this.#hosts.get(host);
    const alerts = (before?.alerts ?? 0) + (signal === 'alert' ? 1 : 0);
    const silentCloses = (before?.silentCloses ?? 0) + (signal === 'silent_close' ? 1 : 0);
    const isDue = before === undefined || now - before.saidAt >= SAID_AGAIN_AFTER_MS;
    const suppressed = isDue ? this.#limiter.take('rejected') : undefined;
    this.#hosts.set(host, { alerts, silentCloses, saidAt: suppressed === undefined ? (before?.saidAt ?? NEVER) : now });
    if (suppressed === undefined) return;
    this.#log.warn(
      { host, signal, alerts, silent_closes: silentCloses, suppressed: suppressed === 0 ? undefined : suppressed },
      'a client does not take our certificate for this host: it needs our root (gw env: NODE_EXTRA_CA_CERTS for Node, JAVA_TOOL_OPTIONS for Java, a bundle for others; then a new start of it), or pins the real one (then GW_PROXY_BYPASS passes the host on unopened)',
    );
  }
}
