import { createHmac } from 'node:crypto';
import { unknownPosition } from '../contract/record-query.ts';

/*
 * Where a record stands: the number of the change that brought it and its ordinal in there, as one integer that grows
 * in commit order. As a position it goes out with a code that the store's own key has made, so that one that was never
 * given out is known without looking, also when its record is gone.
 */

/** Records of one change at most; a batch has fewer commits. */
export const PLACES_PER_CHANGE = 1_024n;

const PLACE_DIGITS = 16;
const CODE_DIGITS = 16;
const POSITION = /^[0-9a-f]{32}$/;

/** The place of the n-th record of a change, as decimal text. */
export function placeOf(change: bigint, ordinal: number): string {
  return (change * PLACES_PER_CHANGE + BigInt(ordinal)).toString();
}

/** Positions of one store. */
export class RecordPlaces {
  readonly #key: string;

  /** @param key secret of the store, the same for all who open it */
  constructor(key: string) {
    this.#key = key;
  }

  /** @param place decimal text */
  positionOf(place: string): string {
    const digits = BigInt(place).toString(16).padStart(PLACE_DIGITS, '0');
    return digits + this.#code(digits);
  }

  /** The place of a position, as decimal text. @throws GatewayError `invalid_request` for what was never given out */
  placeAt(position: string): string {
    const digits = position.slice(0, PLACE_DIGITS);
    if (!POSITION.test(position) || this.#code(digits) !== position.slice(PLACE_DIGITS)) throw unknownPosition();
    return BigInt(`0x${digits}`).toString();
  }

  #code(digits: string): string {
    return createHmac('sha256', this.#key).update(digits).digest('hex').slice(0, CODE_DIGITS);
  }
}
