/*
 * What typed-guides.test.ts needs to know of pages: which blocks cannot be typed on one machine, and what a page takes
 * for granted.
 */
import { ADMIN_TOKEN } from '../support/gateway.ts';
import type { StandInGateway } from '../support/stand-in-gateway.ts';

/** Where a page is typed. */
export interface GuidePlace {
  readonly gateway: StandInGateway;
  /** As the folder of the gateway. */
  readonly work: string;
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Programs of others that pages start; their own tests are those that start them for real (coding-agents, run-tool,
 * everyday-clients).
 */
export const PROGRAMS_SHOWN = [
  'claude',
  'codex',
  'gemini',
  'copilot',
  'opencode',
  'aider',
  'cursor',
  'COMMAND',
  'node',
  'python',
  'go',
  'java',
  'chromium',
] as const;

/** Programs that would change this machine or need another one; what a line has besides is typed. */
export const PROGRAMS_NOT_RUN: Readonly<Record<string, string>> = {
  sudo: 'changes the machine; units.test.ts runs what install.sh and uninstall.sh do, in a folder',
  docker: 'needs a Docker engine; container.test.ts reads the files',
  kubectl: 'needs a cluster; kubernetes.test.ts reads the manifests',
  npm: 'installs, or runs the workshop of a clone; npm-package.test.ts packs and installs, process.test.ts starts by npm',
  certutil: 'changes the store of a browser; trust.test.ts does it in a folder',
  journalctl: 'needs a unit of systemd',
  jq: 'not on every machine',
  git: 'the folder here is no clone',
};

/** Files of the reader's own that pages name. */
export const FILES_SHOWN: Readonly<Record<string, string>> = {
  'call.go': '',
  'key.txt': 'sk-of-the-guide',
  'my-program': '#!/bin/sh\ntrue\n',
  'team-a.token': 'gwt_of-the-guide',
};

/** Settings of the gateway that a page is about. */
export const SETTINGS_OF: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'docs/guides/routing.md': { GW_ACTION_TYPE_CONNECTORS: 'acme.summarise=anthropic,ai.moderate=openai' },
};

/** Blocks with a part of each, and why they are not typed. */
export const NOT_TYPED: readonly (readonly [page: string, part: string, reason: string])[] = [
  ['README.md', 'git clone', 'it is the clone itself: the demo is run by onboarding.test.ts'],
  ['docs/guides/alerts.md', '# 2. Does it arrive?', 'it asks a chat of another company'],
  ['docs/guides/clients/ci.md', 'docker run', 'needs a Docker engine'],
  [
    'docs/guides/control-plane.md',
    '',
    'needs a control plane with gateways: deployment-guide.test.ts and control-plane-commands.test.ts type these commands',
  ],
  ['docs/guides/exports.md', 'siem.example.com', 'it sends to a machine of another company'],
  [
    'docs/guides/managing.md',
    'https://gateway.example.com',
    'it asks a gateway on another machine; approvals.test.ts types these commands',
  ],
  ['docs/guides/nodes.md', 'createdb', 'it needs a server: test/integration/nodes.test.ts starts nodes on one'],
  ['docs/guides/nodes.md', 'gw nodes', 'it needs a server: test/integration/nodes.test.ts forgets a node of one'],
  ['docs/guides/nodes.md', 'gw storage', 'it needs a server: test/integration/storage-commands.test.ts moves into one'],
  [
    'docs/guides/verifying.md',
    'keys.json',
    'needs a control plane: third-party-check, verify-evidence and log-entries.test.ts type these commands',
  ],
  ['docs/guides/verifying.md', '--watch', 'needs a control plane: watched-ledger.test.ts types it'],
  ['docs/guides/verifying.md', '--control-plane', 'needs a control plane: verify-evidence.test.ts types it'],
];

/** Commands that are typed and say no here, by a part of the line, and why. */
export const SAYS_NO: readonly (readonly [page: string, part: string, reason: string])[] = [
  [
    'docs/guides/operations.md',
    '127.0.0.1:7080/v1/admin/org',
    'this gateway has no org of its own; suspended-orgs.test.ts asks one that has',
  ],
  ['docs/guides/api-keys.md', 'gw api-keys revoke ID', 'the reader takes an id of the list; management-commands.test.ts types it with one'],
  ['docs/guides/approvals.md', '01a2…', 'no request waits for an approval; approvals.test.ts types it with one'],
  ['docs/guides/approvals.md', 'curl -s -H "GW-Admin-Token: $TOKEN" -X POST', 'no request waits for an approval'],
  ['docs/guides/bodies-and-limits.md', 'curl', 'the stand-in has no transcriptions, and the reader brings the file'],
  ['docs/guides/console.md', 'gw sessions revoke ID', 'nobody has signed in; console-sessions.test.ts ends a session'],
  ['docs/guides/custom-connectors.md', 'mgmt/v1/credentials', 'the id of the connector stands in the answer to the first command'],
  [
    'docs/guides/custom-connectors.md',
    'block 3, status 22: curl -s http',
    'it is about a gateway with GW_EGRESS_ALLOW, as the line before says',
  ],
  ['docs/guides/delegation.md', 'gw delegate inspect', 'this shell has no GW_DELEGATION_VERIFY_KEY; delegate.test.ts types it with one'],
  ['docs/guides/delegation.md', 'v1/actions:execute', 'this gateway has no GW_DELEGATION_VERIFY_KEY'],
  ['docs/guides/docker.md', 'curl -X POST', 'the token is read out of a container'],
  ['docs/guides/doctor.md', 'gw doctor', 'the runtimes here are stand-ins; doctor.test.ts types it with real ones'],
  ['docs/guides/exports.md', 'dead-letters/resend', 'there is no destination yet; exports.test.ts asks it with one'],
  [
    'docs/guides/operations.md',
    'gw ca rotate --finish',
    'no former root is there until the next one signs; root-rotation-api.test.ts types it then',
  ],
  ['docs/guides/policy.md', 'curl -s -X PUT', 'jq is not on every machine; policies.test.ts puts a bundle'],
  ['docs/guides/policy.md', 'gw policy', 'they are about files of the page, which policy-guide.test.ts saves and types'],
  ['docs/guides/pricing.md', 'gw prices', 'the list is the reader’s own; price-lists.test.ts types it with one'],
  ['docs/guides/quarantine.md', 'gw quarantine release', 'nobody is in quarantine; quarantine.test.ts releases by the same operation'],
  ['docs/guides/quarantine.md', 'curl -s -X POST', 'nobody is in quarantine; quarantine.test.ts asks it with one'],
  ['docs/guides/risk.md', 'gw risk replay', 'the gateway is running and the records are the reader’s own; risk.test.ts types it'],
  ['docs/guides/trust.md', 'gw trust status', 'no store of this machine has the root; trust.test.ts types it in a folder'],
];

