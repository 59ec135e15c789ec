// How much one message, one batch and one session can take: answers have an end, and work ends when nobody waits for
// it.
import t from 'tap';
import { REPORT_BOUNDS } from '../../../src/base/model/work-bounds.ts';
import type { Asker } from '../../../src/operations/tools.ts';
import { mcpPlace, requestOf } from './mcp-place.ts';

const REVISION = '2025-03-26';
const call = (id: string | number) => requestOf('tools/call', { name: 'list_bare' }, id);

/** A tool that answers when it is told to, or is ended by its signal. */
function heldTool() {
  const asked: { readonly asker: Asker; readonly answer: (value: unknown) => void }[] = [];
  const tool = (_name: string, _args: unknown, asker: Asker): Promise<unknown> =>
    new Promise((answer, reject) => {
      asked.push({ asker, answer });
      asker.signal?.addEventListener('abort', () => reject(asker.signal?.reason as Error), { once: true });
    });
  return { asked, tool };
}

async function turns(count = 20): Promise<void> {
  for (let at = 0; at < count; at += 1) await new Promise((resolve) => setImmediate(resolve));
}

t.test('the answers of a batch have an end: what stands behind is not carried out, and each message is told so', async (t) => {
  let called = 0;
  const batchBytes = 64 * 1024;
  const place = mcpPlace(undefined, {
    batchBytes,
    call: () => {
      called += 1;
      return Promise.resolve({ text: 'x'.repeat(10_000) });
    },
  });
  const session = { 'mcp-session-id': await place.begin(REVISION) };
  const ids = Array.from({ length: 100 }, (_, at) => at);
  const { status, text, json } = await place.post(ids.map(call), session);
  t.equal(status, 200);
  const answers = json as { readonly id: number; readonly error?: unknown; readonly result?: unknown }[];
  t.strictSame(
    answers.map(({ id }) => id),
    ids,
    'each message has its answer',
  );
  t.ok((text?.length ?? 0) < batchBytes + 10_500 + 100 * 300, `${text?.length} bytes`);
  t.ok(called < 10, `${called} calls`);
  t.strictSame(
    answers.map(({ result }) => result !== undefined),
    ids.map((id) => id < called),
    'in order, up to the one with which the bound is passed',
  );
  t.match(answers.at(-1), { error: { code: -32_010, message: /^Not carried out/, data: { code: 'batch_too_large' } } });
  t.equal(REPORT_BOUNDS.batchBytes.one, 4 * 1024 * 1024);
});

t.test('a batch whose client leaves asks for nothing more', async (t) => {
  const { asked, tool } = heldTool();
  const place = mcpPlace(undefined, { call: tool });
  const session = { 'mcp-session-id': await place.begin(REVISION) };
  const client = new AbortController();
  const answered = place.post(
    Array.from({ length: 100 }, (_, at) => call(at)),
    session,
    undefined,
    client.signal,
  );
  await turns();
  asked[0]?.answer({});
  await turns();
  t.equal(asked.length, 2, 'one after the other');
  client.abort(new Error('gone'));
  await answered.catch(() => undefined);
  await turns();
  t.equal(asked.length, 2, 'and none behind the one that was under way');
  t.equal(asked[1]?.asker.signal?.aborted, true, 'which is told, too');
  t.equal(place.endpoint.underWay.size, 0);
});

t.test('notifications/cancelled ends the request of its session that it names, and no other', async (t) => {
  const { asked, tool } = heldTool();
  const place = mcpPlace(undefined, { call: tool });
  const [mine, other] = [{ 'mcp-session-id': await place.begin(REVISION) }, { 'mcp-session-id': await place.begin('2025-11-25') }];
  const cancel = (session: Record<string, string>, requestId: unknown) =>
    place.post({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } }, session);
  const first = place.post(call(1), mine);
  const same = place.post(call(1), other);
  const text = place.post(call('1'), mine);
  await turns();
  t.equal(asked.length, 3);
  for (const strange of [2, null, {}, undefined]) t.equal((await cancel(mine, strange)).status, 202, 'nothing is called so');
  t.equal((await cancel(mine, 1)).status, 202);
  t.match(await first, { status: 200, json: { id: 1, error: { code: -32_800 } } });
  for (const { asker, answer } of asked.slice(1)) {
    t.equal(asker.signal?.aborted, false, 'of another session, and another id');
    answer({ done: true });
  }
  t.match((await same).json, { id: 1, result: {} });
  t.match((await text).json, { id: '1', result: {} });
  t.equal(place.endpoint.underWay.size, 0, 'nothing of them is kept');
});
