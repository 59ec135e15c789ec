/** What a channel tells whoever opened it. */
export interface ChannelEvents {
  onData(chunk: Uint8Array): void;
  /** The other side has said all; it may still listen. */
  onEnd(): void;
  /** What was written has left, after `write` returned false. */
  onDrain(): void;
  /** Nothing more comes or goes. Called once, last. `broken`: the other side did not end it in order. */
  onClose(broken: boolean): void;
  /** The gateway is stopping: finish soon. */
  onShutdown?(): void;
  /** The time for that is over: a moment later the connection is destroyed. */
  onCut?(): void;
}

/** A connection that carries bytes both ways: what is left of an HTTP/1.1 exchange after 101. */
export interface ByteChannel {
  /** Called once. No byte is read before. */
  open(events: ChannelEvents): void;
  /** False: hold back until `onDrain`. */
  write(chunk: Uint8Array): boolean;
  pause(): void;
  resume(): void;
  /** Says that all was said, behind what was written. */
  end(): void;
  /** Ends both directions behind what was written. */
  close(): void;
  /** Breaks the connection, so that nobody takes what was sent for complete. */
  reset(): void;
}