const firstId = (command: string) => `$(${command} | first_id)`;

/** A key of the given kind, made by the operator. */
async function keyOf({ gateway }: GuidePlace, kind: 'management' | 'mcp'): Promise<string> {
  const scopes = kind === 'mcp' ? ['read'] : ['read', 'write'];
  const { body } = await gateway.admin('POST', '/v1/admin/mgmt-keys', { org_id: 'default', name: `of a guide, ${kind}`, kind, scopes });
  return (body as { key: string }).key;
}

/** @throws Error where the gateway answers otherwise than the page needs */
async function made({ gateway }: GuidePlace, method: string, path: string, body: object, status = 200, key = ADMIN_TOKEN): Promise<void> {
  const headers = { authorization: `Bearer ${key}` };
  const answer = await fetch(`${gateway.url}${path}`, { method, headers, body: JSON.stringify(body) });
  if (answer.status !== status) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
}

/** A call, for what is said of its record. */
async function recordOf({ gateway }: GuidePlace): Promise<string> {
  const answer = await fetch(`${gateway.url}/proxy/openai/v1/models`, { headers: { authorization: 'Bearer k' } });
  await answer.arrayBuffer();
  return answer.headers.get('x-gw-record-id') ?? '';
}

/**
 * The page adds a model to a list of those that are allowed; it stands in another overlay than the one that the page
 * puts, so that nothing of it is lost then.
 */
async function allowedModels(place: GuidePlace, key: string): Promise<void> {
  const rule = { conditions: { 'context.action.params.model': 'gpt-4o-mini' }, effect: { decision: 'allow' } };
  await made(place, 'PUT', '/mgmt/v1/policies/rules/allow.gpt-4o-mini', { layer: 'targets', level: 'node', rule }, 200, key);
}

/** What a page takes for granted: made before, with the text that stands for it on the page. */
export const PREPARED: Readonly<Record<string, (place: GuidePlace) => Promise<Readonly<Record<string, string>>>>> = {
  'README.md': async (place) => ({ RECORD_ID: await recordOf(place) }),
  'docs/guides/clients/README.md': async (place) => ({ RECORD_ID: await recordOf(place) }),
  'docs/guides/alerts.md': () =>
    Promise.resolve({
      'T…/B…/…': 'T1/B1/x',
      'CHANNEL=…': `CHANNEL=${firstId('gw alerts channels list --json')}`,
      'LIMIT=…': `LIMIT=${firstId('gw budgets list --json')}`,
    }),
  'docs/guides/budgets-and-limits.md': () =>
    Promise.resolve({ 'ID=…': `ID=${firstId('gw budgets list --json')}`, '2026-12-01T00:00:00Z': '2099-12-01T00:00:00Z' }),
  'docs/guides/console.md': async (place) => ({ 'mgk_…': await keyOf(place, 'management') }),
  'docs/guides/exports.md': () => Promise.resolve({ 'ID=…': 'ID=setting-webhook' }),
  'docs/guides/managing.md': async (place) => {
    const key = await keyOf(place, 'management');
    await allowedModels(place, key);
    return { 'mgk_…': key, 'services/…': 'services/T1/B1/x' };
  },
  'docs/guides/mcp.md': async (place) => ({ 'mgk_…': await keyOf(place, 'management'), 'mcpk_…': await keyOf(place, 'mcp') }),
  'docs/guides/routing.md': async (place) => {
    const key = { credential_id: 'anthropic-main', connector_id: 'anthropic', mode: 'alias', secret_ref: 'sk-ant-of-the-guide' };
    await made(place, 'PUT', '/v1/admin/credentials', key);
    return {};
  },
  // There are calls, one of which was refused.
  'docs/guides/verifying.md': async (place) => {
    await recordOf(place);
    const action = { type: 'http.request', method: 'GET', target_host: 'elsewhere.example', params: {} };
    await made(
      place,
      'POST',
      '/v1/actions:execute',
      { schema: 'gw.action_request.v2', org_id: 'default', workload_id: 'default', action },
      403,
    );
    return {};
  },
};
