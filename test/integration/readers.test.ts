// Readers of one org that ask for as much as they can, and leave: what they have under way has an end, work ends with
// its client, and nobody else waits. Judged by counts and bytes, not by time.
import { request as httpRequest } from 'node:http';
import t, { type Test } from 'tap';
import type { ExecutionRecord } from '../../src/base/model/execution-record.ts';
import { REPORT_BOUNDS } from '../../src/base/model/work-bounds.ts';
import { rollUp } from '../../src/record/roll-up.ts';
import type { Effect, Store } from '../../src/storage/contract/store.ts';
import { eventually } from '../support/child.ts';
import { exactly } from '../support/exactly.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { type Managed, managedOf } from '../support/managed.ts';
import { initializeOf, requestOf } from '../surfaces/mcp/mcp-place.ts';

const NOW = Date.UTC(2026, 10, 22, 10, 30);
/** Names that a folder of an older version may have of one org. */
const NAMES = 1_500;
const FORMS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

interface Place extends Managed {
  readonly store: Store;
  /** Pages of counters that were asked for so far; each waits while `held`. */
  readonly pages: { count: number; held: boolean; go(): void };
}

/** A gateway on very many names of the org `acme`. */
async function start(t: Test, names = NAMES): Promise<Place> {
  let store: Store | undefined;
  const waiting: (() => void)[] = [];
  const pages = {
    count: 0,
    held: false,
    go() {
      pages.held = false;
      for (const go of waiting.splice(0)) go();
    },
  };
  const keep = (opened: Store): Store => {
    store = opened;
    const counters: Store['counters'] = async (space, page) => {
      pages.count += 1;
      if (pages.held) await new Promise<void>((go) => waiting.push(go));
      return opened.counters(space, page);
    };
    return new Proxy(opened, {
      get: (target, name) => {
        if (name === 'counters') return counters;
        const member: unknown = Reflect.get(target, name, target);
        return typeof member === 'function' ? member.bind(target) : member;
      },
    });
  };
  const gw: TestGateway = await startTestGateway(t, { clock: fakeClock(NOW), store: keep });
  if (store === undefined) throw new Error('the gateway opened no store');
  let effects: Effect[] = [];
  for (let n = 0; n < names; n += 1) {
    effects.push(...rollUp(recordAt(n)));
    if (effects.length < 2_000 && n < names - 1) continue;
    await store.commit(undefined, effects);
    effects = [];
  }
  return { ...(await managedOf(gw)), store, pages };
}

function recordAt(n: number): ExecutionRecord {
  return {
    record_tier: 'action',
    completed_at: '2026-11-22T10:00:00.000Z',
    org_id: 'acme',
    workload_id: `made-up-${n}`,
    connector_id: 'openai',
    decision: 'allow',
    upstream_status: 200,
    metering: { tokens_in: 1, tokens_out: 1, cost_usd: '0.001', model: `a-model-that-somebody-has-made-up-${n}` },
  } as unknown as ExecutionRecord;
}

/** Posts to `/mcp` on a connection that can be cut. */
function post(gw: TestGateway, key: string, body: unknown, session?: string) {
  const headers = { ...FORMS, authorization: `Bearer ${key}`, ...(session === undefined ? {} : { 'mcp-session-id': session }) };
  const request = httpRequest(`${gw.url}/mcp`, { method: 'POST', headers, agent: false });
  const answered = new Promise<{ status: number; text: string; session: string }>((resolve, reject) => {
    request.on('error', reject);
    request.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      response.on('error', reject);
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, text, session: String(response.headers['mcp-session-id'] ?? '') }),
      );
    });
  });
  answered.catch(() => undefined);
  request.end(JSON.stringify(body));
  return { answered, leave: () => request.destroy() };
}

const BATCH = Array.from({ length: 100 }, (_, id) => requestOf('tools/call', { name: 'get_billing_summary', arguments: {} }, id));

