import { isJsonObject } from '../../base/json/json-object.ts';
import { type Clock, systemClock, timestamp } from '../../base/lib/clock.ts';
import { RECORD_LIST_OPERATIONS } from '../../operations/management/record-list-operations.ts';
import { entryOf } from '../../operations/operation.ts';
import { type CliIo, Unusable } from '../command.ts';
import { parseGatewayUrl } from '../gateway-address.ts';
import { GatewayClient } from '../gateway-client.ts';
import type { ManagementAccess } from '../management/ask-management.ts';
import { givenKey } from '../management/given-key.ts';
import { KEYS_PATH, keyAsked, keyIn, keyPath } from '../management/issued-key.ts';
import { ManagementClient } from '../management/management-client.ts';
import { settingsOf } from '../settings-of.ts';
import type { CallRecord } from './follow-calls.ts';

const LIFE_MS = 600_000;
/** A key is not used up to its very end. */
const SPARE_MS = 60_000;
const AT_ONCE = 200;

/** Where records of a running gateway are read for as long as somebody looks: with the key that is given, else with short-lived ones that the admin token makes. */
export class RecordSource {
  readonly #access: ManagementAccess;
  readonly #io: CliIo;
  readonly #clock: Clock;
  readonly #filters: Readonly<Record<string, string>>;
  readonly #given: string | undefined;
  #made: { readonly id: string; readonly client: ManagementClient; readonly until: number } | undefined;

  /** @param filters of `gw records list` @throws UsageError for what is no key */
  constructor(access: ManagementAccess, filters: Readonly<Record<string, string>>, io: CliIo, clock: Clock = systemClock) {
    this.#access = access;
    this.#filters = filters;
    this.#io = io;
    this.#clock = clock;
    this.#given = givenKey(access.key, io);
  }

  /** Pages, the newest record first. @throws Unusable, UsageError, GatewayRefusal */
  async *newestFirst(from: number): AsyncGenerator<readonly CallRecord[]> {
    const client = await this.#client();
    const args = { ...this.#filters, from: timestamp(from), limit: AT_ONCE };
    try {
      for await (const page of client.pages(entryOf(RECORD_LIST_OPERATIONS, 'mgmt.records.list'), args)) yield page.filter(isJsonObject);
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
    if (this.#given !== undefined)
      return new ManagementClient(
        url === undefined ? GatewayClient.managementPlace(this.#io) : parseGatewayUrl(url, settingsOf(this.#io), this.#io),
        this.#given,
      );
    const now = this.#clock.now();
    if (this.#made !== undefined && now < this.#made.until) return this.#made.client;
    await this.close();
    const admin = await GatewayClient.open(url, this.#io);
    const orgId = org ?? settingsOf(this.#io).orgId ?? 'default';
    const asked = keyAsked({ orgId, scopes: ['read'], holder: 'gw logs', expiresAt: now + LIFE_MS });
    const key = keyIn(await admin.json('POST', KEYS_PATH, asked));
    if (key === undefined) throw new Unusable(`what ${admin.origin} answers is no key: is it a gateway?`);
    const client = new ManagementClient(GatewayClient.managementPlace(this.#io, admin.origin), key.key);
    this.#made = { id: key.id, client, until: now + LIFE_MS - SPARE_MS };
    return client;
  }
}
