import { once } from 'node:events';
import type { Socket } from 'node:net';
import t from 'tap';
import { eventually } from '../support/child.ts';
import { AUDIO, AZURE, chunk, connected, file, form, head, LIMIT, model, SMALL, SOUND, sha256, TYPE, upload } from '../support/forms.ts';
import { ALLOW_ALL, bundleOf, startGoverned } from '../support/governed.ts';
import { connectThrough, h2Request, h2Session, readResponse } from '../support/raw-clients.ts';

t.test('a form of any size passes while it arrives when its fields come first', async (t) => {
  const on = await startGoverned(t, { bundle: ALLOW_ALL, env: SMALL });
  const body = form(model('whisper-1'), ['name="language"', 'de'], file(), file(Buffer.from('more'), 'extra'));
  const sent = { model: 'whisper-1', request_bytes: body.length, request_sha256: sha256(body), decision: 'allow' };
  for (const chunked of [false, true]) {
    const answer = await upload(t, on, body, { chunked });
    t.equal(answer.status, 200);
    const seen = on.upstream.requests.at(-1);
    t.ok(seen?.body.equals(body), 'byte for byte');
    t.equal(seen?.headers['content-length'], chunked ? undefined : String(body.length));
    t.match(await on.recordOf(answer), sent);
  }
  const socket = await connectThrough(on.gw.port, 'api.openai.com:443', on.gw.caPem, { alpn: ['h2'] });
  const session = h2Session(socket, 'api.openai.com');
  t.teardown(() => session.destroy());
  const answer = await h2Request(session, {
    method: 'POST',
    path: '/v1/audio/transcriptions',
    headers: ['authorization', 'Bearer k', 'content-type', TYPE],
    body,
  });
  t.equal(answer.status, 200);
  t.ok(on.upstream.requests.at(-1)?.body.equals(body));
  t.match(await on.recordOf(answer), sent, 'on h2 without a length too');
  const own = await upload(t, on, form(file()), { path: AZURE, extra: 'X-GW-Target-Host: res.openai.azure.com\r\n' });
  t.match(await on.recordOf(own), { model: 'ears', status_code: 200 }, 'a model in the path is known before any field');
});

// Holds: forms-are-looked-at-first
t.test('the call is decided before its file is taken, and reaches the provider before all of it is here', async (t) => {
  const on = await startGoverned(t, {
    bundle: bundleOf(
      '  targets:\n    - {id: all, effect: {decision: allow}}\n    - {id: no, when: {field: context.action.params.model, equals: no}, effect: {decision: deny}}\n',
    ),
    env: SMALL,
  });
  const refused = await connected(t, on);
  const denied = form(model('no'), file());
  refused.write(head(AUDIO, denied.length));
  refused.write(denied.subarray(0, 300));
  const answer = await readResponse(refused, 'POST');
  t.match(answer, { status: 403, headers: { connection: 'close' } });
  t.match(await on.recordOf(answer), { decision: 'deny', model: 'no', request_bytes: 300, request_sha256: undefined });
  t.equal(on.upstream.requests.length, 0);

  const passing = await connected(t, on);
  const body = form(model('yes'), file());
  passing.write(head(AUDIO, body.length, 'Expect: 100-continue\r\n'));
  await once(passing, 'readable');
  passing.write(body.subarray(0, 50_000));
  const seen = await eventually('the upload at the provider', () => on.upstream.requests.find((request) => request.body.length > 40_000));
  t.ok(body.subarray(0, seen.body.length).equals(seen.body));
  passing.write(body.subarray(50_000));
  t.match(await readResponse(passing, 'POST'), { status: 200, infos: [100] });
  t.equal(await seen.complete, true);
});

t.test('a form whose model comes after its file is held, and is 413 with advice when it is too large for that', async (t) => {
  const on = await startGoverned(t, { bundle: ALLOW_ALL, env: SMALL });
  const fits = form(file(SOUND.subarray(0, 90_000)), model('whisper-1'));
  for (const chunked of [false, true]) {
    const held = await upload(t, on, fits, { chunked });
    t.match(await on.recordOf(held), { model: 'whisper-1', status_code: 200, request_sha256: sha256(fits), request_bytes: fits.length });
    t.ok(on.upstream.requests.at(-1)?.body.equals(fits));
  }
  for (const chunked of [false, true]) {
    const answer = await upload(t, on, form(file(), model('whisper-1')), { chunked });
    t.equal(answer.status, 413);
    t.match(answer.body.toString(), /text fields \(the model among them\) before its files/);
  }
  const longText = await upload(t, on, form(model('m'), ['name="prompt"', SOUND], file()));
  t.equal(longText.status, 413, 'a text is no file');
  const parts = await connected(t, on);
  parts.on('error', () => undefined);
  parts.write(head(AUDIO, undefined));
  const refused = readResponse(parts, 'POST');
  // Every chunk ends where a part does.
  const one = form(file(SOUND.subarray(0, 10_000))).subarray(0, -8);
  for (let at = 0; at < 50; at += 1)
    parts.write(chunk(at === 0 ? one.subarray(0, -2) : Buffer.from(`\r\n${one.toString('latin1', 0, one.length - 2)}`, 'latin1')));
  t.equal((await refused).status, 413, 'many small files are as large as one');
  t.equal(on.upstream.requests.length, 2);
});

