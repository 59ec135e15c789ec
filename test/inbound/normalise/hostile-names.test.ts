// Names and heads are a stranger's: whatever they are, they cost time in proportion to their length, and little of it.
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { looseReading, otherReading } from '../../../src/base/catalogue/reading.ts';
import type { Operation } from '../../../src/base/catalogue/types.ts';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { readAiBody, refuseLatePart } from '../../../src/inbound/normalise/body.ts';
import { parseActionRequest } from '../../../src/inbound/normalise/direct.ts';
import { parseMediaType } from '../../../src/inbound/normalise/form.ts';
import { parseMultipart } from '../../../src/inbound/normalise/multipart.ts';
import { canonicalPath } from '../../../src/inbound/normalise/path.ts';
import { cpuClock } from '../../support/cpu-clock.ts';

const catalogue = loadCatalogue();
/** A hundred times what any of it takes; what grows with the square took many times as long. */
const PATIENCE_MS = 3_000;

function operationOf(dialect: string): Operation {
  return {
    actionType: 'ai.infer',
    detailType: undefined,
    dialect: catalogue.dialect(dialect),
    multipart: true,
    websocket: false,
    known: true,
    modelNames: 'exact',
  };
}

const CHAT = operationOf('openai_chat');

/**
 * As many spellings of `model` as are asked for, up to nine underscores before each letter: readers of protocol buffers
 * take every one for it.
 */
function spellings(count: number): string[] {
  return Array.from({ length: count }, (_, n) =>
    [...'model'].map((letter, at) => '_'.repeat(Math.floor(n / 10 ** at) % 10) + letter).join(''),
  );
}

function membersOf(names: readonly string[]): Buffer {
  return Buffer.from(JSON.stringify(Object.fromEntries(names.map((name) => [name, 1]))));
}

function read(bytes: Uint8Array, contentType: string): unknown {
  return readAiBody({ operation: CHAT, contentType, bytes, path: '/v1/chat/completions' });
}

