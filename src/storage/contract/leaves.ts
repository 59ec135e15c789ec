/** Bytes of a record's hash. */
export const HASH_BYTES = 32;

/**
 * The hashes that an org has handed in for the ledger, in the order in which they came. What was taken stays: nothing
 * is changed or removed, and each hash is there once. There is one writer.
 */
export interface Leaves {
  /** How many there are. What is under way does not count. */
  readonly count: number;
  /**
   * A write has failed in a way that could not be taken back: nothing is added any more until they are opened again.
   */
  readonly isBroken?: boolean;
  /**
   * Adds those that are not there yet, in their order. It MUST resolve only when all of them survive the death of the
   * process and of the machine.
   * @param hashes of 32 bytes each @throws TypeError for another length; Error when they cannot be stored: then none of
   * the new ones count
   */
  append(hashes: readonly Uint8Array[]): Promise<void>;
  /** At which place, from 0, a hash stands; undefined: it is not there. */
  find(hash: Uint8Array): Promise<number | undefined>;
  /** `length` of them from `first` on, fewer at the end. */
  read(first: number, length: number): Promise<readonly Buffer[]>;
  /** Waits for what is under way. Idempotent. */
  close(): Promise<void>;
}

/** Where the leaves of orgs are. */
export interface LeafPlace {
  /** Whether an org has ever handed in a leaf. */
  has(orgId: string): Promise<boolean>;
  /** Whether an org that has handed in leaves has others there than so many signed ones. Cheap: it opens nothing. */
  differs(orgId: string, signed: number): Promise<boolean>;
  /** @param atLeast so many have been signed for @throws Error when fewer can be read */
  open(orgId: string, atLeast: number): Promise<Leaves>;
}
