// What the demo's stand-in answers to programs that want JSON.
import { Ajv } from 'ajv';
import t from 'tap';
import { sampleOf } from '../../src/cli/demo/sample-json.ts';
import { STAND_IN_TEXT, standInAnswer } from '../../src/cli/demo/stand-in-answers.ts';

const SCHEMA = {
  type: 'object',
  properties: {
    reason: { type: 'string', maxLength: 20 },
    score: { type: 'integer', minimum: 3, maximum: 100 },
    above: { type: 'number', exclusiveMinimum: 0 },
    kind: { enum: ['simple', 'hard'] },
    parts: { type: 'array', minItems: 2, items: { $ref: '#/$defs/part' } },
    either: { anyOf: [{ type: 'boolean' }, { type: 'null' }] },
    left: { type: ['string', 'null'] },
    unneeded: { type: 'string' },
  },
  required: ['reason', 'score', 'above', 'kind', 'parts', 'either', 'left'],
  additionalProperties: false,
  $defs: { part: { type: 'object', properties: { name: { const: 'a' } }, required: ['name'], additionalProperties: false } },
};

t.test('a sample fits its schema, also one that names itself', (t) => {
  const sample = sampleOf(SCHEMA, STAND_IN_TEXT);
  t.ok(new Ajv().validate(SCHEMA, sample), JSON.stringify(sample));
  const endless = { type: 'object', properties: { next: { $ref: '#' } }, required: ['next'] };
  t.ok(JSON.stringify(sampleOf(endless, 'x')).length < 1_000);
  t.same(sampleOf({ type: 'OBJECT', properties: { n: { type: 'INTEGER' }, s: { type: 'STRING' } } }, 'x'), { n: 1, s: 'x' });
  t.end();
});

t.test('JSON is answered in every dialect that asks for it, and text otherwise', (t) => {
  const schema = { type: 'object', properties: { score: { type: 'integer' } }, required: ['score'] };
  for (const [path, body] of [
    ['/v1/chat/completions', { response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } }],
    ['/v1/responses', { text: { format: { type: 'json_schema', name: 'x', schema } } }],
    ['/v1/messages', { output_config: { format: { type: 'json_schema', schema } } }],
    [
      '/v1beta/models/gemini-2.5-flash:generateContent',
      { generationConfig: { responseMimeType: 'application/json', responseJsonSchema: schema } },
    ],
    [
      '/v1beta/models/gemini-2.5-flash:generateContent',
      { generationConfig: { responseMimeType: 'application/json', responseSchema: schema } },
    ],
  ] as const) {
    const said = (asked: Readonly<Record<string, unknown>>) => JSON.stringify(standInAnswer({ path, body: asked, bytes: 100 }));
    t.ok(said(body).includes('{\\"score\\":1}'), path);
    t.ok(said({}).includes(STAND_IN_TEXT), path);
  }
  const free = standInAnswer({ path: '/v1/chat/completions', body: { response_format: { type: 'json_object' } }, bytes: 1 });
  t.ok(JSON.stringify(free).includes(JSON.stringify(JSON.stringify({ text: STAND_IN_TEXT })).slice(1, -1)));
  t.end();
});

t.test('every path is answered in JSON', (t) => {
  for (const path of ['/', '/v1/models', '/v1/models/gpt-4o', '/v1/embeddings', '/v1beta/models', '/v1/nothing']) {
    const answer = standInAnswer({ path, body: { input: ['a', 'b'] }, bytes: 1 });
    t.ok('json' in answer && typeof answer.json === 'object', path);
  }
  t.end();
});
