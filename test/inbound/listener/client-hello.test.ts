// What is read out of the first bytes of a passed tunnel.
import { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { ClientHelloReader } from '../../../src/inbound/listener/client-hello.ts';
import { HelloGate } from '../../../src/inbound/listener/hello-gate.ts';
import { takesP256 } from '../../../src/inbound/listener/hello-keys.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { fc } from '../../support/properties.ts';
import {
  ECH,
  extension,
  GREASE,
  type HelloParts,
  hello,
  helloMessage,
  numbers,
  PADDING,
  records,
  serverName,
  uint16,
  vector,
} from './client-hellos.ts';

const HOST = 'api.openai.com';
const NOTHING = new Uint8Array(0);

/** The names, or undefined when more bytes are waited for. */
function read(bytes: Uint8Array, segment = bytes.length || 1): readonly string[] | undefined {
  const reader = new ClientHelloReader();
  for (let at = 0; at < bytes.length; at += segment) if (reader.push(bytes.subarray(at, at + segment))) return reader.names;
  return undefined;
}

t.test('the name is read from a ClientHello, however it is cut into records and segments', async (t) => {
  const message = helloMessage({ names: [HOST], before: [[GREASE, NOTHING]], after: [[PADDING, new Uint8Array(300)]] });
  for (const size of [1, 2, 3, 4, 5, 100, 16_384])
    for (const segment of [1, 2, 5, 7, 64, 100_000])
      t.same(read(records(message, size), segment), [HOST], `records of ${size}, segments of ${segment}`);
});

t.test('the name is read as soon as its message is complete, whatever follows', async (t) => {
  const whole = hello(HOST);
  t.equal(read(whole.subarray(0, -1)), undefined);
  t.same(read(Buffer.concat([whole, Buffer.from('early data')])), [HOST]);
});

t.test('the ClientHello of node:tls names its host, over TLS 1.2 and 1.3, and nothing without SNI', async (t) => {
  for (const options of [{ servername: HOST }, { servername: HOST, maxVersion: 'TLSv1.2' as const }, {}]) {
    const sent: Buffer[] = [];
    const wire = new Duplex({ read: () => undefined, write: (chunk: Buffer, _encoding, done) => done(void sent.push(chunk)) });
    const client = connectTls({ socket: wire, ALPNProtocols: ['h2', 'http/1.1'], ...options });
    client.on('error', () => undefined);
    t.teardown(() => client.destroy());
    while (sent.length === 0) await new Promise(setImmediate);
    t.same(read(Buffer.concat(sent)), options.servername === undefined ? [] : [HOST]);
  }
});

t.test('with encrypted ClientHello the outer name is the one that is read', async (t) => {
  const parts = { names: ['cloudflare-ech.com'], before: [[ECH, Buffer.from(`inner ${HOST}`)] as const] };
  t.same(read(records(helloMessage(parts))), ['cloudflare-ech.com']);
});

t.test('two names, and the extension twice, are all read', async (t) => {
  t.same(read(hello('a.example', HOST)), ['a.example', HOST]);
  t.same(read(records(helloMessage({ names: ['a.example'], after: [[0, serverName([HOST])]] }))), ['a.example', HOST]);
});

t.test('other protocols are known by their first bytes', async (t) => {
  for (const text of ['GET / HTTP/1.1\r\n', 'SSH-2.0-OpenSSH_9\r\n', '\x80\x2e\x01\x03\x01', '\x15\x03\x01\x00\x02\x02\x28', '\x00'])
    t.same(read(Buffer.from(text, 'latin1'), 1), [], JSON.stringify(text));
  t.same(read(Buffer.of(22, 2)), [], 'a version that TLS never had');
});

t.test('one that comes in single bytes takes not much more memory than it has', async (t) => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const inUse = (): number => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const client = new Socket();
  t.teardown(() => client.destroy());
  const gate = new HelloGate({
    client,
    upstream: new Socket(),
    clock: fakeClock(),
    holdMs: 1_000,
    judge: () => undefined,
    onRefused: () => t.fail('nothing is refused'),
  });
  // A record of a ClientHello that never ends.
  const bytes = Buffer.concat([Buffer.of(22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc), Buffer.alloc(16_000)]);
  const before = inUse();
  for (const byte of bytes) client.emit('data', Buffer.allocUnsafeSlow(1).fill(byte));
  const grown = inUse() - before;
  t.ok(grown < 1_000_000, `${grown} bytes`);
  t.type(gate, HelloGate);
});

