/** Who takes less than this in all the time that he may take does not read, bytes. */
const MIN_PROGRESS = 16_384;

/** Since when one client has taken next to nothing of what waits for him. */
export class UnreadMark {
  /** Monotonic milliseconds; holds as long as something waits. */
  since = 0;
  #taken: number | undefined;

  /**
   * A look at what waits.
   * @param taken bytes that have left so far, of all that was ever sent
   * @param now monotonic milliseconds
   * @returns `bytes`
   */
  look(bytes: number, taken: number, now: number): number {
    if (bytes === 0) this.#taken = undefined;
    else if (this.#taken === undefined || taken - this.#taken >= MIN_PROGRESS) {
      this.#taken = taken;
      this.since = now;
    }
    return bytes;
  }
}

/** A connection whose client has not taken all that he was sent. */
export interface UnreadConnection {
  /** Whose share it counts in. */
  readonly share: string;
  readonly bytes: number;
  /** Monotonic milliseconds: {@link UnreadMark.since}. */
  readonly since: number;
  /** Breaks it off. */
  close(): void;
}

/**
 * Answers that nobody reads (decision 7.12): how much of them all connections hold, and whose are closed. Connections
 * are told one by one in each look at them, and those that are in the way of others go when it is over: of the share
 * that holds more than half, and while all hold too much of the one that holds most, those that have waited longest.
 */
export class UnreadAnswers {
  readonly #maxBytes: number;
  #found: UnreadConnection[] = [];
  #bytes = 0;
  /** Connections that were closed to make room. */
  closed = 0;

  /** @param maxBytes of all together; one share has half of them */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** As of the last look. */
  get bytes(): number {
    return this.#bytes;
  }

  note(connection: UnreadConnection): void {
    this.#found.push(connection);
  }

  /** The look is over. */
  settle(): void {
    const found = this.#found;
    this.#found = [];
    let bytes = 0;
    for (const connection of found) bytes += connection.bytes;
    this.#bytes = bytes > this.#maxBytes / 2 ? this.#makeRoom(found, bytes) : bytes;
  }

  /** @returns what is left */
  #makeRoom(found: readonly UnreadConnection[], bytes: number): number {
    const shares = new Map<string, Share>();
    // The last one of each list has waited longest.
    for (const connection of [...found].sort((a, b) => b.since - a.since)) {
      const share = shares.get(connection.share) ?? { bytes: 0, connections: [] };
      share.bytes += connection.bytes;
      share.connections.push(connection);
      shares.set(connection.share, share);
    }
    let left = bytes;
    for (const share of shares.values()) while (share.bytes > this.#maxBytes / 2) left -= this.#closeOldest(share);
    while (left > this.#maxBytes) left -= this.#closeOldest(largestOf(shares.values()));
    return left;
  }

  /** @returns how much that frees */
  #closeOldest(share: Share | undefined): number {
    const connection = share?.connections.pop();
    if (share === undefined || connection === undefined) return Number.POSITIVE_INFINITY;
    share.bytes -= connection.bytes;
    this.closed++;
    connection.close();
    return connection.bytes;
  }
}

interface Share {
  bytes: number;
  readonly connections: UnreadConnection[];
}

function largestOf(shares: Iterable<Share>): Share | undefined {
  let largest: Share | undefined;
  for (const share of shares) if (largest === undefined || share.bytes > largest.bytes) largest = share;
  return largest;
}
