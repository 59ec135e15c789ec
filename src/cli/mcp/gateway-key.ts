import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError, messageOf } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import type { GatewayAddress } from '../gateway-address.ts';
import { KEYS_PATH, keyAsked, keyIn, keyPath } from '../management/issued-key.ts';
import { askGateway } from './gateway-link.ts';

/** What the management API of a gateway is asked with. */
export interface GatewayKey {
  /** The key as it is now. @throws GatewayError when none can be had */
  current(): Promise<string>;
  /** The gateway did not take this one. @returns whether there may be another */
  refused(key: string): boolean;
  /** Lets go of it. Never rejects. */
  close(): Promise<void>;
}

/** A key that somebody made for this program: it is used as it is, and left. */
export function givenKey(key: string): GatewayKey {
  return { current: () => Promise.resolve(key), refused: () => false, close: () => Promise.resolve() };
}

export interface BorrowedKeyOptions {
  readonly gateway: GatewayAddress;
  readonly adminToken: string;
  readonly orgId: string;
  /** Of the key: who has it. */
  readonly label: string;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Borrowed {
  readonly id: string;
  readonly key: string;
  /** Epoch milliseconds from which on another one is taken. */
  readonly until: number;
}

/** Should the program be killed, its key does not outlive it for long. */
const LIFE_MS = 3_600_000;
/** Before its end, so that no call meets it. */
const MARGIN_MS = 600_000;

/**
 * A management key that this program makes for itself with the admin token, so that the token itself goes along with no
 * call: short-lived, taken anew before it ends, and revoked when the program ends (decision 10.9).
 */
export class BorrowedKey implements GatewayKey {
  readonly #options: BorrowedKeyOptions;
  #held: Borrowed | undefined;
  /** One is asked for at a time. */
  #borrowing: Promise<Borrowed> | undefined;
  #closed = false;

  constructor(options: BorrowedKeyOptions) {
    this.#options = options;
  }

  async current(): Promise<string> {
    if (this.#closed) throw new GatewayError('shutting_down', 'gw-mcp is stopping.');
    if (this.#held !== undefined && this.#held.until > this.#options.clock.now()) return this.#held.key;
    this.#borrowing ??= this.#renew().finally(() => {
      this.#borrowing = undefined;
    });
    return (await this.#borrowing).key;
  }

  refused(key: string): boolean {
    if (this.#held?.key === key) this.#held = undefined;
    return true;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#borrowing?.catch(() => undefined);
    if (this.#held !== undefined) await this.#revoke(this.#held);
    this.#held = undefined;
  }

  async #renew(): Promise<Borrowed> {
    const made = await this.#borrow();
    if (this.#held !== undefined) void this.#revoke(this.#held);
    this.#held = made;
    return made;
  }

  async #borrow(): Promise<Borrowed> {
    const { gateway, adminToken, orgId, label, clock } = this.#options;
    const now = clock.now();
    const answer = await askGateway(gateway, {
      method: 'POST',
      path: KEYS_PATH,
      headers: { 'GW-Admin-Token': adminToken },
      body: keyAsked({ orgId, scopes: ['read', 'write'], holder: `gw-mcp (${label})`, program: 'gw-mcp', expiresAt: now + LIFE_MS }),
    });
    const made = keyIn(answer);
    if (made === undefined) throw new GatewayError('gateway_error', `What ${gateway.origin} answers is no key: is it a gateway?`);
    return { ...made, until: now + LIFE_MS - MARGIN_MS };
  }

  async #revoke({ id }: Borrowed): Promise<void> {
    const { gateway, adminToken, log } = this.#options;
    const headers = { 'GW-Admin-Token': adminToken };
    try {
      await askGateway(gateway, { method: 'DELETE', path: keyPath(id), headers });
    } catch (error) {
      log.warn({ key_id: id, reason: messageOf(error) }, 'the key of this program could not be revoked; it ends within the hour');
    }
  }
}
