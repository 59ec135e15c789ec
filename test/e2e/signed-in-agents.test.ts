// Coding agents that are signed in with a plan, by the proxy: their calls are decided and cost nothing, and all else
// that they ask of the same host passes unseen (decisions 3.8, 6.3).
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import { systemClock } from '../../src/base/lib/clock.ts';
import { createLogger } from '../../src/base/lib/log.ts';
import { run } from '../support/child.ts';
import { exactly } from '../support/exactly.ts';
import { startTestGateway } from '../support/gateway.ts';
import { bundleOf } from '../support/governed.ts';
import { type PeerName, requirePeer, skipWithout } from '../support/peers.ts';
import { tempDir } from '../support/temp-dir.ts';
import { startTlsUpstream, type UpstreamHandler } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

const LIMIT_MS = 600_000;
const SAID = 'Hello from the stand-in.';
const HOSTS = ['chatgpt.com', 'ab.chatgpt.com', 'cloudcode-pa.googleapis.com', 'oauth2.googleapis.com', 'play.googleapis.com'];
/** Nothing that is not the stand-in's leaves the machine. */
const POLICY = bundleOf(
  `  targets:\n    - {id: elsewhere, when: {field: context.action.target_host, not_in: [${HOSTS.join(', ')}]}, effect: {decision: deny}}\n    - {id: all, effect: {decision: allow}}\n`,
);

const encoded = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
/** Of nobody; it ends in a hundred years. */
const TOKEN = `${encoded({ alg: 'RS256' })}.${encoded({
  email: 'a@example.com',
  exp: 4_102_444_800,
  'https://api.openai.com/auth': { chatgpt_plan_type: 'plus', chatgpt_account_id: 'acc_1', chatgpt_user_id: 'u1' },
})}.sig`;

const item = { type: 'message', role: 'assistant', id: 'm1', content: [{ type: 'output_text', text: SAID }] };
const usage = { input_tokens: 100, output_tokens: 5, total_tokens: 105 };
const RESPONSE = [
  { type: 'response.created', response: { id: 'r1' } },
  { type: 'response.output_item.done', item },
  { type: 'response.completed', response: { id: 'r1', usage } },
];
const ACCOUNT = {
  id: 'acc_1',
  account_id: 'acc_1',
  plan_type: 'plus',
  structure: 'personal',
  is_deactivated: false,
  can_access_with_session: true,
  workspace_backend_origin: 'https://chatgpt.com',
  account_routing_override: 'NO_CONSTRAINT',
  is_fedramp_compliant_workspace: false,
};
const chunk = {
  response: {
    candidates: [{ content: { role: 'model', parts: [{ text: SAID }] }, finishReason: 'STOP' }],
    usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 5, totalTokenCount: 105 },
  },
};
const CHOICE = '{"complexity_reasoning":"x","complexity_score":10,"reasoning":"x","model_choice":"flash"}';

/** What the two hosts answer, by what stands in the path; the first that fits. */
const ANSWERS: readonly (readonly [RegExp, object | string])[] = [
  [/\/codex\/responses$/, RESPONSE.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('')],
  [/\/codex\/models/, { models: [] }],
  [/\/accounts\/check$/, { accounts: [ACCOUNT], default_account_id: 'acc_1', account_ordering: ['acc_1'] }],
  [/tokeninfo/, { email: 'a@example.com', expires_in: 3600, scope: 'https://www.googleapis.com/auth/cloud-platform' }],
  [/:loadCodeAssist$/, { currentTier: { id: 'free-tier', name: 'free' }, cloudaicompanionProject: 'p1' }],
  [/:streamGenerateContent/, `data: ${JSON.stringify(chunk)}\n\n`],
  [/:generateContent$/, { response: { candidates: [{ content: { role: 'model', parts: [{ text: CHOICE }] }, finishReason: 'STOP' }] } }],
];

const handler: UpstreamHandler = (request, response, body) =>
  void body.then(() => {
    // A handshake of a WebSocket gets no answer that one could take for it.
    const found = request.method === 'GET' && request.url?.endsWith('/codex/responses') ? undefined : answerTo(request.url ?? '');
    response.statusCode = request.headers.upgrade === undefined ? 200 : 426;
    response.setHeader('content-type', typeof found === 'string' ? 'text/event-stream' : 'application/json');
    response.end(typeof found === 'string' ? found : JSON.stringify(found ?? {}));
  });

function answerTo(url: string): object | string | undefined {
  return ANSWERS.find(([path]) => path.test(url))?.[1];
}

