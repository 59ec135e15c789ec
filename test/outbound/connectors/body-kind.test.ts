// What a body is by its first bytes.
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import type { BodyKind } from '../../../src/base/catalogue/stream-types.ts';
import { type BodyClues, bodyKind } from '../../../src/outbound/connectors/body-kind.ts';
import { awsEvent } from '../../support/aws-events.ts';
import { fc } from '../../support/properties.ts';

const catalogue = loadCatalogue();
const BOM = '\u00ef\u00bb\u00bf';

function clues(id: string | undefined, label: BodyKind, isAsked: boolean): BodyClues {
  const dialect = id === undefined ? undefined : catalogue.dialect(id);
  return { dialect, label, isAsked, mayBeList: dialect?.streaming?.orJsonArray === true };
}

const EVENT = awsEvent('messageStart', { role: 'assistant' }).toString('latin1');
const OLLAMA = '{"message":{},"done":false}';
const ANSWER = '{"message":{},"done":true,"eval_count":3,"prompt_eval_count":4}';
const COHERE = '{"text":"Hi","meta":{"tokens":{"input_tokens":1,"output_tokens":2}}}';

// dialect, label, asked, body, what it is, the first prefix that says so
const BODIES: readonly (readonly [string | undefined, BodyKind, boolean, string, BodyKind, string?])[] = [
  ['openai_chat', 'whole', true, 'data: {"choices":[]}', 'sse', 'data: {'],
  ['openai_chat', 'whole', true, 'data:[DONE]', 'sse', 'data:['],
  ['openai_chat', 'whole', true, 'data:\ndata: {}', 'sse', 'data:\n'],
  ['openai_chat', 'whole', true, ': keep-alive\n\n', 'sse', ':'],
  ['openai_chat', 'whole', true, `${BOM}\r\n\nevent: x\n`, 'sse', `${BOM}\r\n\nevent:`],
  ['openai_chat', 'whole', true, 'id: 7\ndata: {}', 'sse', 'id:'],
  ['openai_chat', 'whole', true, 'retry: 7\n', 'sse', 'retry:'],
  ['openai_chat', 'whole', true, 'data: the new oil', 'whole', 'data: t'],
  ['openai_chat', 'whole', true, 'database', 'whole', 'datab'],
  ['openai_chat', 'whole', true, '{"choices":[]}', 'whole', '{'],
  ['openai_chat', 'whole', true, '[1]', 'whole', '['],
  ['openai_chat', 'whole', false, ': a\nevent: b\nid: c\nretry: d\n\ndata: {"x":1}', 'sse', ': a\nevent: b\nid: c\nretry: d\n\ndata: {'],
  ['openai_chat', 'whole', false, 'event: a concert\nand more', 'whole', 'event: a concert\na'],
  ['openai_chat', 'whole', false, 'event: a concert', 'whole'],
  ['openai_chat', 'whole', false, `: ${'x'.repeat(5_000)}`, 'whole'],
  ['openai_chat', 'whole', false, '', 'whole'],
  ['openai_chat', 'sse', true, '', 'sse'],
  ['openai_chat', 'sse', true, '\n\n', 'sse'],
  ['openai_chat', 'sse', true, 'x', 'sse', 'x'],
  ['openai_chat', 'sse', true, ' {"choices":[]}', 'whole', ' {'],
  ['openai_chat', 'sse', true, `${BOM}[]`, 'whole', `${BOM}[`],
  ['openai_chat', 'ndjson', true, '{"choices":[]}', 'ndjson', '{'],
  ['openai_chat', 'ndjson', true, 'data: {}', 'sse', 'data: {'],
  ['openai_chat', 'whole', true, EVENT, 'whole', '\0'],
  [undefined, 'sse', false, '{}', 'whole', '{'],
  [undefined, 'whole', true, 'data: hello', 'sse', 'data: h'],
  ['gemini_generate', 'json_array', true, '[{}]', 'json_array', '['],
  ['gemini_generate', 'json_array', true, '{}', 'whole', '{'],
  ['gemini_generate', 'json_array', true, 'data: {}', 'sse', 'data: {'],
  ['gemini_generate', 'sse', true, '\n[{}]', 'json_array', '\n['],
  ['gemini_generate', 'whole', false, '[{}]', 'json_array', '['],
  ['ollama', 'whole', true, `${OLLAMA}\n`, 'ndjson', `${OLLAMA}\n`],
  ['ollama', 'whole', true, OLLAMA, 'whole'],
  ['ollama', 'whole', true, `${ANSWER}\n`, 'whole', `${ANSWER}\n`],
  ['ollama', 'whole', true, '{"done":true}\n', 'whole', '{"done":true}\n'],
  ['ollama', 'whole', true, '{\n "done": false }', 'whole', '{\n'],
  ['ollama', 'whole', false, `${OLLAMA}\n \n${OLLAMA}\n`, 'ndjson', `${OLLAMA}\n \n{`],
  ['ollama', 'whole', false, `${OLLAMA}\n`, 'whole'],
  ['ollama', 'whole', false, `${OLLAMA}\nx`, 'whole', `${OLLAMA}\nx`],
  ['ollama', 'sse', true, `${OLLAMA}\n`, 'ndjson', `${OLLAMA}\n`],
  ['ollama', 'ndjson', true, `${OLLAMA}\n`, 'ndjson', `${OLLAMA}\n`],
  ['ollama', 'ndjson', false, `${OLLAMA}\n`, 'ndjson', `${OLLAMA}\n`],
  ['ollama', 'ndjson', true, '{"message":{', 'ndjson'],
  ['ollama', 'ndjson', true, ANSWER, 'whole'],
  ['cohere_chat_v1', 'ndjson', true, `${COHERE}\n`, 'whole', `${COHERE}\n`],
  ['cohere_chat_v1', 'whole', true, 'event: text-generation\ndata: {}', 'sse', 'event:'],
  ['bedrock_converse', 'whole', true, EVENT, 'aws_event_stream', EVENT.slice(0, 12)],
  ['bedrock_converse', 'sse', true, EVENT, 'aws_event_stream', EVENT.slice(0, 12)],
  ['bedrock_converse', 'aws_event_stream', true, EVENT, 'aws_event_stream', EVENT.slice(0, 12)],
  ['bedrock_converse', 'aws_event_stream', true, '{"output":{}}', 'whole', '{'],
  ['bedrock_converse', 'whole', true, `${EVENT.slice(0, 8)}\0\0\0\0`, 'whole', `${EVENT.slice(0, 8)}\0\0\0\0`],
  ['bedrock_converse', 'whole', true, EVENT.slice(0, 8), 'whole'],
];

