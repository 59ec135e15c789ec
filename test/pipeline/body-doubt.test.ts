// How long an answer is doubted, and what that costs.
import { deflateSync } from 'node:zlib';
import t from 'tap';
import { loadCatalogue } from '../../src/base/catalogue/catalogue.ts';
import type { BodyKind } from '../../src/base/catalogue/stream-types.ts';
import { BodyDoubt } from '../../src/pipeline/answer/body-doubt.ts';

const catalogue = loadCatalogue();

/** Feeds a body byte by byte, an encoded one in somewhat larger pieces, until it is told. */
async function told(
  id: string,
  isAsked: boolean,
  body: Buffer,
  encoding?: string,
): Promise<{ kind: BodyKind; after: number; kept: Uint8Array; cpuMs: number }> {
  const doubt = new BodyDoubt({ dialect: catalogue.dialect(id), label: 'whole', isAsked, mayBeList: false }, encoding);
  const cpu = process.cpuUsage();
  let after = 0;
  let kind: BodyKind | undefined;
  while (kind === undefined && after < body.length) {
    const piece = body.subarray(after, after + (encoding === undefined ? 1 : 16));
    after += piece.length;
    kind = encoding === undefined ? doubt.push(piece) : await doubt.pushEncoded(piece);
  }
  const { user, system } = process.cpuUsage(cpu);
  return { kind: kind ?? doubt.end(), after, kept: doubt.take(), cpuMs: (user + system) / 1000 };
}

const OPEN = `{"message":"${'x'.repeat(60_000)}"}`;
const BODIES: readonly (readonly [string, string, boolean, string, BodyKind])[] = [
  ['a line without an end', 'ollama', true, `{"message":"${'x'.repeat(200_000)}`, 'whole'],
  ['a line and blanks', 'ollama', false, `${OPEN}${'\n'.repeat(70_000)}`, 'whole'],
  ['blanks', 'openai_chat', true, '\n'.repeat(70_000), 'whole'],
  ['comments that nobody asked for', 'openai_chat', false, ': x\n'.repeat(20_000), 'whole'],
  ['lines of events', 'ollama', true, `${OPEN}\n${OPEN}\n`, 'ndjson'],
];

t.test('a body is doubted for so long and no longer, at a cost in proportion to its length', async (t) => {
  for (const [name, id, isAsked, text, want] of BODIES) {
    const bytes = Buffer.from(text);
    const { kind, after, kept, cpuMs } = await told(id, isAsked, bytes);
    t.equal(kind, want, name);
    t.ok(after <= 66_000, `${name}: told after ${after} bytes`);
    t.ok(bytes.subarray(0, after).equals(kept), `${name}: nothing is lost`);
    t.ok(cpuMs < 500, `${name}: ${cpuMs.toFixed(0)} ms`);
  }
});

t.test('encoded bodies are told by what they decode to, and kept as they came', async (t) => {
  for (const [name, id, isAsked, text, want] of BODIES) {
    const bytes = deflateSync(text, { level: 0 });
    const { kind, after, kept, cpuMs } = await told(id, isAsked, bytes, 'deflate');
    t.equal(kind, want, name);
    t.ok(bytes.subarray(0, after).equals(kept), `${name}: nothing is lost`);
    t.ok(cpuMs < 2_000, `${name}: ${cpuMs.toFixed(0)} ms`);
  }
});