interface SignedIn {
  readonly peer: PeerName;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Below the home folder. */
  readonly files: Readonly<Record<string, string>>;
  readonly provider: string;
  /** Further lines of a file that lead it to the gateway by base URL; GATEWAY stands for its address. */
  readonly baseUrl?: readonly [file: string, text: string];
}

const AGENTS: readonly SignedIn[] = [
  {
    peer: 'codex',
    args: ['exec', '--skip-git-repo-check', 'Say hello.'],
    files: {
      '.codex/config.toml': 'check_for_update_on_startup = false\n',
      '.codex/auth.json': JSON.stringify({
        OPENAI_API_KEY: null,
        tokens: { id_token: TOKEN, access_token: TOKEN, refresh_token: 'none', account_id: 'acc_1' },
        last_refresh: '2099-01-01T00:00:00Z',
      }),
    },
    provider: 'chatgpt',
    baseUrl: ['.codex/config.toml', 'openai_base_url = "GATEWAY/proxy/chatgpt/backend-api/codex"\n'],
  },
  {
    peer: 'gemini',
    args: ['--skip-trust', '-p', 'Say hello.'],
    env: { GOOGLE_GENAI_USE_GCA: 'true' },
    files: {
      '.gemini/settings.json': JSON.stringify({
        security: { auth: { selectedType: 'oauth-personal' } },
        privacy: { usageStatisticsEnabled: false },
        general: { enableAutoUpdate: false },
      }),
      '.gemini/oauth_creds.json': JSON.stringify({
        access_token: 'ya29.none',
        refresh_token: 'none',
        scope: 'https://www.googleapis.com/auth/cloud-platform',
        token_type: 'Bearer',
        expiry_date: 4_102_444_800_000,
      }),
    },
    provider: 'gemini_code_assist',
  },
];

for (const { peer, args, env = {}, files, provider, baseUrl } of AGENTS) {
  for (const way of baseUrl === undefined ? (['proxy'] as const) : (['proxy', 'base URL'] as const)) {
    t.test(`${peer}, signed in, by ${way}`, { skip: skipWithout([peer]) }, async (t) => {
      const upstream = await startTlsUpstream({ hosts: HOSTS, handler });
      t.teardown(() => upstream.close());
      const lines: string[] = [];
      const log = createLogger({ level: 'info', format: 'json', destination: { write: (line: string) => void lines.push(line) } });
      const gw = await startTestGateway(t, {
        clock: systemClock,
        log,
        bundle: POLICY,
        // Everything else is opened and counted, and found nowhere but at the stand-in.
        env: { ...towards(t, upstream, HOSTS), GW_PROXY_NON_AI: 'inspect' },
      });
      const home = tempDir(t);
      for (const [path, text] of Object.entries(files)) {
        const more = way === 'base URL' && baseUrl?.[0] === path ? baseUrl[1].replace('GATEWAY', gw.url) : '';
        mkdirSync(dirname(join(home, path)), { recursive: true });
        writeFileSync(join(home, path), text + more);
      }
      mkdirSync(join(home, 'work'));
      const trust = { NODE_EXTRA_CA_CERTS: gw.caFile, SSL_CERT_FILE: gw.caFile };
      const ended = await run(t, requirePeer(peer), args, {
        cwd: join(home, 'work'),
        env: {
          HOME: home,
          CODEX_HOME: join(home, '.codex'),
          TERM: 'xterm-256color',
          HTTPS_PROXY: gw.url,
          ...trust,
          NO_PROXY: '127.0.0.1',
          ...env,
        },
        timeoutMs: LIMIT_MS,
      });
      const said = `${ended.stdout}\n${ended.stderr}`.slice(-3_000);
      t.equal(ended.code, 0, said);
      t.match(ended.stdout, SAID, said);
      const ids = lines.flatMap((line) => /"record_id":"([^"]+)"/.exec(line)?.[1] ?? []);
      const records = await Promise.all(ids.map((id) => gw.record(id)));
      const call = records.find((record) => record['metering'] !== undefined && record['stream'] === true);
      t.match(
        call,
        { provider, decision: 'allow', metering: { billing: 'plan', cost_usd: exactly('0'), tokens_in: 100, tokens_out: 5 } },
        said,
      );
      const paths = records.map((record) => String(record['target_path']));
      const isKnown = (path: string) =>
        /\/codex\/responses$|enerateContent/.test(path) || (way === 'base URL' && path.includes('/codex/models'));
      t.same(
        paths.filter((path) => !isKnown(path)),
        [],
        'nothing but calls is on record',
      );
      t.ok(upstream.requests.length > records.length, 'more than calls has passed');
    });
  }
}
