// Whatever is posted or written: one well-formed answer or none, and nothing thrown.
import t from 'tap';
import { LineReader } from '../../../src/cli/mcp/line-reader.ts';
import { fc } from '../../support/properties.ts';
import { mcpPlace } from './mcp-place.ts';

const METHODS = ['initialize', 'ping', 'tools/list', 'tools/call', 'resources/read', 'server/discover', '__proto__', 'constructor', ''];
const META = fc.dictionary(
  fc.constantFrom('io.modelcontextprotocol/protocolVersion', 'io.modelcontextprotocol/clientCapabilities', 'x'),
  fc.oneof(fc.constantFrom('2026-07-28', '2025-03-26', 'x'), fc.jsonValue()),
);
const PARAMS = fc.oneof(
  fc.jsonValue(),
  fc.record(
    {
      name: fc.oneof(fc.constantFrom('list_things', 'fail_here', '__proto__'), fc.jsonValue()),
      arguments: fc.jsonValue(),
      uri: fc.jsonValue(),
      _meta: META,
    },
    { requiredKeys: [] },
  ),
);
const MESSAGE = fc.oneof(
  fc.jsonValue(),
  fc.record(
    {
      jsonrpc: fc.constantFrom('2.0', '1.0', 2),
      id: fc.oneof(fc.integer(), fc.string(), fc.jsonValue()),
      method: fc.oneof(fc.constantFrom(...METHODS), fc.jsonValue()),
      params: PARAMS,
    },
    { requiredKeys: [] },
  ),
);
const HEADERS = fc.dictionary(
  fc.constantFrom('mcp-protocol-version', 'mcp-method', 'mcp-name', 'mcp-session-id', 'accept'),
  fc.oneof(fc.constantFrom('2026-07-28', '2025-03-26', 'tools/call', 'list_things', '*/*', '=?base64?AA==?='), fc.string()),
);

t.test('whatever is posted has a status, and an answer that is JSON-RPC or none', async (t) => {
  const place = mcpPlace({ max: 8, maxOfOwner: 8 });
  const session = await place.begin('2025-03-26');
  await fc.assert(
    fc.asyncProperty(fc.oneof(MESSAGE, fc.array(MESSAGE, { maxLength: 4 })), HEADERS, fc.boolean(), async (body, headers, inSession) => {
      const { status, text, json } = await place.post(body, inSession ? { ...headers, 'mcp-session-id': session } : headers);
      const answers: unknown[] = text === undefined ? [] : Array.isArray(json) ? json : [json];
      const areAnswers = answers.every((one) => {
        const answer = one as { jsonrpc?: unknown; error?: { code?: unknown; message?: unknown } };
        return (
          answer.jsonrpc === '2.0' &&
          ('result' in answer || (Number.isInteger(answer.error?.code) && typeof answer.error?.message === 'string'))
        );
      });
      return [200, 202, 400, 404, 406].includes(status) && (status === 202) === (text === undefined) && areAnswers;
    }),
    { numRuns: 2_000 },
  );
  t.ok(place.endpoint.sessions.size <= 8);
});

t.test('lines are the same however their bytes come, and one that is too long is passed over', (t) => {
  const bytes = fc.string({ unit: fc.constantFrom('a', 'ä', '\r', '\n', '{'), maxLength: 60 });
  fc.assert(
    fc.property(bytes, fc.array(fc.integer({ min: 1, max: 9 })), (text, sizes) => {
      const whole = Buffer.from(text);
      const read = (pieces: readonly Buffer[]): string[] => {
        const reader = new LineReader(12);
        return pieces.flatMap((piece) =>
          [...reader.read(piece)].map((one) => ('tooLong' in one ? 'too long' : one.line.toString('latin1'))),
        );
      };
      const pieces: Buffer[] = [];
      let at = 0;
      for (const size of sizes) {
        pieces.push(whole.subarray(at, at + size));
        at += size;
      }
      pieces.push(whole.subarray(at));
      const expected = whole
        .toString('latin1')
        .split('\n')
        .map((line, index, all) => (line.length > 12 ? 'too long' : index < all.length - 1 ? line : undefined))
        .filter((line) => line !== undefined);
      const found = read(pieces);
      return JSON.stringify(found) === JSON.stringify(expected) && JSON.stringify(read([whole])) === JSON.stringify(expected);
    }),
  );
  t.end();
});
