import { usdFromPico } from '../base/lib/money.ts';
import { shorten } from '../base/lib/text.ts';
import type { Approval } from '../base/model/approval.ts';
import type { Principal } from '../base/model/principal.ts';
import type { CompiledPolicy, CompiledRule } from '../decide/policy/compiled.ts';
import { type ExpectedCaller, rulesThatMayStop } from '../decide/policy/may-stop.ts';
import { type GatewayOperation, operation, READS } from './operation.ts';
import type { OperationServices } from './services.ts';

/** What is told of the rules and of what waits is to fit into a prompt. */
const MOST_RULES = 8;
const MOST_WAITING = 4;
const MOST_CHARACTERS = 160;
const MARKDOWN = 'text/markdown; charset=utf-8';

/** What a model is told that works behind this gateway (decision 9.1). */
export const AGENT_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'agent.read',
    method: 'GET',
    path: '/v1/agent.md',
    scope: 'caller',
    summary: 'For a model or an agent, as Markdown: how to behave behind this gateway, which rules hold for its caller, and what waits.',
    annotations: READS,
    output: { status: 200, contentType: MARKDOWN },
    handle: async ({ principal }, services) => ({ bytes: Buffer.from(await agentText(principal, services)), contentType: MARKDOWN }),
  }),
  operation({
    id: 'agent.llms_txt',
    method: 'GET',
    path: '/llms.txt',
    scope: 'none',
    summary: 'What this is and where a model reads more (llms.txt).',
    annotations: READS,
    output: { status: 200, contentType: MARKDOWN },
    handle: () => ({ bytes: Buffer.from(LLMS_TXT), contentType: MARKDOWN }),
  }),
];

const LLMS_TXT = `# AI Request Gateway

> Calls to AI providers pass this gateway. It decides each of them by policy, and records it.

- [How to behave behind it](/v1/agent.md): with the API key or workload token of your calls
- [Its API](/v1/openapi.json): OpenAPI 3.1
`;

async function agentText(principal: Principal, services: OperationServices): Promise<string> {
  const { policies, trust } = services;
  const orgId = principal.orgId ?? trust.ownOrg;
  const { policy } = policies.current(orgId);
  const caller = { orgId, workloadId: principal.kind === 'workload' ? principal.id : undefined };
  return `# You work behind an AI gateway

Your calls to AI providers pass a gateway. It decides each of them by rules that people have written, records it, and sends it on.

## When a call is refused

- Read the error: it says why, and what to do next, in one sentence each. \`reason_codes\` are stable, \`next\` says it for programs, and \`record_id\` names the record that a person can look up.
- \`next.request: "change"\`: this call is not let through as it is. Change what the reason names (the model, the size, the project), or ask your person. Never send the same call again and again: repeated refusals count against you.
- \`next.request: "repeat"\`: nothing in it has to change. Send exactly the same request again, byte for byte, after \`next.retry_after\` seconds, or, where that is missing, once a person has set right what the reason names. A changed one is another request, and is asked about anew.
- Status 429, or \`Retry-After\`: wait so many seconds first.
- Do not look for a way around the gateway (another host, key or proxy). Tell your person what you need and why.

## When a call waits for a person

- The answer says \`require_approval\`: 202 on /v1/actions:execute, 403 elsewhere; or the call takes minutes, because it waits on its connection. Leave it open.
- GET \`next.wait_url\` with the key of your call and \`?timeout=60s\`: it answers when somebody has decided. Then send the same request again if it was approved. If it was denied, do what its reason says.
- Meanwhile go on with something else. Do not open the same request a second time.

## Money

- A call that would pass a budget is refused with what is left (\`budget\`). Use a smaller model, or fewer tokens, or stop and say so.

## Rules that may stop your calls

${rulesText(policy, caller)}

## What waits for a person

${await waitingText(principal, services)}
`;
}

/** Those that may concern a call of this caller; the gateway decides, not this list. */
function rulesText(policy: CompiledPolicy, caller: ExpectedCaller): string {
  const told = rulesThatMayStop(policy, caller).map(({ layer, rule }) => {
    return `- ${whatItDoes(rule)} (${layer}/${rule.id})${reasonOf(rule.effects.reason)}`;
  });
  const closed = policy.layers.flatMap(({ name, gateCode }) =>
    gateCode === undefined ? [] : [`- deny (${name}): what no rule of the layer allows`],
  );
  const all = [...told, ...closed];
  const more = all.length > MOST_RULES ? [`- and ${all.length - MOST_RULES} more`] : [];
  return all.length === 0 ? 'None.' : [...all.slice(0, MOST_RULES), ...more].join('\n');
}

function whatItDoes({ decision, effects }: CompiledRule): string {
  if (decision !== undefined && decision !== 'allow') return decision;
  const { usdMaxPico: call, monthlyUsdMaxPico: month, requestsPerMinute: rate, require = [] } = effects;
  return [
    ...(call === undefined ? [] : [`at most ${usdFromPico(call)} USD a call`]),
    ...(month === undefined ? [] : [`at most ${usdFromPico(month)} USD a month`]),
    ...(rate === undefined ? [] : [`at most ${rate} calls a minute`]),
    ...(require.length === 0 ? [] : [`name ${require.map(({ name }) => name).join(', ')}`]),
  ].join(', ');
}

/** Of the caller's own calls alone: who has shown nothing is not told of those of others. */
async function waitingText(principal: Principal, { approvals }: OperationServices): Promise<string> {
  if (principal.kind !== 'api_key' && principal.kind !== 'workload')
    return 'What you were told to wait for is at its `next.wait_url`. With the API key or workload token of your calls this page lists it.';
  const { kind, id, orgId } = principal;
  const isOwn = (one: Approval): boolean => (kind === 'api_key' ? one.api_key_id === id : one.workload_id === id);
  const { items } = await approvals.page({ orgId, status: 'pending' }, { after: undefined, limit: 500 });
  const own = items.filter(isOwn).slice(0, MOST_WAITING);
  if (own.length === 0) return 'Nothing.';
  return own
    .map(({ approval_id: approval, action, reason, expires_at: until }) => {
      const what = `${action.method} ${action.target_host}${action.model === undefined ? '' : `, model ${action.model}`}`;
      return `- ${oneLine(what)}, until ${until}${reasonOf(reason)} Wait at /v1/approvals/${approval}/wait`;
    })
    .join('\n');
}

function reasonOf(reason: string | undefined): string {
  return reason === undefined ? '' : `: ${oneLine(reason)}`;
}

/** Text of a person or a caller in one line of Markdown. */
function oneLine(text: string): string {
  return shorten(text.replace(/[\s`<>]+/g, ' ').trim(), MOST_CHARACTERS);
}
