import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { type AiBody, readAiBody } from '../../../src/inbound/normalise/body.ts';
import { pathOnly } from '../../../src/inbound/normalise/path.ts';
import { readPlace } from '../../../src/inbound/normalise/places.ts';
import { fc } from '../../support/properties.ts';
import { codeOr } from './heads.ts';

const catalogue = loadCatalogue();
const CHAT = ['openai', '/v1/chat/completions'] as const;
const GEMINI = ['gemini', '/v1beta/models/gemini-2.0-flash:generateContent'] as const;
const GEMINI_STREAM = ['gemini', '/v1beta/models/gemini-2.0-flash:streamGenerateContent?alt=sse'] as const;
const AZURE = ['azure_openai', '/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21'] as const;
const AUDIO = ['openai', '/v1/audio/transcriptions'] as const;
const UNKNOWN = ['openai', '/v1/brand/new'] as const;

function read([providerId, path]: readonly [string, string], body: string | Uint8Array, contentType?: string): AiBody {
  const provider = catalogue.provider(providerId);
  if (provider === undefined) throw new Error(`no provider ${providerId}`);
  const operation = catalogue.operation(provider, 'POST', pathOnly(path));
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body;
  return readAiBody({ operation, contentType, bytes, path });
}

/** Model, stream and params, or the code of the refusal. */
function seen(where: readonly [string, string], body: string | Uint8Array, contentType?: string): unknown {
  return codeOr(() => {
    const { model, stream, params } = read(where, body, contentType);
    return { model, stream, params: { ...params } };
  });
}

t.test('model and stream come from wherever the dialect keeps them', async (t) => {
  t.strictSame(seen(CHAT, '{"model":"gpt-4o","stream":true}'), {
    model: 'gpt-4o',
    stream: true,
    params: { model: 'gpt-4o', stream: true },
  });
  t.strictSame(seen(CHAT, '{"model":null,"stream":null}'), { model: undefined, stream: false, params: { model: null, stream: null } });
  t.strictSame(seen(CHAT, ''), { model: undefined, stream: false, params: {} });
  t.strictSame(seen(GEMINI, '{"contents":[]}'), {
    model: 'gemini-2.0-flash',
    stream: false,
    params: { contents: [], model: 'gemini-2.0-flash', stream: false },
  });
  t.strictSame(seen(GEMINI_STREAM, ''), { model: 'gemini-2.0-flash', stream: true, params: { model: 'gemini-2.0-flash', stream: true } });
  t.match(
    seen(AZURE, '{"model":"gpt-4","stream":true}'),
    { model: 'my-gpt', stream: true, params: { model: 'my-gpt' } },
    'Azure ignores the model of the body',
  );
  t.match(seen(['azure_openai', '/openai/v1/chat/completions'], '{"model":"dep"}'), { model: 'dep' });
  t.match(seen(['gemini', '/v1beta/models/a%2Fb:generateContent'], '{}'), { model: 'a/b' });
  t.match(seen(['gemini', '/v1beta/models/text-embedding-004:embedContent'], '{"model":"models/text-embedding-004"}'), {
    model: 'text-embedding-004',
  });
  const nothing = { model: undefined, stream: false, params: {} };
  t.strictSame(seen(UNKNOWN, '{"model":"m","stream":true}'), nothing, 'of what nobody understands nothing is believed');
  t.strictSame(seen(UNKNOWN, '{"model":5,"Stream":true}'), nothing);
});

t.test('whatever Content-Type says, the body is parsed by its dialect', async (t) => {
  for (const type of [
    'text/plain',
    'multipart/form-data; boundary=x',
    'application/x-www-form-urlencoded',
    undefined,
    'application/json; charset=utf-8',
    'application/json; charset="UTF-8"',
  ]) {
    t.match(seen(CHAT, '{"model":"m"}', type), { model: 'm' }, String(type));
  }
  t.equal(seen(CHAT, 'model=m', 'application/x-www-form-urlencoded'), 'ambiguous_body');
});

