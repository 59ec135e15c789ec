import { randomBytes } from 'node:crypto';
import t from 'tap';
import { keyId, SealError, SecretBox } from '../../../src/base/lib/secret-box.ts';
import { fc } from '../../support/properties.ts';

t.test('what was sealed opens, in its own place only', async (t) => {
  const box = new SecretBox([randomBytes(32)]);
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 2000 }), fc.string(), (text, context) => {
      const sealed = JSON.parse(JSON.stringify(box.seal(text, context))) as ReturnType<SecretBox['seal']>;
      return box.open(sealed, context).equals(Buffer.from(text));
    }),
  );
  const sealed = box.seal('sk-secret', 'credential:a');
  t.equal(box.open(sealed, 'credential:a').toString(), 'sk-secret');
  t.throws(() => box.open(sealed, 'credential:b'), SealError);
  t.notMatch(JSON.stringify(sealed), /sk-secret|c2stc2VjcmV0/);
  t.not(box.seal('sk-secret', 'credential:a').text, sealed.text, 'no two are alike');
});

t.test('every change shows', async (t) => {
  const box = new SecretBox([randomBytes(32)]);
  const sealed = box.seal('secret', 'x');
  for (const member of ['key', 'text'] as const) {
    const bytes = Buffer.from(sealed[member], 'base64');
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      t.throws(() => box.open({ ...sealed, [member]: changed.toString('base64') }, 'x'), SealError, `${member} ${at}`);
    }
    t.throws(() => box.open({ ...sealed, [member]: bytes.subarray(0, 20).toString('base64') }, 'x'), SealError);
  }
});

t.test('a new key takes over what an older one sealed', async (t) => {
  const [old, next] = [randomBytes(32), randomBytes(32)];
  const sealed = new SecretBox([old]).seal('secret', 'x');
  const both = new SecretBox([next, old]);
  t.equal(both.open(sealed, 'x').toString(), 'secret');
  const rewrapped = both.rewrap(sealed, 'x');
  t.match(rewrapped, { kid: keyId(next), text: sealed.text });
  t.equal(rewrapped && both.rewrap(rewrapped, 'x'), undefined, 'nothing more to do');
  t.equal(rewrapped && new SecretBox([next]).open(rewrapped, 'x').toString(), 'secret', 'without the older one');
  t.throws(() => new SecretBox([next]).open(sealed, 'x'), /does not have/);
  t.throws(() => new SecretBox([]), RangeError);
  t.throws(() => new SecretBox([randomBytes(16)]), RangeError);
});
