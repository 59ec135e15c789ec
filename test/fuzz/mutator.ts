import { Seeded } from '../proof/seeded.ts';

/** Longest input. */
export const MAX_INPUT = 65_536;
/** Inputs that did something new are mutated further, up to this many of them. */
const MAX_KEPT = 512;
/** Longer inputs are not mutated further: they are stalls that were found, and slow. */
const MAX_SEED = 8_192;
/** One input in so many is blown up to {@link MAX_INPUT}, to find what takes more than linear time. */
const AMPLIFY_ONE_IN = 400;
const BYTES = [
  0x00, 0x09, 0x0a, 0x0d, 0x20, 0x22, 0x25, 0x2c, 0x2f, 0x3a, 0x3b, 0x3d, 0x5b, 0x5c, 0x5d, 0x7b, 0x7d, 0x7f, 0x80, 0xc3, 0xff,
];

export interface MutatorOptions {
  readonly seed: string;
  readonly corpus: readonly Buffer[];
  readonly dictionary: readonly string[];
  readonly headLines: number;
}

type Mutation = (input: Buffer, mutator: Draws) => Buffer;

/** What mutations draw from. */
interface Draws {
  readonly random: Seeded;
  readonly tokens: readonly Buffer[];
  other(): Buffer;
}

/** Makes new inputs out of known ones. Equal options make equal inputs in an equal order. */
export class Mutator {
  readonly #options: MutatorOptions;
  readonly #pool: Buffer[];
  readonly #draws: Draws;

  constructor(options: MutatorOptions) {
    this.#options = options;
    this.#pool = options.corpus.filter(({ length }) => length <= MAX_SEED);
    const random = new Seeded(options.seed);
    this.#draws = { random, tokens: options.dictionary.map((token) => Buffer.from(token, 'latin1')), other: () => random.pick(this.#pool) };
  }

  next(): Buffer {
    const { random } = this.#draws;
    const seed = random.pick(this.#pool);
    const from = random.chance(0.97) ? this.#headEnd(seed) : 0;
    const head = seed.subarray(0, from);
    let body = seed.subarray(from);
    do body = random.weighted(MUTATIONS)(body, this.#draws);
    while (random.chance(0.5));
    if (random.chance(1 / AMPLIFY_ONE_IN)) body = amplified(body, this.#draws);
    return Buffer.concat([head, body]).subarray(0, MAX_INPUT);
  }

  /** An input that did something new. */
  keep(input: Buffer): void {
    if (this.#pool.length < MAX_KEPT + this.#options.corpus.length && input.length <= MAX_SEED) this.#pool.push(input);
  }

  #headEnd(input: Buffer): number {
    let end = 0;
    for (let i = 0; i < this.#options.headLines; i++) end = input.indexOf(0x0a, end) + 1 || input.length;
    return end;
  }
}

const MUTATIONS: readonly (readonly [weight: number, Mutation])[] = [
  [4, flipBit],
  [4, (input, draws) => replaced(input, draws, 1, Buffer.of(draws.random.pick(BYTES)))],
  [4, (input, draws) => replaced(input, draws, 0, Buffer.of(draws.random.pick(BYTES)))],
  [6, (input, draws) => replaced(input, draws, 0, token(draws))],
  [3, (input, draws) => replaced(input, draws, draws.random.between(1, 16), token(draws))],
  [4, (input, draws) => replaced(input, draws, draws.random.between(1, 40), Buffer.alloc(0))],
  [3, (input, draws) => replaced(input, draws, 0, slice(input, draws.random))],
  [2, (input, draws) => replaced(input, draws, 0, slice(draws.other(), draws.random))],
  [2, (input, draws) => Buffer.concat([input.subarray(0, at(input, draws.random)), draws.other().subarray(0, 4096)])],
  [2, (input, draws) => input.subarray(0, at(input, draws.random))],
  [1, (input, draws) => input.subarray(at(input, draws.random))],
  [2, changeNumber],
];

function at(input: Buffer, random: Seeded): number {
  return random.between(0, input.length);
}

function token({ random, tokens }: Draws): Buffer {
  return tokens.length === 0 ? Buffer.of(random.pick(BYTES)) : random.pick(tokens);
}

function slice(input: Buffer, random: Seeded): Buffer {
  const from = at(input, random);
  return input.subarray(from, from + random.between(1, random.chance(0.2) ? 1024 : 32));
}

function flipBit(input: Buffer, { random }: Draws): Buffer {
  if (input.length === 0) return input;
  const copy = Buffer.from(input);
  const place = random.between(0, copy.length - 1);
  copy[place] = (copy[place] ?? 0) ^ (1 << random.between(0, 7));
  return copy;
}

function replaced(input: Buffer, { random }: Draws, length: number, by: Buffer): Buffer {
  const from = at(input, random);
  return Buffer.concat([input.subarray(0, from), by, input.subarray(from + length)]);
}

/** Numbers are where lengths, counts and ports stand. */
function changeNumber(input: Buffer, { random }: Draws): Buffer {
  const from = at(input, random);
  const digits = /\d+/.exec(input.toString('latin1', from, from + 2048));
  if (digits === null) return input;
  const number = random.pick(['0', '-1', '00', '1e999', '65536', '4294967296', '9007199254740993', '9'.repeat(40), '0x10', '1.5']);
  const start = from + digits.index;
  return Buffer.concat([input.subarray(0, start), Buffer.from(number), input.subarray(start + digits[0].length)]);
}

/**
 * The input with one piece of it, or one token, repeated until it is as long as it may be: the same each time, or with
 * a number in it, so that names differ.
 */
function amplified(input: Buffer, draws: Draws): Buffer {
  const { random } = draws;
  const pick = random.chance(0.5) ? token(draws) : slice(input, random);
  const piece = pick.length === 0 ? Buffer.of(random.pick(BYTES)) : pick;
  const place = at(input, random);
  const room = Math.max(0, MAX_INPUT - input.length);
  const more = random.chance(0.5) ? numbered(piece, at(piece, random), room) : repeated(piece, room);
  return Buffer.concat([input.subarray(0, place), more, input.subarray(place)]);
}

function repeated(piece: Buffer, room: number): Buffer {
  return Buffer.alloc(Math.floor(room / piece.length) * piece.length, piece);
}

function numbered(piece: Buffer, place: number, room: number): Buffer {
  const pieces: Buffer[] = [];
  for (let number = 0, left = room - piece.length - 6; left > 0; number++) {
    const next = Buffer.concat([piece.subarray(0, place), Buffer.from(String(number)), piece.subarray(place)]);
    pieces.push(next);
    left -= next.length;
  }
  return Buffer.concat(pieces);
}