// Holds: forms-are-looked-at-first
t.test('what policy would have had to see does not come after the decision', async (t) => {
  const on = await startGoverned(t, { bundle: ALLOW_ALL, env: SMALL });
  const good = form(model('a'), file()).subarray(0, -8);
  const late: readonly (readonly [what: string, rest: Buffer | string])[] = [
    ['a second model', form(model('b'))],
    ['another text', form(['name="prompt"', 'x'])],
    ['a list', form(['name="include[]"', 'x'])],
    ['a look-alike', form(file(Buffer.from('b'), 'Model'))],
    ['a governed field as file', form(file(Buffer.from('b'), 'stream'))],
    ['a file of the name of a text', form(file(Buffer.from('b'), 'model'))],
    ['a charset', form(['name="_charset_"; filename="x"', 'utf-7'])],
    ['a part without name', '--BB\r\nContent-Disposition: form-data\r\n\r\nx\r\n--BB--'],
    ['a delimiter in the middle', 'x--BB\r\nContent-Disposition: form-data; name="model"\r\n\r\nb\r\n--BB--'],
    ['something after the end', '--BB--\r\n--BB'],
    ['no end', ''],
  ];
  for (const [what, rest] of late) {
    const body = Buffer.concat([good, Buffer.from(rest)]);
    for (const chunked of [false, true]) {
      const answer = await upload(t, on, body, { chunked });
      t.equal(answer.status, 400, what);
      t.match(await on.recordOf(answer), { decision: 'deny', reason_codes: ['ambiguous_body'], model: 'a' }, what);
      const seen = on.upstream.requests.at(-1);
      t.equal(await seen?.complete, false, `${what}: the provider never had all of it`);
      t.notOk(seen?.body.includes(rest === '' ? '--BB--' : 'name="model"\r\n\r\nb'), `${what}: nor any of the part`);
      t.ok(good.subarray(0, seen?.body.length).equals(seen?.body.subarray(0, good.length) ?? good), `${what}: only what was certain`);
    }
  }
  t.equal((await upload(t, on, form(model('a'), file()))).status, 200, 'the next one passes');
});

t.test('a mutation rewrites the field and the length of a form that passes', async (t) => {
  const on = await startGoverned(t, {
    bundle: bundleOf(
      '  targets:\n    - {id: all, effect: {decision: allow}}\n  transforms:\n    - {id: other, when: {field: context.action.params.model, equals: big}, effect: {decision: downgrade, mutations: [{key: action.params.model, value: the-small-one}, {key: action.params.language, value: en}]}}\n',
    ),
    env: SMALL,
  });
  const body = form(model('big'), file());
  const expected = form(model('the-small-one'), ['name="language"', 'en'], file());
  for (const chunked of [false, true]) {
    const answer = await upload(t, on, body, { chunked });
    t.equal(answer.status, 200);
    const seen = on.upstream.requests.at(-1);
    t.ok(seen?.body.equals(expected));
    t.equal(seen?.headers['content-length'], chunked ? undefined : String(expected.length));
    t.match(await on.recordOf(answer), { decision: 'downgrade', model: 'the-small-one', request_sha256: sha256(body) });
  }
  const twice = form(model('big'), file(), file(Buffer.from('en'), 'language'));
  t.equal((await upload(t, on, twice)).status, 400, 'a field that policy added does not come a second time');
});

t.test('what is held of a form counts for GW_MAX_BUFFERED_BYTES and is given back when it has been sent', async (t) => {
  const on = await startGoverned(t, { bundle: ALLOW_ALL, env: { ...SMALL, GW_MAX_BUFFERED_BYTES: String(LIMIT + 70_000) } });
  const holder = await connected(t, on);
  const late = form(file(SOUND.subarray(0, 90_000)), model('a'));
  holder.write(head(AUDIO, undefined));
  holder.write(chunk(late.subarray(0, 80_000)));
  await eventually('a form that is held', async () => {
    const other = await upload(t, on, form(file(SOUND.subarray(0, 95_000)), model('a')));
    return other.status === 503 ? true : undefined;
  });
  holder.write(chunk(late.subarray(80_000)));
  holder.write('0\r\n\r\n');
  t.equal((await readResponse(holder, 'POST')).status, 200);
  const passing = form(model('a'), file());
  const open: Socket[] = [];
  for (let at = 0; at < 5; at += 1) {
    const socket = await connected(t, on);
    socket.write(head(AUDIO, passing.length));
    socket.write(passing.subarray(0, 60_000));
    await eventually('an upload at the provider', () => (on.upstream.requests.length > 1 + at ? true : undefined));
    open.push(socket);
  }
  for (const socket of open) {
    socket.write(passing.subarray(60_000));
    t.equal((await readResponse(socket, 'POST')).status, 200, 'more pass at once than could be held');
  }
});
