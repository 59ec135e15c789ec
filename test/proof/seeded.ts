import { Mulberry32 } from '../support/mulberry32.ts';

/** Random numbers that the seed alone determines (mulberry32 over an FNV-1a hash of the seed). */
export class Seeded extends Mulberry32 {
  constructor(seed: string) {
    let hash = 0x811c9dc5;
    for (const byte of Buffer.from(seed)) hash = Math.imul(hash ^ byte, 0x01000193);
    super(hash >>> 0);
  }

  /** A whole number, both ends included. */
  between(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<T>(from: readonly T[]): T {
    const picked = from[Math.floor(this.next() * from.length)];
    if (picked === undefined) throw new Error('nothing to pick from');
    return picked;
  }

  /** Picks by weight: a row with weight 3 comes three times as often as one with weight 1. */
  weighted<T>(rows: readonly (readonly [number, T])[]): T {
    let left = this.next() * rows.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, value] of rows) {
      left -= weight;
      if (left < 0) return value;
    }
    return this.pick(rows)[1];
  }
}
