import type { ByteChannel } from '../../base/model/channel.ts';

/** What the upstream said when it accepted a WebSocket. */
export interface OpenedUpstream {
  readonly rawHeaders: readonly string[];
  readonly channel: ByteChannel;
}

/** A WebSocket that its upstream has been asked for. */
export interface Handshake {
  /** Monotonic milliseconds. */
  readonly sentAt: number;
  /** Its calls will be judged, metered and recorded one by one. */
  readonly isMetered: boolean;
  /** Resolves when the upstream accepts it. */
  readonly opened: Promise<OpenedUpstream>;
}

/** The two sides of a WebSocket that both have accepted. Nothing was read from either. */
export interface AcceptedSocket {
  readonly client: ByteChannel;
  readonly upstream: ByteChannel;
}
