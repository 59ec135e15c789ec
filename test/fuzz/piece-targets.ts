import { ByteCollector } from '../../src/base/lib/byte-collector.ts';
import { type FuzzTarget, must } from './target.ts';

/** From here on a byte of the input is a large piece, and the last few read what has come. */
const LARGE = 0xe0;
const READS = 0xf8;
const BYTES = Buffer.from(Array.from({ length: 65_536 }, (_, at) => (at * 7) % 251));

/**
 * Bodies in pieces of any size, read now and then: each byte comes once, in its place. The input says where they are
 * cut.
 */
const pieces: FuzzTarget = {
  name: 'pieces',
  inputs: 300_000,
  headLines: 0,
  dictionary: ['\x00\x00\x00\x00', '\xe0\x00\xff\x00', '\xf7\x01\xf7', '\xff\xff'],
  run(input) {
    const collector = new ByteCollector();
    const [given, collected]: [Uint8Array[], Uint8Array[]] = [[], []];
    const take = (): void => {
      const size = collector.size;
      const all = collector.take();
      must(all.length === size && collector.size === 0, 'all that was pushed is taken at once');
      collected.push(all);
    };
    for (const byte of input.subarray(0, 2_000)) {
      const length = byte >= READS ? 0 : byte >= LARGE ? (byte - LARGE + 1) * 300 : 1 + (byte % 9);
      const piece = BYTES.subarray(byte * 3, byte * 3 + length);
      if (length === 0) take();
      else {
        given.push(piece);
        collector.push(piece);
      }
    }
    take();
    const whole = Buffer.concat(given);
    must(Buffer.concat(collected).equals(whole), 'what is collected is what came');
    return `${Math.min(given.length, 20)} ${Math.min(collected.length, 5)}`;
  },
};

export const PIECE_TARGETS: readonly FuzzTarget[] = [pieces];