t.test('a body that could be read in two ways is ambiguous', async (t) => {
  const table: readonly (readonly [readonly [string, string], string | Uint8Array, string?])[] = [
    [CHAT, '[]'],
    [CHAT, '"x"'],
    [CHAT, 'null'],
    [CHAT, '{'],
    [CHAT, ' '],
    [CHAT, '\u{feff}\u{feff}{}'],
    [CHAT, '\u{feff}'],
    [CHAT, '\u{feff}{"model":"é"}', 'application/json; charset=iso-8859-1'],
    [CHAT, new Uint8Array([0x7b, 0xff, 0x7d])],
    [CHAT, '{"model":"a","model":"b"}'],
    [CHAT, '{"model":"a","\\u006dodel":"b"}'],
    [CHAT, '{"Model":"b"}'],
    [CHAT, '{"model":"a","MODEL":"b"}'],
    [CHAT, '{"model":"a","\u017ftream":true}'],
    [CHAT, '{"max_to\u212aens":5}'],
    [CHAT, '{"Messages":[]}'],
    [CHAT, '{"max_tokens":5,"maxTokens":9}'],
    [CHAT, '{"model":5}'],
    [CHAT, '{"model":" gpt-4o"}'],
    [['gemini', '/v1beta/models/evil;x:generateContent'], '{}'],
    [['bedrock', '/model/evil%3Bx/converse'], '{}'],
    [['azure_openai', '/openai/deployments/evil%252Dmodel/chat/completions'], '{}'],
    [['azure_openai', '/openai/deployments/evil%20/chat/completions'], '{}'],
    [CHAT, '{"model":["a"]}'],
    [CHAT, '{"stream":"true"}'],
    [CHAT, '{"stream":1}'],
    [CHAT, '{"temperature":1e999}'],
    [CHAT, '{"model":"+AG0"}', 'application/json; charset=utf-7'],
    [CHAT, '{"model":"m"}', 'application/json; charset=utf-16le'],
    [CHAT, '{"model":"é"}', 'application/json; charset=iso-8859-1'],
    [CHAT, '{"model":"m"}', 'application/json; charset=utf-8; charset=utf-7'],
    [GEMINI, '{"model":"other"}'],
    [GEMINI, '{"generationConfig":{},"generation_config":{}}'],
    [['gemini', '/v1beta/models/%FF:generateContent'], '{}'],
    [UNKNOWN, '[]'],
  ];
  for (const [where, body, type] of table) t.equal(seen(where, body, type), 'ambiguous_body', typeof body === 'string' ? body : 'bytes');
  t.match(seen(CHAT, '{"model":"m","seed":9007199254740993,"a":{"x":1,"x":2}}', 'application/json; charset=iso-8859-1'), { model: 'm' });
  t.match(
    seen(GEMINI, '{"system_instruction":{},"generation_config":{}}'),
    { model: 'gemini-2.0-flash' },
    'one spelling alone is what Google documents',
  );
});

t.test('a body that is too deep is refused', async (t) => {
  t.equal(seen(CHAT, `{"a":${'['.repeat(64)}${']'.repeat(64)}}`), 'body_too_deep');
});

const FORM = 'multipart/form-data; boundary=XX';
function form(...parts: readonly (readonly [disposition: string, value: string])[]): string {
  return `${parts.map(([disposition, value]) => `--XX\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n${value}\r\n`).join('')}--XX--\r\n`;
}

t.test('text fields of a form become params, files do not', async (t) => {
  const body = form(
    ['name="model"', 'whisper-1'],
    ['name="stream"', 'true'],
    ['name="timestamp_granularities[]"', 'word'],
    ['name="timestamp_granularities[]"', 'segment'],
    ['name="file"; filename="a;b.wav"', '\u0000--XY\r\n'],
    ['name="prompt"', 'é\r\n--X'],
  );
  t.strictSame(seen(AUDIO, body, FORM), {
    model: 'whisper-1',
    stream: true,
    params: { model: 'whisper-1', stream: true, 'timestamp_granularities[]': ['word', 'segment'], prompt: 'é\r\n--X' },
  });
  t.match(seen(AUDIO, body, 'Multipart/Form-Data; boundary="XX"'), { model: 'whisper-1' });
  t.strictSame(seen(AUDIO, '--XX--', FORM), { model: undefined, stream: false, params: {} });
  t.match(seen(AUDIO, '{"model":"m"}', 'application/json'), { model: 'm' }, 'JSON where a form may stand');
  t.match(seen(AUDIO, 'model=whisper-1&prompt=a+b%20%C3%A9&stream=False', 'application/x-www-form-urlencoded'), {
    model: 'whisper-1',
    stream: false,
    params: { prompt: 'a b é' },
  });
  t.match(
    seen(UNKNOWN, form(['name="model"', 'm'], ['name="stream"', 'true']), FORM),
    { model: undefined, stream: false, params: {} },
    'a form to a path that no row knows',
  );
});