t.test('what is malformed names nothing and is not waited for', async (t) => {
  const body = helloMessage({ names: [HOST] }).subarray(4);
  const message = (bytes: Uint8Array, type = 1): Buffer => records(Buffer.concat([Buffer.of(type), vector(3, bytes)]));
  const changed = (at: number, value: number): Buffer => {
    const copy = Buffer.from(body);
    copy[at] = value;
    return copy;
  };
  const cases: Readonly<Record<string, Uint8Array>> = {
    'an empty record': Buffer.of(22, 3, 1, 0, 0),
    'a record above 2^14 bytes': Buffer.of(22, 3, 1, 0x40, 1),
    'another handshake message': message(body, 2),
    'an empty message': message(NOTHING),
    'a message that ends in the random': message(body.subarray(0, 20)),
    'a session id beyond the end': message(changed(34, 255)),
    'extensions that are cut': message(body.subarray(0, -3)),
    'no extensions at all': message(body.subarray(0, 34 + 33 + 8 + 2)),
    'a server_name that ends early': message(Buffer.concat([body.subarray(0, 77), vector(2, extension(0, Buffer.of(0, 9, 0)))])),
    'a name longer than its list': message(
      Buffer.concat([
        body.subarray(0, 77),
        vector(2, extension(0, vector(2, Buffer.concat([Buffer.of(0), uint16(99), Buffer.from('x')])))),
      ]),
    ),
    'an alert between two records': Buffer.concat([
      records(helloMessage({ names: [HOST] }), 20).subarray(0, 25),
      Buffer.of(21, 3, 1, 0, 2, 1, 0),
    ]),
  };
  for (const [name, bytes] of Object.entries(cases)) t.same(read(bytes), [], name);
});

t.test('a ClientHello above 16 KiB is judged by its first part', async (t) => {
  const large = new Uint8Array(40_000);
  t.same(read(records(helloMessage({ names: [HOST], after: [[PADDING, large]] }))), [HOST]);
  t.same(read(records(helloMessage({ names: [HOST], before: [[PADDING, large]] }))), []);
  const full = helloMessage({ names: [HOST], before: [[PADDING, new Uint8Array(16_384 - 4 - 107 - HOST.length)]] });
  t.same([full.length <= 16_384, read(records(full))], [true, [HOST]]);
});

t.test('reading ends after 32 KiB, however small the records are', async (t) => {
  const wire = records(helloMessage({ names: [HOST], after: [[PADDING, new Uint8Array(16_000)]] }), 1);
  t.ok(wire.length > 90_000);
  t.equal(read(wire.subarray(0, 32_767)), undefined);
  t.same(read(wire.subarray(0, 32_768)), [HOST]);
});

t.test('any bytes are read without a throw and decided within 32 KiB', async (t) => {
  const broken = fc
    .tuple(fc.constant(hello(HOST)), fc.array(fc.tuple(fc.nat(200), fc.nat(255)), { maxLength: 6 }))
    .map(([bytes, changes]) => {
      const copy = Buffer.from(bytes);
      for (const [at, value] of changes) if (at < copy.length) copy[at] = value;
      return copy;
    });
  const anything = fc.uint8Array({ maxLength: 300 });
  const framed = anything.map((bytes) => records(Buffer.concat([Buffer.of(1), vector(3, bytes)])));
  fc.assert(
    fc.property(fc.oneof(broken, anything, framed), fc.integer({ min: 1, max: 400 }), (bytes, segment) => {
      const decided = new ClientHelloReader().push(Buffer.concat([bytes, Buffer.alloc(33_000)]));
      return decided && JSON.stringify(read(bytes)) === JSON.stringify(read(bytes, segment));
    }),
    { numRuns: 2_000 },
  );
  t.pass('2,000 inputs');
});

