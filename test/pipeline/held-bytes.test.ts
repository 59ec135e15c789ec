import t from 'tap';
import { HeldBytes } from '../../src/pipeline/answer/client-bytes.ts';
import { StreamEnd } from '../../src/pipeline/answer/delivery.ts';
import { BufferBudget } from '../../src/pipeline/body/buffer-budget.ts';
import { AnswerCopy } from '../../src/pipeline/parts/answer-copy.ts';
import { bytesInUse } from '../support/bytes-in-use.ts';
import { fakeClock } from '../support/fake-clock.ts';

const MAX_BYTES = 1_000_000;
const PIECE = 100_000;

function budget(bytes: number): BufferBudget {
  return new BufferBudget(bytes, fakeClock());
}

t.test('what is held in pieces of one byte takes about as much as it says', async (t) => {
  const forms: Readonly<Record<string, { push(piece: Uint8Array): void }>> = {
    'an answer': new HeldBytes(MAX_BYTES, () => budget(10_000_000).hold('me')),
    'a copy': new AnswerCopy(),
  };
  for (const [name, form] of Object.entries(forms)) {
    const before = bytesInUse();
    for (let at = 0; at < 500_000; at++) form.push(Buffer.from([at & 255]));
    const grown = bytesInUse() - before;
    t.ok(grown < 2_000_000, `${name}: ${grown} bytes`);
    form.push(Buffer.from('x'));
  }
});

t.test('what is held beyond the usual is counted against the shared budget, and given back once', async (t) => {
  const buffers = budget(600_000);
  const held = new HeldBytes(MAX_BYTES, () => buffers.hold('me'));
  const others = new HeldBytes(MAX_BYTES, () => buffers.hold('me'));
  others.pushCounted(Buffer.alloc(PIECE));
  t.ok(held.pushCounted(Buffer.alloc(60_000)), 'the usual is free');
  t.equal(buffers.used, PIECE);
  for (let at = 0; at < 2; at++) t.ok(held.pushCounted(Buffer.alloc(PIECE)));
  t.equal(buffers.used, 300_000);
  t.notOk(held.pushCounted(Buffer.alloc(1)), 'one client has its share of it, and no more');
  t.equal(held.whole.length, 260_001);
  t.equal(held.whole.length, 260_001, 'all of it may be asked for again');
  held.giveBack();
  held.giveBack();
  t.equal(buffers.used, PIECE);
  const large = new HeldBytes(MAX_BYTES, () => budget(10_000_000).hold('me'));
  const pushed = Array.from({ length: 11 }, () => large.pushCounted(Buffer.alloc(PIECE)));
  t.same(pushed.lastIndexOf(true), 9, 'nor is one larger than any body');
});

t.test('a copy that grows too large is given up, also when it was nearly whole', async (t) => {
  const copy = new AnswerCopy();
  copy.push(Buffer.alloc(1024 * 1024));
  t.equal(copy.bytes()?.length, 1024 * 1024);
  const large = new AnswerCopy();
  large.push(Buffer.alloc(1024 * 1024));
  large.push(Buffer.alloc(1));
  large.push(Buffer.alloc(1));
  t.equal(large.bytes(), undefined);
});

t.test('the end of a stream is waited for from the last byte of its terminal event on', async (t) => {
  const clock = fakeClock();
  let over = 0;
  const end = new StreamEnd(clock, () => over++);
  for (let at = 0; at < 10; at++) {
    end.came(false);
    clock.advance(200);
    t.equal(over, 0, 'it still comes');
  }
  end.came(true);
  for (let at = 0; at < 2; at++) {
    clock.advance(120);
    // What comes behind it puts nothing off.
    end.came(true);
  }
  t.equal(over, 0);
  clock.advance(10);
  t.equal(over, 1);
  const silent = new StreamEnd(clock, () => over++);
  silent.came(false);
  clock.advance(250);
  t.equal(over, 2, 'one that falls silent in the middle is over, too');
  const cancelled = new StreamEnd(clock, () => over++);
  cancelled.came(false);
  cancelled.cancel();
  clock.advance(1_000);
  t.equal(over, 2);
});
