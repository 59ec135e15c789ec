import type { Writable } from 'node:stream';
import t from 'tap';
import * as ws from 'ws';
import {
  closePayload,
  FrameReader,
  frameOf,
  OPCODE,
  WebSocketFault,
  type WebSocketMessage,
} from '../../../src/base/lib/websocket-frames.ts';
import { bytesInUse } from '../../support/bytes-in-use.ts';

function read(bytes: Buffer, options: { masked?: boolean; maxBytes?: number; step?: number } = {}): WebSocketMessage[] {
  const { masked = true, maxBytes = 1_000_000, step = bytes.length || 1 } = options;
  const messages: WebSocketMessage[] = [];
  const reader = new FrameReader(masked, maxBytes);
  for (let at = 0; at < bytes.length; at += step) messages.push(...messagesOf(reader, Buffer.from(bytes.subarray(at, at + step))));
  return messages;
}

function* messagesOf(reader: FrameReader, bytes: Buffer): Generator<WebSocketMessage> {
  reader.push(bytes);
  for (let message = reader.next(); message !== undefined; message = reader.next()) yield message;
}

const SIZES = [0, 1, 125, 126, 65_535, 65_536, 200_000];

/** The two halves of `ws`, which its types leave out. */
const { Receiver, Sender } = ws as unknown as {
  Receiver: new (options: object) => Writable;
  Sender: { frame(data: Buffer, options: object): Buffer[] };
};

t.test('what is written is read again, in any pieces and either direction', (t) => {
  for (const masked of [true, false]) {
    for (const size of SIZES) {
      const payload = Buffer.alloc(size, 'abc');
      const bytes = Buffer.concat(frameOf(OPCODE.binary, payload, masked));
      for (const step of [bytes.length, 1009, 7]) {
        const [message, ...more] = read(bytes, { masked, step });
        t.equal(more.length, 0);
        t.equal(message?.opcode, OPCODE.binary);
        t.ok(message?.payload.equals(payload), `${size} bytes in steps of ${step}`);
      }
    }
  }
  t.end();
});

t.test('ws reads what is written', async (t) => {
  for (const size of SIZES) {
    const receiver = new Receiver({ isServer: true });
    const read = new Promise<Buffer>((resolve) => receiver.on('message', (data: Buffer) => resolve(data)));
    for (const part of frameOf(OPCODE.text, Buffer.alloc(size, 'x'), true)) receiver.write(part);
    t.equal((await read).length, size);
  }
  const bytes = Buffer.concat(Sender.frame(Buffer.from('hello'), { fin: true, opcode: 1, mask: true, rsv1: false, readOnly: true }));
  t.match(read(bytes), [{ opcode: 1, payload: Buffer.from('hello') }]);
});

t.test('control frames stand between the pieces of a message', (t) => {
  const pieces = [Buffer.from([0x01, 2, 0x61, 0x62]), Buffer.from([0x89, 1, 0x70]), Buffer.from([0x80, 1, 0x63])];
  t.match(read(Buffer.concat(pieces), { masked: false }), [
    { opcode: OPCODE.ping, payload: Buffer.from('p') },
    { opcode: OPCODE.text, payload: Buffer.from('abc') },
  ]);
  t.end();
});

t.test('what is no frame ends the socket with the right code', (t) => {
  const faults: readonly (readonly [number, readonly number[], string])[] = [
    [1002, [0xc1, 1, 0x61], 'an extension'],
    [1002, [0x83, 0], 'an unknown kind'],
    [1002, [0x81, 0x81, 0, 0, 0, 0, 0x61], 'a mask on the wrong side'],
    [1002, [0x09, 0], 'a ping in pieces'],
    [1002, [0x89, 126, 0, 200], 'a large ping'],
    [1002, [0x80, 0], 'a piece of nothing'],
    [1002, [0x01, 0, 0x01, 0], 'a message inside of one'],
    [1009, [0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 'a huge length'],
    [1009, [0x82, 126, 0x27, 0x11], 'more than the limit'],
  ];
  for (const [code, bytes, what] of faults) {
    let fault: unknown;
    try {
      read(Buffer.from(bytes), { masked: false, maxBytes: 10_000 });
    } catch (error) {
      fault = error;
    }
    t.ok(fault instanceof WebSocketFault && fault.code === code, what);
  }
  t.equal(closePayload(1001, 'x'.repeat(500)).length, 125);
  t.end();
});

t.test('a message in pieces of one byte takes about as much as it says, and so do messages that nobody has asked for', async (t) => {
  for (const masked of [true, false]) {
    const piece = masked ? [0, 0x81, 1, 2, 3, 4, 0x41] : [0, 1, 0x41];
    const chunk = Buffer.from(Array.from({ length: 10_000 }, () => piece).flat());
    const reader = new FrameReader(masked, 1_000_000);
    reader.push(Buffer.from(masked ? [1, 0x80, 0, 0, 0, 0] : [1, 0]));
    t.equal(reader.next(), undefined);
    const before = bytesInUse();
    for (let at = 0; at < 6; at++) {
      reader.push(Buffer.from(chunk));
      t.equal(reader.next(), undefined);
    }
    t.equal(reader.held, 60_000);
    const grown = bytesInUse() - before;
    t.ok(grown < 300_000, `${grown} bytes`);
  }
  const waiting = new FrameReader(false, 1_000_000);
  const pings = Buffer.alloc(200_000, Buffer.from([0x89, 0]));
  const before = bytesInUse();
  waiting.push(pings);
  t.match(waiting.next(), { opcode: OPCODE.ping });
  t.ok(bytesInUse() - before < 500_000, 'two bytes each');
  for (let at = 1; at < 100_000; at++) if (waiting.next() === undefined) t.fail('a message is lost');
  t.equal(waiting.next(), undefined);
});

t.test('a message in more pieces than anybody sends is a fault', async (t) => {
  const reader = new FrameReader(false, 1_000_000);
  reader.push(Buffer.concat([Buffer.from([1, 0]), Buffer.alloc(2 * 65_535)]));
  t.equal(reader.next(), undefined);
  reader.push(Buffer.from([0, 0]));
  t.throws(() => reader.next(), { code: 1008 });
  const others = new FrameReader(false, 1_000_000);
  for (let at = 0; at < 3; at++) {
    others.push(Buffer.concat([Buffer.from([1, 0]), Buffer.alloc(2 * 40_000), Buffer.from([0x80, 0])]));
    t.match(others.next(), { opcode: OPCODE.text }, 'each message has its own');
  }
});
