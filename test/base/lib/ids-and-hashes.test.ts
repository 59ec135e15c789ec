import { spawnSync } from 'node:child_process';
import t from 'tap';
import { uuidv7 } from '../../../src/base/lib/ids.ts';
import { sameSecret } from '../../../src/base/lib/secret-box.ts';
import { Sha256, sha256Hex } from '../../../src/base/lib/sha256.ts';
import { requirePeer, skipWithout } from '../../support/peers.ts';

const UUID7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

t.test('a UUIDv7 has the form of RFC 9562 and begins with its milliseconds', async (t) => {
  const now = Date.UTC(2026, 10, 21, 12, 0, 0, 123);
  const id = uuidv7(now);
  t.match(id, UUID7);
  t.equal(Number.parseInt(id.replace(/-/g, '').slice(0, 12), 16), now);
});

t.test('ids sort in the order they were made, within a millisecond and when the clock steps back', async (t) => {
  const now = Date.UTC(2026, 10, 21, 13);
  const ids: string[] = [];
  for (let i = 0; i < 20_000; i++) ids.push(uuidv7(i > 15_000 ? now - 5_000 : now));
  t.same(ids, [...ids].sort());
  t.equal(new Set(ids).size, ids.length);
  t.ok(ids.every((id) => UUID7.test(id)));
});

t.test('hashes agree with openssl, whole and in pieces, text and bytes', { skip: skipWithout(['openssl']) }, async (t) => {
  const text = 'Grüße, \u{1f600}\n'.repeat(100);
  const judged = spawnSync(requirePeer('openssl'), ['dgst', '-sha256', '-r'], { input: text }).stdout.toString().slice(0, 64);
  t.equal(sha256Hex(text), judged);
  t.equal(sha256Hex(Buffer.from(text)), judged);
  const pieces = new Sha256();
  for (const char of text) pieces.update(char);
  t.equal(pieces.byteLength, Buffer.byteLength(text));
  t.equal(pieces.hex(), judged);
  t.equal(new Sha256().update(new Uint8Array()).hex(), sha256Hex(''));
});

t.test('a secret equals only itself, whatever the lengths', async (t) => {
  t.ok(sameSecret('gwt_abc', 'gwt_abc'));
  t.notOk(sameSecret('gwt_abc', 'gwt_abd'));
  t.notOk(sameSecret('', 'gwt_abc'));
  t.notOk(sameSecret('gwt_abc'.repeat(1000), 'gwt_abc'));
});