function partOf(name: string, value = '1'): string {
  return `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
}

const FORM = 'multipart/form-data; boundary=b';
/** A part's head may have so many bytes. */
const BLANKS = ' '.repeat(8_000);
const envelope = (extra: object): Buffer =>
  Buffer.from(
    JSON.stringify({
      schema: 'gw.action_request.v1',
      org_id: 'o',
      workload_id: 'w',
      action: { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: {} },
      ...extra,
    }),
  );
const DIRECT = { newRequestId: () => 'r-1', isAiHost: () => true };
const many = (count: number): Record<string, unknown> => Object.fromEntries(Array.from({ length: count }, (_, n) => [`n${n}`, n]));

const HOSTILE: Readonly<Record<string, () => unknown>> = {
  'ninety thousand names that loosen to a governed one': () => {
    const body = membersOf(spellings(90_000).slice(1));
    return () => read(body, 'application/json');
  },
  'a name of underscores where a format has two spellings of each': () => {
    const operation = operationOf('gemini_generate');
    const bytes = Buffer.from(JSON.stringify({ contents: [{ ['_'.repeat(300_000)]: { [`a${'_'.repeat(300_000)}`]: 1 } }] }));
    return () => readAiBody({ operation, contentType: 'application/json', bytes, path: '/v1beta/models/gemini-2.0-flash:generateContent' });
  },
  'a name of millions of underscores and letters in turn': () => {
    const operation = operationOf('gemini_generate');
    const bytes = Buffer.from(JSON.stringify({ contents: [{ ['_m'.repeat(8_000_000)]: 1, [`${'_'.repeat(8_000_000)}m`]: 1 }] }));
    return () => readAiBody({ operation, contentType: 'application/json', bytes, path: '/v1beta/models/gemini-2.0-flash:generateContent' });
  },
  'fifty thousand names of underscores and letters in turn': () => {
    const operation = operationOf('gemini_generate');
    const bytes = membersOf(Array.from({ length: 50_000 }, (_, n) => `${'_a'.repeat(120)}_${n}`));
    return () => readAiBody({ operation, contentType: 'application/json', bytes, path: '/v1beta/models/gemini-2.0-flash:generateContent' });
  },
  'ninety thousand names that have another spelling': () => {
    const operation = operationOf('gemini_generate');
    const bytes = membersOf(Array.from({ length: 90_000 }, (_, n) => `max_output_tokens_${n}_x`));
    return () => readAiBody({ operation, contentType: 'application/json', bytes, path: '/v1beta/models/gemini-2.0-flash:generateContent' });
  },
  'a path of escapes of escapes': () => {
    const path = `/v1/${'%25'.repeat(20_000)}`;
    return () => {
      for (let round = 0; round < 20; round += 1) canonicalPath(path, true);
    };
  },
  'the heads of parts that are blanks and a NUL': () => {
    const bodies = [`Content-Disposition:${BLANKS}\0`, `Content-Disposition: form-data${BLANKS}\0`, `X-A:${'\t '.repeat(4_000)}\0`];
    return () => {
      for (let round = 0; round < 60; round += 1)
        for (const head of bodies) refused(() => parseMultipart(Buffer.from(`--b\r\n${head}\r\n\r\nx\r\n--b--\r\n`), 'b'));
    };
  },
  'parameters that are blanks': () => () => {
    for (let round = 0; round < 60; round += 1)
      for (const parameters of [`;${BLANKS}`, `; a=b${BLANKS}"`, ';'.repeat(8_000), '; a="'.repeat(1_600)])
        refused(() => parseMediaType(`multipart/form-data${parameters}`));
  },
  'a thousand values of one list': () => {
    const body = Buffer.from(`${partOf('x[]').repeat(1_000)}--b--\r\n`);
    return () => {
      for (let round = 0; round < 5; round += 1) read(body, FORM);
    };
  },
  'files that come late, beside fields with long names': () => {
    const params = Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`${n}${'x'.repeat(8_000)}`, '1']));
    return () => {
      for (let n = 0; n < 500; n += 1) refuseLatePart({ name: `file${n}`, file: true, start: 0, end: 1 }, params, CHAT);
    };
  },
  'a hundred thousand members of an envelope that it does not have': () => {
    const body = envelope(many(90_000));
    return () => parseActionRequest(body, DIRECT);
  },
  'as many labels': () => {
    const body = envelope({ context: { labels: many(90_000) } });
    return () => parseActionRequest(body, DIRECT);
  },
  'as many headers': () => {
    const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: {}, headers: many(90_000) };
    const body = envelope({ action });
    return () => parseActionRequest(body, DIRECT);
  },
  'ill-formed texts under a name of a megabyte': () => {
    const inner = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`n${n}`, '\ud800']));
    const body = envelope({ ['x'.repeat(1_000_000)]: inner });
    return () => parseActionRequest(body, DIRECT);
  },
};

/** The refusal that is wanted, or nothing; anything else is thrown on. */
function refused(call: () => unknown): void {
  try {
    call();
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
  }
}

for (const [name, prepare] of Object.entries(HOSTILE)) {
  // Holds: linear-time
  t.test(`${name} cost no more than their length`, async (t) => {
    const attack = prepare();
    const cpu = cpuClock();
    if (typeof attack === 'function') refused(() => attack() as unknown);
    const spent = cpu.spent();
    t.ok(spent < PATIENCE_MS, `${Math.round(spent)} ms`);
  });
}

t.test('the other way to read a path costs time in proportion to its length', async (t) => {
  const many = 200_000;
  let slowest = 0;
  const timed = (read: () => unknown): void => {
    const clock = cpuClock();
    read();
    slowest = Math.max(slowest, clock.spent());
  };
  for (const piece of ['%2F', '%5C', ';', '%3B', '%25', '25', '%', '/', '%3', '%2525']) {
    for (const end of ['x', '%2Fx', ';', '%3F', '']) timed(() => otherReading(`/v1/%2F${piece.repeat(many)}${end}`));
  }
  for (const piece of ['.', ' ', '. ', '/..', '/ ', '%2E', '%00', '/;', '../', '//']) {
    for (const end of ['x', '/x', '..', '']) timed(() => looseReading(`/v1/${piece.repeat(many)}${end}`));
  }
  t.ok(slowest < PATIENCE_MS, `${Math.round(slowest)} ms`);
  t.equal(otherReading('/v1/threads/t%252Fruns%2F;x'), '/v1/threads/t/runs');
  t.equal(otherReading('/v1/threads/t/runs'), undefined);
});
