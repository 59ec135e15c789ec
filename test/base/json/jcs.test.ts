import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { CanonicalJsonError, canonicalJson, canonicalNumber, canonicalString } from '../../../src/base/json/jcs.ts';
import { packageRoot } from '../../../src/base/lib/package-root.ts';
import { sha256Hex } from '../../../src/base/lib/sha256.ts';
import { fc } from '../../support/properties.ts';

const VECTORS = join(packageRoot(), 'test/vectors/jcs');

t.test('every published pair canonicalizes to its published output, byte for byte', async (t) => {
  const names = readdirSync(join(VECTORS, 'input'));
  t.equal(names.length, 6);
  for (const name of names) {
    const input: unknown = JSON.parse(readFileSync(join(VECTORS, 'input', name), 'utf8'));
    const canonical = canonicalJson(input);
    t.equal(canonical, readFileSync(join(VECTORS, 'output', name), 'utf8'), name);
    const hex = readFileSync(join(VECTORS, 'outhex', name.replace('.json', '.txt')), 'utf8').replace(/\s+/g, '');
    t.equal(Buffer.from(canonical, 'utf8').toString('hex'), hex, `${name}, bytes`);
  }
});

t.test('the first thousand numbers of the published sequence are written as published', async (t) => {
  const text = readFileSync(join(VECTORS, 'es6-numbers-1000.txt'), 'utf8');
  t.equal(sha256Hex(text), 'be18b62b6f69cdab33a7e0dae0d9cfa869fda80ddc712221570f9f40a5878687', 'the file is the published one');
  const wrong: string[] = [];
  for (const line of text.trimEnd().split('\n')) {
    const [hex = '', expected = ''] = line.split(',');
    const number = new DataView(new BigUint64Array([BigInt(`0x${hex}`)]).buffer).getFloat64(0, true);
    if (canonicalJson(number) !== expected || canonicalNumber(number) !== expected) wrong.push(line);
  }
  t.same(wrong, []);
});

t.test('what has no canonical form is refused with its path', async (t) => {
  const deep: unknown[] = [];
  deep.push(deep);
  const cases: readonly (readonly [string, unknown, string])[] = [
    ['lone surrogate', { a: ['x\ud800'] }, 'a[0]'],
    ['lone surrogate in a name', { a: { 'x\udc00': 1 } }, 'a'],
    ['NaN', { a: { b: Number.NaN } }, 'a.b'],
    ['infinity', [Number.POSITIVE_INFINITY], '[0]'],
    ['BigInt', { a: 1n }, 'a'],
    ['undefined in an array', [1, undefined], '[1]'],
    ['undefined alone', undefined, ''],
    ['function', { a: () => 1 }, 'a'],
    ['date', { a: new Date(0) }, 'a'],
    ['map', new Map(), ''],
  ];
  for (const [name, value, path] of cases) t.throws(() => canonicalJson(value), { name: 'CanonicalJsonError', path }, name);
  t.throws(() => canonicalJson(deep), CanonicalJsonError, 'a cycle');
  t.throws(() => canonicalString('\udfff'), CanonicalJsonError);
  t.throws(() => canonicalNumber(Number.NEGATIVE_INFINITY), CanonicalJsonError);
});

t.test('64 levels are written, 65 are refused', async (t) => {
  const nested = (levels: number): unknown => (levels === 0 ? 1 : [nested(levels - 1)]);
  t.equal(canonicalJson(nested(64)), `${'['.repeat(64)}1${']'.repeat(64)}`);
  t.throws(() => canonicalJson(nested(65)), /more than 64 levels/);
});

t.test('a member that is undefined is left out, and odd names are names like any other', async (t) => {
  t.equal(canonicalJson({ b: undefined, a: 1 }), '{"a":1}');
  t.equal(canonicalJson(JSON.parse('{"__proto__":1,"constructor":2,"10":3,"9":4}')), '{"10":3,"9":4,"__proto__":1,"constructor":2}');
  t.equal(canonicalJson({ '\ufb33': 1, '\ud83d\ude02': 2 }), '{"\ud83d\ude02":2,"\ufb33":1}', 'UTF-16 units, not code points');
});

t.test('any JSON value survives, and its canonical form does not depend on the order of members', async (t) => {
  fc.assert(
    fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
      const parsed: unknown = JSON.parse(JSON.stringify(value));
      let canonical: string;
      try {
        canonical = canonicalJson(parsed);
      } catch (error) {
        return error instanceof CanonicalJsonError;
      }
      const reversed: unknown = JSON.parse(canonical, (_key, member: unknown) =>
        typeof member === 'object' && member !== null && !Array.isArray(member)
          ? Object.fromEntries(Object.entries(member).reverse())
          : member,
      );
      return canonicalJson(reversed) === canonical && canonicalJson(JSON.parse(canonical)) === canonical;
    }),
    { numRuns: 300 },
  );
  t.pass();
});