t.test('six batches of a hundred bills over very many names: each answer has an end, and the bill is exact', async (t) => {
  const { gw, keyOf, with: withKey } = await start(t);
  const { key } = await keyOf('acme', ['read'], 'mcp');
  const { session } = await post(gw, key, initializeOf('2025-03-26')).answered;
  const answers = await Promise.all(Array.from({ length: 6 }, () => post(gw, key, BATCH, session).answered));
  const most = REPORT_BOUNDS.batchBytes.one * 2;
  for (const { status, text } of answers) {
    t.equal(status, 200);
    t.ok(text.length < most, `${text.length} bytes`);
    const messages = JSON.parse(text) as { id: number; result?: { content: { text: string }[] }; error?: { data: unknown } }[];
    t.equal(messages.length, 100, 'each message has its answer');
    t.strictSame(messages.at(-1)?.error?.data, { code: 'batch_too_large' });
    const bill = JSON.parse(messages[0]?.result?.content[0]?.text ?? '') as Record<string, Record<string, { requests: number }>>;
    t.match(bill, { total_requests: NAMES, total_cost_usd: exactly('1.5') });
    for (const by of ['by_workload', 'by_model']) {
      const rows = Object.values(bill[by] ?? {});
      t.equal(rows.length, 1_001, by);
      t.equal(
        rows.reduce((sum, { requests }) => sum + requests, 0),
        NAMES,
        `${by}: nothing is lost`,
      );
    }
  }
  const manage = withKey((await keyOf('acme', ['read'])).key);
  const alone = await manage('GET', 'billing/summary');
  t.ok(JSON.stringify(alone.body).length < 400_000, 'nor is it longer by the management API');
});

// Holds: keys-wait-for-their-own
t.test('work ends with its client: a batch, a report and what waits for its turn', async (t) => {
  const { gw, keyOf, pages } = await start(t, 5_000);
  const [mcp, management] = [(await keyOf('acme', ['read'], 'mcp')).key, (await keyOf('acme', ['read'])).key];
  const { session } = await post(gw, mcp, initializeOf('2025-03-26')).answered;
  pages.held = true;
  const begun = pages.count;
  const batches = Array.from({ length: 3 }, () => post(gw, mcp, BATCH, session));
  const controller = new AbortController();
  const bills = Array.from({ length: 3 }, () =>
    fetch(`${gw.url}/mgmt/v1/billing/summary`, { headers: { authorization: `Bearer ${management}` }, signal: controller.signal }).catch(
      () => 'left',
    ),
  );
  await eventually('six readers', () => pages.count - begun >= 6 || undefined);
  for (const { leave } of batches) leave();
  controller.abort();
  t.strictSame(await Promise.all(bills), ['left', 'left', 'left']);
  // Those who left are known to have left when somebody who came behind them is answered.
  for (let at = 0; at < 20; at += 1) await (await fetch(`${gw.url}/healthz`)).text();
  const asked = pages.count;
  pages.go();
  for (let at = 0; at < 20; at += 1) await (await fetch(`${gw.url}/healthz`)).text();
  t.equal(pages.count - asked, 0, 'not one page more is read for them');
});

// Holds: keys-wait-for-their-own
t.test(
  'a key that asks for more than its share waits, and has an end of waiting; the key of another org, the operator and health do not',
  async (t) => {
    const { gw, keyOf, pages } = await start(t, 10);
    const [greedy, other] = [(await keyOf('acme', ['read'])).key, (await keyOf('other', ['read'])).key];
    pages.held = true;
    const begun = pages.count;
    const { all } = REPORT_BOUNDS.underWay;
    const statuses: number[] = [];
    const bills = Array.from({ length: 500 }, async () => {
      const response = await fetch(`${gw.url}/mgmt/v1/billing/summary`, { headers: { authorization: `Bearer ${greedy}` } });
      await response.text();
      statuses.push(response.status);
      return response;
    });
    await eventually('the first ones', () => pages.count - begun >= all / 3 || undefined);
    await eventually('refusals', () => statuses.length > 100 || undefined);
    t.equal(pages.count - begun, all / 3, 'a third of the places is what one key has');
    t.ok(
      statuses.every((status) => status === 429),
      'the others wait, or are refused',
    );
    t.equal((await fetch(`${gw.url}/healthz`)).status, 200);
    const keys = await fetch(`${gw.url}/mgmt/v1/keys`, { headers: { authorization: `Bearer ${other}` } });
    t.equal(keys.status, 200, 'the key of another org');
    t.equal((await gw.admin('GET', '/v1/admin/workloads')).status, 200, 'the operator');
    pages.go();
    const answered = await Promise.all(bills);
    const refused = answered.filter(({ status }) => status === 429);
    t.equal(refused[0]?.headers.get('retry-after'), '1');
    t.equal(answered.length - refused.length, answered.filter(({ status }) => status === 200).length, 'whoever has waited is answered');
  },
);
