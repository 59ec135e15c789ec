import t from 'tap';
import { LineWriter, type WritableFile } from '../../../src/base/lib/line-writer.ts';
import { fakeClock } from '../../support/fake-clock.ts';

type Done = (error: Error | null, written: number) => void;

/** A file that takes `most` bytes at a time, answers when it is told to, and is busy as often as `busy` says. */
class SlowFile implements WritableFile {
  #bytes = Buffer.alloc(0);
  calls = 0;
  busy = 0;
  most = Number.POSITIVE_INFINITY;
  #done: (() => void) | undefined;

  write(_fd: number, bytes: Buffer, offset: number, length: number, _at: null, done: Done): void {
    this.calls++;
    this.#done = () => {
      if (this.busy-- > 0) done(Object.assign(new Error('busy'), { code: 'EAGAIN' }), 0);
      else done(null, this.#put(bytes.subarray(offset, offset + length)));
    };
  }

  writeSync(_fd: number, bytes: Buffer, offset: number): number {
    if (this.busy-- > 0) throw Object.assign(new Error('busy'), { code: 'EAGAIN' });
    return this.#put(bytes.subarray(offset));
  }

  get text(): string {
    return this.#bytes.toString();
  }

  answer(): void {
    const done = this.#done;
    this.#done = undefined;
    done?.();
  }

  #put(bytes: Buffer): number {
    const taken = bytes.subarray(0, this.most);
    this.#bytes = Buffer.concat([this.#bytes, taken]);
    return taken.length;
  }
}

function setUp() {
  const clock = fakeClock();
  const file = new SlowFile();
  return { clock, file, writer: new LineWriter(1, clock, file) };
}

t.test(
  'lines leave in order, in one write for all that came together, also when the file takes them in pieces or not at once',
  async (t) => {
    const { clock, file, writer } = setUp();
    writer.write('one €\n');
    writer.write('two\n');
    t.equal(file.calls, 0, 'nothing is written while the caller works');
    clock.advance(10);
    t.equal(file.calls, 1);
    writer.write('three\n');
    clock.advance(100);
    t.equal(file.calls, 1, 'one write at a time');
    file.busy = 1;
    file.most = 5;
    file.answer();
    clock.advance(50);
    for (let at = 0; at < 3; at += 1) file.answer();
    t.equal(file.text, 'one €\ntwo\n');
    clock.advance(10);
    for (let at = 0; at < 2; at += 1) file.answer();
    t.equal(file.text, 'one €\ntwo\nthree\n');
    t.equal(clock.pending, 0);
  },
);

t.test('flushing writes at once what waits, beside a write that is under way', async (t) => {
  const { clock, file, writer } = setUp();
  writer.write('one\n');
  clock.advance(10);
  writer.write('two\n');
  file.busy = 1;
  writer.flush();
  t.equal(file.text, 'two\n');
  writer.write('three\n');
  file.answer();
  t.equal(file.text, 'two\none\n', 'the bytes under way are left alone');
  clock.advance(10);
  file.answer();
  t.equal(file.text, 'two\none\nthree\n');
});

t.test('what a reader does not take is bounded, and its loss is told', async (t) => {
  const { clock, file, writer } = setUp();
  const line = `${'x'.repeat(1023)}\n`;
  writer.write(line);
  clock.advance(10);
  for (let at = 0; at < 20_000; at += 1) writer.write(line);
  file.answer();
  clock.advance(10);
  file.answer();
  const lines = file.text.trimEnd().split('\n');
  t.ok(file.text.length < 17 * 1024 * 1024);
  t.match(JSON.parse(lines.at(-1) ?? ''), { level: 'warn', dropped: 20_002 - lines.length });
  writer.write('after\n');
  clock.advance(10);
  file.answer();
  t.ok(file.text.endsWith('dropped"}\nafter\n'));
});
