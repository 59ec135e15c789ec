import { isJsonObject } from '../../base/json/json-object.ts';
import { type Clock, systemClock, timestamp } from '../../base/lib/clock.ts';
import { RECORD_LIST_OPERATIONS } from '../../operations/management/record-list-operations.ts';
import { entryOf } from '../../operations/operation.ts';
import { type CliIo, Unusable } from '../command.ts';
import { GatewayClient } from '../gateway-client.ts';
import type { ManagementAccess } from '../management/ask-management.ts';
import { givenKey } from '../management/given-key.ts';
import { KEYS_PATH, keyAsked, keyIn, keyPath } from '../management/issued-key.ts';
import { type Arguments, ManagementClient, type ManagementPage } from '../management/management-client.ts';
import { settingsOf } from '../settings-of.ts';
import type { CallRecord } from './follow-calls.ts';

const LIFE_MS = 600_000;
/** A key is not used up to its very end. */
const SPARE_MS = 60_000;
const AT_ONCE = 200;

/**
 * Where records of a running gateway are read for as long as somebody looks: with the key that is given, else with
 * short-lived ones that the admin token makes.
 */
export class RecordSource {
  readonly #access: ManagementAccess;
  readonly #io: CliIo;
  readonly #clock: Clock;
  readonly #filters: Readonly<Record<string, string>>;
  readonly #given: string | undefined;
  readonly #holder: string;
  /** One key is made at a time, however many questions wait for it. */
  #asked: Promise<ManagementClient> | undefined;
  #made: { readonly id: string; readonly client: ManagementClient; readonly until: number } | undefined;

  /**
   * @param filters of `gw records list` @param holder of the keys that are made, for the audit trail
   * @throws UsageError for what is no key
   */
  constructor(
    access: ManagementAccess,
    filters: Readonly<Record<string, string>>,
    io: CliIo,
    clock: Clock = systemClock,
    holder = 'gw logs',
  ) {
    this.#holder = holder;
    this.#access = access;
    this.#filters = filters;
    this.#io = io;
    this.#clock = clock;
    this.#given = givenKey(access.key, io);
  }

  /** Pages, the newest record first. @throws Unusable, UsageError, GatewayRefusal */
  async *newestFirst(from: number): AsyncGenerator<readonly CallRecord[]> {
    yield* this.pages({ from: timestamp(from) });
  }

  /** The same of a range as the list takes it. @param range `from` and `to`, each of them if it is given */
  async *pages(range: Arguments): AsyncGenerator<readonly CallRecord[]> {
    const list = entryOf(RECORD_LIST_OPERATIONS, 'mgmt.records.list');
    for (let next: Arguments | undefined = { ...this.#filters, ...range, limit: AT_ONCE }; next !== undefined; ) {
      const args: Arguments = next;
      const page: ManagementPage = await this.#ask((client) => client.page(list, args));
      yield page.data.filter(isJsonObject);
      next = page.next;
    }
  }

  /** One record as it was hashed, byte for byte. @throws as {@link newestFirst} */
  text(recordHash: string): Promise<string> {
    return this.#ask((client) => client.text(entryOf(RECORD_LIST_OPERATIONS, 'mgmt.records.read'), { hash: recordHash }));
  }

  /** With a key that is good for a while: who looks for long gets another in between. */
  async #ask<T>(ask: (client: ManagementClient) => Promise<T>): Promise<T> {
    this.#asked ??= this.#client().finally(() => {
      this.#asked = undefined;
    });
    const client = await this.#asked;
    try {
      return await ask(client);
    } catch (error) {
      // A gateway that was started anew, or on other data, may not know the key any more.
      if (error instanceof Unusable) this.#made = undefined;
      throw error;
    }
  }

  /** Revokes the key that was made last. A gateway that is gone has nobody to tell: the key ends by itself. */
  async close(): Promise<void> {
    const made = this.#made;
    this.#made = undefined;
    if (made === undefined) return;
    const admin = await GatewayClient.open(this.#access.url, this.#io);
    await admin.text('DELETE', keyPath(made.id)).catch(() => undefined);
  }

  async #client(): Promise<ManagementClient> {
    const { url, org } = this.#access;
    if (this.#given !== undefined) return new ManagementClient(GatewayClient.keyPlace(this.#io, url), this.#given);
    const now = this.#clock.now();
    if (this.#made !== undefined && now < this.#made.until) return this.#made.client;
    await this.close();
    const admin = await GatewayClient.open(url, this.#io);
    const orgId = org ?? settingsOf(this.#io, { url }).orgId ?? 'default';
    const asked = keyAsked({ orgId, scopes: ['read'], holder: this.#holder, program: 'gw', expiresAt: now + LIFE_MS });
    const key = keyIn(await admin.json('POST', KEYS_PATH, asked));
    if (key === undefined) throw new Unusable(`what ${admin.origin} answers is no key: is it a gateway?`);
    const client = new ManagementClient(GatewayClient.managementPlace(this.#io, admin.origin), key.key);
    this.#made = { id: key.id, client, until: now + LIFE_MS - SPARE_MS };
    return client;
  }
}