t.test('what FormData of the platform writes is read', async (t) => {
  const data = new FormData();
  data.set('model', 'gpt-image-1');
  data.set('prompt', 'two\nlines "quoted" é');
  data.set('image', new Blob([new Uint8Array([0, 13, 10, 45, 45])]), 'ü "x".png');
  const response = new Response(data);
  const type = response.headers.get('content-type') ?? '';
  const bytes = new Uint8Array(await response.arrayBuffer());
  t.match(seen(['openai', '/v1/images/edits'], bytes, type), { model: 'gpt-image-1', params: { prompt: 'two\r\nlines "quoted" é' } });
});

t.test('a form that some parsers read differently is ambiguous', async (t) => {
  const good = form(['name="model"', 'm']);
  const table: readonly (readonly [string, string | Uint8Array, string?])[] = [
    ['no boundary', good, 'multipart/form-data'],
    ['another boundary', good, 'multipart/form-data; boundary=YY'],
    ['two boundaries', good, 'multipart/form-data; boundary=XX; boundary=YY'],
    ['malformed parameter', good, 'multipart/form-data; boundary="XX'],
    ['another multipart', good, 'multipart/mixed; boundary=XX'],
    ['preamble', `x\r\n${good}`],
    ['epilogue', `${good}x`],
    ['no end', good.slice(0, -6)],
    ['bare line feeds', good.replaceAll('\r\n', '\n')],
    [
      'delimiter behind a bare line feed',
      form(['name="prompt"', 'x\n--XX\r\nContent-Disposition: form-data; name="model"\r\n\r\nevil'], ['name="model"', 'm']),
    ],
    ['boundary inside a line', form(['name="a"', 'x--XX'])],
    ['boundary with a tail', good.replace('--XX\r\n', '--XX \r\n')],
    ['boundary that is a prefix', form(['name="a"', 'x\r\n--XXYY\r\ny'])],
    ['no name', form(['x="y"', 'v'])],
    ['two names', form(['name="a"; name="model"', 'v'])],
    ['extended name', form(["name*=utf-8''model", 'v'])],
    ['extended name beside a plain one', form(['name="x"; name*=utf-8\'\'model', 'v'])],
    ['name in pieces', form(['name="x"; name*0="mo"; name*1="del"', 'v'])],
    ['name in one piece', form(['name="x"; name*0*="model"', 'v'])],
    ['file name in pieces', form(['name="x"; filename*0="f"', 'v'])],
    ['empty file name', form(['name="x"; filename=""', 'v'])],
    ['name in single quotes', form(["name='model'", 'v'])],
    ['blank before a name', form(['name=" model"', 'v'])],
    ['tab behind a name', form(['name="model\t"', 'v'])],
    ['blanks around the sign', form(['name = "model"', 'v'])],
    ['name without an end', form(['name="model', 'v'])],
    ['a part within a part', form(['name="x"\r\nContent-Type: multipart/mixed; boundary=YY', 'v'])],
    ['a part in another charset', form(['name="prompt"\r\nContent-Type: text/plain; charset=utf-7', 'v'])],
    ['two types of a part', form(['name="prompt"\r\nContent-Type: text/plain\r\nContent-Type: image/png', 'v'])],
    ['extended boundary', good, "multipart/form-data; boundary=XX; boundary*=utf-8''YY"],
    ['boundary in pieces', good, 'multipart/form-data; boundary=XX; boundary*0=Y; boundary*1=Y'],
    ['extended boundary alone', good, "multipart/form-data; boundary*=utf-8''XX"],
    ['urlencoded name with a NUL', 'model%00=x', 'application/x-www-form-urlencoded'],
    ['urlencoded name with a blank', '+model=x', 'application/x-www-form-urlencoded'],
    ['urlencoded name in quotes', '%22model%22=x', 'application/x-www-form-urlencoded'],
    ['JSON that is a form too', '{"model":"m","x":"&model=evil&"}', 'application/x-www-form-urlencoded'],
    ['a charset in pieces', 'model=m', "application/x-www-form-urlencoded; charset*=utf-8''utf-7"],
    ['a charset of all parts', good, `${FORM}; charset=utf-7`],
    ['name in an encoded word', form(['name="=?utf-8?q?model?="', 'v'])],
    ['escaped name', form(['name="mod\\"el"', 'v'])],
    ['percent name', form(['name="mod%65l"', 'v'])],
    ['escape in a file name', form(['filename="a\\"; name="model"', 'v'])],
    ['two dispositions', good.replace('\r\n\r\nm', '\r\nContent-Disposition: form-data; name="b"\r\n\r\nm')],
    ['transfer encoding', good.replace('\r\n\r\nm', '\r\nContent-Transfer-Encoding: base64\r\n\r\nm')],
    ['folded header', good.replace('; name', ';\r\n name')],
    ['duplicate field', form(['name="model"', 'a'], ['name="model"', 'b'])],
    ['duplicate of another field', form(['name="x"', 'a'], ['name="x"', 'b'])],
    ['look-alike', form(['name="Model"', 'a'])],
    ['model as list', form(['name="model[]"', 'a'])],
    ['model as file', form(['name="model"; filename="m"', 'a'])],
    ['file and field of one name', form(['name="x"; filename="m"', 'a'], ['name="x"', 'b'])],
    ['long model', form(['name="model"', 'a'.repeat(70_000)])],
    ['charset field', form(['name="_charset_"', 'utf-7'])],
    ['stream', form(['name="stream"', 'maybe'])],
    ['not UTF-8', Buffer.from(good.replace('\r\nm\r\n', '\r\n\xff\r\n'), 'latin1')],
    ['too many parts', form(...Array.from({ length: 1001 }, (_, i) => [`name="f${i}"`, ''] as const))],
    ['urlencoded semicolon', 'a=1;model=x', 'application/x-www-form-urlencoded'],
    ['urlencoded escape', 'model=%zz', 'application/x-www-form-urlencoded'],
    ['urlencoded duplicate', 'model=a&mod%65l=b', 'application/x-www-form-urlencoded'],
    ['urlencoded to an unknown path is JSON', 'model=a', 'text/plain'],
  ];
  for (const [what, body, type] of table) t.equal(seen(AUDIO, body, type ?? FORM), 'ambiguous_body', what);
});

