// One name, many spellings: whatever a parser takes for a governed name leads to the same facts and the same estimate,
// or the body is refused.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { HTTP_REQUEST } from '../../../src/base/catalogue/operations.ts';
import { PLAIN_READING } from '../../../src/base/catalogue/reading.ts';
import { spellingsOf, writtenPath } from '../../../src/base/catalogue/spelling.ts';
import type { Dialect, Price } from '../../../src/base/catalogue/types.ts';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { resolveField } from '../../../src/decide/policy/fields.ts';
import { plainCall } from '../../../src/decide/policy/given-facts.ts';
import { estimate } from '../../../src/decide/pricing/estimate.ts';
import { type AiBody, readAiBody } from '../../../src/inbound/normalise/body.ts';
import { governedPaths } from '../../../src/inbound/normalise/places.ts';
import { fc } from '../../support/properties.ts';

const catalogue = loadCatalogue();
const text = readFileSync('src/base/catalogue/data/providers.yaml', 'utf8');
const DIALECTS = [...text.slice(text.indexOf('\ndialects:'), text.indexOf('\noperation_sets:')).matchAll(/^ {2}([a-z_0-9]+):$/gm)]
  .map(([, id = '']) => catalogue.dialect(id))
  .filter((dialect) => dialect !== undefined);
const PRICE: Price = { in: '1', out: '1', source: 'default', maxOutputTokens: undefined };
const LARGE = 60_000;

function read(dialect: Dialect, body: string): AiBody {
  const operation = { ...HTTP_REQUEST, actionType: 'ai.infer', dialect };
  return readAiBody({ operation, contentType: undefined, bytes: Buffer.from(body), path: '/' });
}

/** Tokens of an estimate and the value that a rule sees, or the code of the refusal. */
function outcome(dialect: Dialect, body: string, field: string): unknown {
  try {
    const { params } = read(dialect, body);
    const { tokensIn, tokensOutMax } = estimate(params, dialect, undefined, PRICE);
    const facts = { ...plainCall(), params, reading: { ...PLAIN_READING, names: dialect.names } };
    return { tokensIn, tokensOutMax, seen: resolveField(`action.params.${field}`)?.get(facts) };
  } catch (error) {
    if (error instanceof GatewayError && (error.code === 'ambiguous_body' || error.code === 'invalid_request')) return 'refused';
    throw error;
  }
}

/** Output of a call that says nothing. */
function bare(dialect: Dialect): number {
  return estimate({}, dialect, undefined, PRICE).tokensOutMax;
}

function nest(names: readonly string[], value: unknown): string {
  return names.reduceRight((inner, name) => `{${JSON.stringify(name)}:${inner}}`, JSON.stringify(value));
}

/** Ways in which a sender may write a name in the hope that only one side reads it. */
const WRITINGS: readonly ((name: string) => string)[] = [
  (name) => name,
  (name) => spellingsOf(name, 'proto').find((spelling) => spelling !== name) ?? name,
  (name) => name.toUpperCase(),
  (name) => name.charAt(0).toUpperCase() + name.slice(1),
  (name) => `_${name}`,
  (name) => `${name}_`,
  (name) => name.replaceAll('_', ''),
  (name) => name.replace('e', '_e'),
  (name) => name.replace('k', '\u212a').replace('s', '\u017f'),
];

t.ok(DIALECTS.length > 50, 'the dialects are found');

// Holds: no-rule-by-an-unknown-body
t.test(
  'every spelling of a maximum or a count leads to the same facts and estimate, or to a refusal, or is not read by anybody',
  async (t) => {
    const cases = DIALECTS.flatMap((dialect) => [...dialect.maxTokens, ...dialect.answers].map((path) => ({ dialect, path })));
    t.ok(cases.length > 50, 'there is something to try');
    const writings = fc.array(fc.constantFrom(...WRITINGS), { minLength: 3, maxLength: 3 });
    fc.assert(
      fc.property(fc.constantFrom(...cases), writings, ({ dialect, path }, ways) => {
        const names = path.split('.');
        const written = names.map((name, i) => (ways[i] ?? WRITINGS[0])?.(name) ?? name);
        const isSame = written.every((name, i) => spellingsOf(names[i] ?? '', dialect.names).includes(name));
        const plain = outcome(dialect, nest(names, LARGE), path);
        const found = outcome(dialect, nest(written, LARGE), path);
        const shown = `${dialect.id} ${written.join('.')}`;
        if (isSame) t.strictSame(found, plain, shown);
        else if (found !== 'refused' && !governedPaths(dialect).includes(written.join('.')))
          t.match(found, { tokensOutMax: bare(dialect), seen: undefined }, `${shown}: nobody reads it`);
      }),
      { numRuns: 1500 },
    );
  },
);

t.test('of two spellings of one name in one body none is chosen', async (t) => {
  for (const dialect of DIALECTS) {
    for (const path of governedPaths(dialect)) {
      const names = path.split('.');
      for (const [at, name] of names.entries()) {
        for (const way of [...WRITINGS, (same: string) => same]) {
          if (name === '*') continue;
          const other = way(name);
          const taken = spellingsOf(name, dialect.names).includes(other) || other.toUpperCase() === name.toUpperCase();
          if (!taken) continue;
          const inner = (value: number) => nest(names.slice(at + 1), value);
          const both = `{${JSON.stringify(name)}:${inner(1)},${JSON.stringify(other)}:${inner(LARGE)}}`;
          const body = names.slice(0, at).reduceRight((rest, parent) => `{${JSON.stringify(parent)}:${rest}}`, both);
          t.equal(outcome(dialect, body, path), 'refused', `${dialect.id} ${body}`);
        }
      }
    }
  }
});

t.test('JSON of protocol buffers has two spellings of a name at every level, but for what its callers name themselves', async (t) => {
  const gemini = catalogue.dialect('gemini_generate');
  if (gemini === undefined) throw new Error('no gemini');
  const refused = (body: unknown) => outcome(gemini, JSON.stringify(body), 'x') === 'refused';
  t.ok(refused({ systemInstruction: {}, system_instruction: {} }));
  t.ok(refused({ contents: [{ parts: [{ inlineData: { mimeType: 'a' }, inline_data: { mime_type: 'b' } }] }] }));
  t.ok(refused({ safetySettings: [], safety_settings: [] }), 'names that nobody governs yet too: a rule may');
  t.ok(refused({ generationConfig: { max_outputTokens: 5 } }));
  t.notOk(refused({ contents: [{ parts: [{ functionCall: { args: { firstName: 'a', first_name: 'b' } } }] }] }), 'arguments are data');
  t.notOk(refused({ tools: [{ functionDeclarations: [{ parameters: { properties: { aB: {}, a_b: {} } } }] }] }));
  t.same(spellingsOf('maxOutputTokens', 'proto'), ['maxOutputTokens', 'max_output_tokens']);
  t.same(spellingsOf('max_output_tokens', 'proto'), ['max_output_tokens', 'maxOutputTokens']);
  t.same(writtenPath({ generation_config: { topK: 1 } }, ['generationConfig', 'top_k'], 'proto'), ['generation_config', 'topK']);
  t.same(writtenPath({ generation_config: {} }, ['generationConfig'], 'exact'), ['generationConfig']);
});
