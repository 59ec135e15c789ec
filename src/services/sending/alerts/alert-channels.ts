import { type Clock, timestamp } from '../../../base/lib/clock.ts';
import { GatewayError } from '../../../base/lib/gateway-error.ts';
import { uuidv7 } from '../../../base/lib/ids.ts';
import type { Logger } from '../../../base/lib/log.ts';
import { SealError, type Sealed, type SecretBox } from '../../../base/lib/secret-box.ts';
import type { AlertChannel, ChannelConfig, ChannelKind } from '../../../base/model/alert-channel.ts';
import type { Effect, Store } from '../../../storage/contract/store.ts';
import type { Commit } from '../../registers/commit.ts';
import { Register } from '../../registers/register.ts';
import { entityWith } from '../../registers/watched-space.ts';
import { maskedConfig, readChannelConfig } from './channel-config.ts';

/** Entities of this space hold a channel and, sealed, what it is reached by. */
export const CHANNELS = 'alert_channel';

interface StoredChannel extends Omit<AlertChannel, 'config'> {
  readonly sealed: Sealed;
}

/** A channel with what it is really reached by. */
export interface OpenChannel extends Omit<AlertChannel, 'config'> {
  /** Undefined: it cannot be read. */
  readonly config: ChannelConfig | undefined;
}

export interface NewChannel {
  readonly name: string;
  readonly kind: ChannelKind;
  readonly config: unknown;
  readonly enabled?: boolean | undefined;
}

export interface ChannelChange {
  readonly name?: string | undefined;
  readonly kind?: ChannelKind | undefined;
  readonly config?: unknown;
  readonly enabled?: boolean | undefined;
}

export interface ChannelOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly box: SecretBox;
  /** Whether a webhook of this host may be called without TLS. */
  readonly mayBePlain: (host: string) => boolean;
}

/** Where the sealed config of a channel belongs. */
export function channelContext(channelId: string): string {
  return `alert channel ${channelId}`;
}

/**
 * Channels of all orgs (specification, "Alert channel"). What they are reached by is sealed at rest, open in memory,
 * and shown to nobody but in the answer to what made it.
 */
export class AlertChannels {
  readonly #options: ChannelOptions;
  readonly #space: Register<OpenChannel, StoredChannel>;

  private constructor(options: ChannelOptions, space: Register<OpenChannel, StoredChannel>) {
    this.#options = options;
    this.#space = space;
  }

  /** @param changed told of each channel that is there or gone, whoever has changed it */
  static async open(
    options: ChannelOptions,
    changed: (id: string, now: OpenChannel | undefined, before: OpenChannel | undefined) => void,
  ): Promise<AlertChannels> {
    const space = await Register.openSealed<OpenChannel, StoredChannel>(options.store, CHANNELS, {
      stored: entityWith<StoredChannel>('channel_id', 'org_id'),
      opened: (stored) => opened(stored, options),
      orgOf: (channel) => channel.org_id,
      changed,
    });
    return new AlertChannels(options, space);
  }

  /** Of an org. */
  list(orgId: string): readonly AlertChannel[] {
    return this.#space.ofOrg(orgId).map(shown);
  }

  get(orgId: string, id: string): AlertChannel | undefined {
    const channel = this.open(id);
    return channel?.org_id === orgId ? shown(channel) : undefined;
  }

  /** All of an org, for what is judged by where they lead. */
  opened(orgId: string): readonly OpenChannel[] {
    return this.#space.ofOrg(orgId);
  }

  /** For delivery and nothing else. */
  open(id: string): OpenChannel | undefined {
    return this.#space.get(id);
  }

  /** @returns the channel with its secret, this once @throws GatewayError `invalid_request`; as its commit */
  async create(orgId: string, made: NewChannel, commit?: Commit): Promise<AlertChannel> {
    const { clock, mayBePlain } = this.#options;
    const { name, kind, enabled = true } = made;
    const config = readChannelConfig(kind, made.config, mayBePlain);
    const now = clock.now();
    const rest = { channel_id: uuidv7(now), org_id: orgId, name, kind, enabled, created_at: timestamp(now) };
    const stored = { ...rest, sealed: this.#sealed(rest.channel_id, config) };
    await this.#space.change(rest.channel_id, () => stored, { commit });
    return { ...rest, config };
  }

  /** Changes what is given. Undefined when the org has no such channel. @throws GatewayError `invalid_request` */
  async change(orgId: string, id: string, change: ChannelChange, commit?: Commit): Promise<AlertChannel | undefined> {
    const next = (before: StoredChannel | undefined): StoredChannel | undefined => {
      if (before?.org_id !== orgId) return undefined;
      const kind = change.kind ?? before.kind;
      if (kind !== before.kind && change.config === undefined)
        throw new GatewayError('invalid_request', 'The alert channel is not valid.', {
          details: [{ path: 'config', message: 'is needed when the kind changes: each kind has its own' }],
        });
      const { name = before.name, enabled = before.enabled } = change;
      if (change.config === undefined) return { ...before, kind, name, enabled };
      return { ...before, kind, name, enabled, sealed: this.#sealed(id, readChannelConfig(kind, change.config, this.#options.mayBePlain)) };
    };
    const changed = await this.#space.change(id, next, { commit });
    return changed && this.get(orgId, id);
  }

  /** @param also what goes with it @returns false when the org has no such channel */
  async remove(orgId: string, id: string, also: readonly Effect[], commit?: Commit): Promise<boolean> {
    if (this.get(orgId, id) === undefined) return false;
    return this.#space.remove(id, { commit }, (_channel, { effects }) => effects.push(...also));
  }

  #sealed(id: string, config: ChannelConfig): Sealed {
    return this.#options.box.seal(JSON.stringify(config), channelContext(id));
  }
}

function opened({ sealed, ...channel }: StoredChannel, { box, log }: ChannelOptions): OpenChannel {
  try {
    const config = JSON.parse(box.open(sealed, channelContext(channel.channel_id)).toString()) as ChannelConfig;
    return { ...channel, config };
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    log.error({ channel_id: channel.channel_id, err: error }, 'an alert channel cannot be opened; was GW_SECRETS_KEY changed?');
    return { ...channel, config: undefined };
  }
}

function shown({ config, ...channel }: OpenChannel): AlertChannel {
  const masked = config ?? (channel.kind === 'email' ? { to_addresses: [] } : { webhook_url: '' });
  return { ...channel, config: maskedConfig(masked) };
}