t.test('hostile forms and bodies end in a GatewayError or in params', async (t) => {
  const piece = fc.constantFrom(
    '--XX',
    '--XX--',
    '\r\n',
    '\n',
    '\r',
    'Content-Disposition: form-data; name="model"',
    '; filename="x"',
    ':',
    'a',
    '\r\n\r\n',
    '"',
    '\\',
    '=',
    '&',
    '%4',
    '{',
    '}',
  );
  const types = fc.constantFrom(FORM, 'application/x-www-form-urlencoded', 'application/json', 'multipart/form-data; boundary=', undefined);
  const property = fc.property(
    fc.array(piece, { maxLength: 25 }),
    types,
    (pieces, type) => seen(AUDIO, pieces.join(''), type) !== undefined,
  );
  t.doesNotThrow(() => fc.assert(property, { numRuns: 3000 }));
  const bytes = fc.property(fc.uint8Array({ maxLength: 80 }), types, (body, type) => seen(AUDIO, body, type) !== undefined);
  t.doesNotThrow(() => fc.assert(bytes, { numRuns: 1000 }));
});

t.test('a part that is accepted is the part that the platform’s own parser sees', async (t) => {
  const piece = fc.constantFrom('--XX', '\r\n', '\n', 'a', '\r\nContent-Disposition: form-data; name="model"\r\n\r\n', '-', 'é');
  const property = fc.asyncProperty(fc.array(piece, { maxLength: 8 }), fc.array(piece, { maxLength: 8 }), async (first, second) => {
    const body = form(['name="a"', first.join('')], ['name="b"', second.join('')]);
    let params: Readonly<Record<string, unknown>>;
    try {
      params = read(AUDIO, body, FORM).params;
    } catch (error) {
      return error instanceof GatewayError && error.code === 'ambiguous_body';
    }
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- deprecated for servers, good as an independent judge
    const theirs = await new Response(body, { headers: { 'content-type': FORM } }).formData();
    const expected = Object.fromEntries([...theirs.entries()].map(([name, value]) => [name, String(value)]));
    return JSON.stringify({ ...params }) === JSON.stringify(expected);
  });
  await t.resolves(fc.assert(property, { numRuns: 500 }));
});

t.test('a place in the query is read once, and no two readers can take another value', async (t) => {
  const place = { in: 'query', name: 'model' } as const;
  t.equal(readPlace(place, {}, '/v1/realtime?a=b&model=gpt%2Drealtime'), 'gpt-realtime');
  t.equal(readPlace(place, {}, '/v1/realtime?mod%65l=m+1'), 'm 1', 'escapes count in the name too');
  for (const query of ['model=a&model=b', 'model=a&model=a', 'model=a&mod%65l=b', 'model&model=b', 'model=%ff']) {
    t.throws(() => readPlace(place, {}, `/v1/realtime?${query}`), { code: 'ambiguous_body' }, query);
  }
});