t.test('the protocols that are offered are read; a fault among them hides no name', async (t) => {
  const protocols = (data: Uint8Array): ClientHelloReader => {
    const reader = new ClientHelloReader();
    reader.push(records(helloMessage({ names: [HOST], after: [[16, data]] })));
    return reader;
  };
  const offered = Buffer.concat(['h2', 'http/1.1', 'spdy'].map((name) => vector(1, Buffer.from(name))));
  t.same(protocols(vector(2, offered)).protocols, ['h2', 'http/1.1', 'spdy']);
  for (const malformed of [NOTHING, Buffer.of(0), Buffer.of(0, 9, 2), vector(2, Buffer.of(200, 1))]) {
    const reader = protocols(malformed);
    t.same([reader.names, reader.protocols], [[HOST], []]);
  }
  const reader = new ClientHelloReader();
  reader.push(hello(HOST));
  t.same(reader.protocols, []);
});

t.test('a ClientHello says whether a key on P-256 can serve it', async (t) => {
  const VERSIONS = 43;
  const SIGNATURES = 13;
  const GROUPS = 10;
  const [ECDSA_SUITE, RSA_SUITE, STATIC_RSA, TLS_13_SUITE] = [0xc02b, 0xc02f, 0x009c, 0x1301];
  const [ECDSA, ECDSA_SHA1, RSA, PSS] = [0x0403, 0x0203, 0x0401, 0x0804];
  const both = numbers(SIGNATURES, [PSS, ECDSA, RSA]);
  const old = numbers(SIGNATURES, [PSS, RSA]);
  const tls13 = numbers(VERSIONS, [GREASE, 0x0304, 0x0303], 1);
  const tls12 = numbers(VERSIONS, [0x0303], 1);
  const table: readonly (readonly [what: string, suites: readonly number[], after: HelloParts['after'], serves: boolean])[] = [
    ['TLS 1.3', [GREASE, TLS_13_SUITE], [tls13, both], true],
    ['TLS 1.3 without ECDSA', [TLS_13_SUITE], [tls13, old], false],
    ['TLS 1.3 without ECDSA, that falls back', [TLS_13_SUITE, ECDSA_SUITE], [tls13, old], false],
    ['TLS 1.3 with ECDSA and RSA suites below', [TLS_13_SUITE, RSA_SUITE], [tls13, both], true],
    ['TLS 1.3 on other groups', [TLS_13_SUITE], [tls13, both, numbers(GROUPS, [0x1d])], true],
    ['TLS 1.2', [RSA_SUITE, ECDSA_SUITE], [both], true],
    ['TLS 1.2 that says so', [ECDSA_SUITE], [tls12, both], true],
    ['TLS 1.2 with SHA-1', [ECDSA_SUITE], [numbers(SIGNATURES, [ECDSA_SHA1])], true],
    ['TLS 1.2 with suites of RSA', [RSA_SUITE, STATIC_RSA], [both], false],
    ['TLS 1.2 with suites of 1.3 and RSA', [TLS_13_SUITE, STATIC_RSA], [tls12, both], false],
    ['TLS 1.2 with a signature of RSA', [RSA_SUITE, ECDSA_SUITE], [old], false],
    ['TLS 1.2 without P-256', [RSA_SUITE, ECDSA_SUITE], [both, numbers(GROUPS, [0x1d, 0x18])], false],
    ['TLS 1.2 with P-256', [ECDSA_SUITE], [both, numbers(GROUPS, [0x1d, 0x17])], true],
    ['without lists', [ECDSA_SUITE], [], true],
    ['without lists, RSA', [STATIC_RSA], [], false],
  ];
  for (const [what, suites, after, serves] of table) {
    const reader = new ClientHelloReader();
    t.ok(reader.push(records(helloMessage({ suites, ...(after ? { after } : {}) }))), what);
    t.ok(reader.algorithms, what);
    t.equal(reader.algorithms && takesP256(reader.algorithms), serves, what);
  }
  const none = new ClientHelloReader();
  none.push(Buffer.from('GET / HTTP/1.1'));
  t.equal(none.algorithms, undefined);
  const bare = helloMessage({ suites: [STATIC_RSA] }).subarray(0, -2);
  bare.writeUIntBE(bare.length - 4, 1, 3);
  const without = new ClientHelloReader();
  t.ok(without.push(records(bare)));
  t.same(without.algorithms?.suites, [STATIC_RSA], 'without any extension');
});