t.test('a body is told by its first bytes, as soon as it is certain', async (t) => {
  for (const [id, label, isAsked, body, kind, certain] of BODIES) {
    const name = JSON.stringify([id, label, isAsked, body.slice(0, 60)]);
    const known = clues(id, label, isAsked);
    t.equal(bodyKind(body, known, true), kind, name);
    if (certain === undefined) continue;
    t.equal(bodyKind(certain, known, false), kind, `${name}, from there on`);
    t.equal(bodyKind(certain.slice(0, -1), known, false), undefined, `${name}, not before`);
  }
});

t.test('no prefix of a body says another thing than the body', async (t) => {
  const labels: readonly BodyKind[] = ['whole', 'sse', 'ndjson', 'json_array', 'aws_event_stream'];
  const ids = [undefined, 'openai_chat', 'gemini_generate', 'ollama', 'cohere_chat_v1', 'bedrock_converse'];
  const signs = [
    'data: ',
    'data:',
    'event: x',
    'id: 1',
    'retry: 1',
    ':',
    '\n',
    '\r\n',
    ' ',
    '{',
    '}',
    '[',
    '[DONE]',
    '"',
    'da',
    BOM,
    '\0',
    EVENT,
    OLLAMA,
    ANSWER,
    COHERE,
    'x',
  ];
  const words = fc.array(
    fc.oneof(
      fc.constantFrom(...signs),
      fc.constantFrom(' ', '\n', ': x\n').map((text) => text.repeat(2_500)),
    ),
    { maxLength: 6 },
  );
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(
        fc.constantFrom(...ids),
        fc.constantFrom(...labels),
        fc.boolean(),
        words,
        fc.array(fc.nat(), { maxLength: 8 }),
        (id, label, isAsked, parts, cuts) => {
          const body = parts.join('');
          const known = clues(id, label, isAsked);
          const kind = bodyKind(body, known, false);
          return cuts.every((cut) => {
            const before = bodyKind(body.slice(0, cut % (body.length + 1)), known, false);
            return before === undefined || before === kind;
          });
        },
      ),
      { numRuns: 5_000 },
    ),
  );
});
