// Coding agents by `gw run` and by their base URL, as their pages say, against the demo's stand-in.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { STAND_IN_TEXT } from '../../src/cli/demo/stand-in-answers.ts';
import { run } from '../support/child.ts';
import { type AgentWay, CODING_AGENTS, type CodingAgent } from '../support/coding-agents.ts';
import { MAIN } from '../support/gateway-process.ts';
import { bundleOf } from '../support/governed.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { gw } from '../support/run-gw.ts';
import { type StandInGateway, startStandInGateway } from '../support/stand-in-gateway.ts';
import { tempDir } from '../support/temp-dir.ts';

/** An agent that hangs is ended, and what it said is shown. */
const LIMIT_MS = 600_000;

async function records(gateway: StandInGateway): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const { code, out, err } = await gw(['records', 'list', '--all', '--json'], { env: { ...gateway.settings } });
  if (code !== 0) throw new Error(err);
  return out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/**
 * Everything that an agent does goes through the gateway, by whichever way its model is called: nothing of it leaves
 * the machine.
 */
async function runAgent(t: Test, gateway: StandInGateway, agent: CodingAgent, ways: readonly AgentWay[], token: string) {
  const home = tempDir(t);
  const filled = (text: string) => text.replaceAll('GATEWAY', gateway.url).replaceAll('HOME', home);
  const files = new Map<string, string>();
  const env: Record<string, string> = {};
  for (const way of ways) {
    for (const [path, text] of Object.entries(way.files ?? {})) files.set(path, (files.get(path) ?? '') + filled(text));
    for (const [name, value] of Object.entries(way.env ?? {})) env[name] = filled(value);
  }
  for (const [path, text] of files) {
    mkdirSync(dirname(join(home, path)), { recursive: true });
    writeFileSync(join(home, path), text);
  }
  mkdirSync(join(home, 'work'));
  return run(t, process.execPath, [MAIN, 'run', '--workload', 'agents', '--', requirePeer(agent.peer), ...agent.args], {
    cwd: join(home, 'work'),
    env: { HOME: home, TERM: 'xterm-256color', ...gateway.settings, GW_WORKLOAD_TOKEN: token, ...env },
    timeoutMs: LIMIT_MS,
  });
}

async function workloadToken(gateway: StandInGateway): Promise<string> {
  await gateway.admin('PUT', '/v1/admin/workloads', { workload_id: 'agents' });
  const { body } = await gateway.admin('POST', '/v1/admin/workloads/agents/token');
  return (body as { token: string }).token;
}

for (const agent of CODING_AGENTS) {
  const ways = { connect_proxy: [agent.quiet], sdk_redirect: agent.baseUrl && [agent.quiet, agent.baseUrl] };
  for (const [door, way] of Object.entries(ways)) {
    if (way === undefined) continue;
    t.test(`${agent.peer} by ${door}`, { skip: skipWithout([agent.peer]) }, async (t) => {
      const gateway = await startStandInGateway(t);
      const ended = await runAgent(t, gateway, agent, way, await workloadToken(gateway));
      const said = `${ended.stdout}\n${ended.stderr}`.slice(-3_000);
      t.equal(ended.code, 0, said);
      t.ok(ended.stdout.includes(STAND_IN_TEXT), said);
      const found = (await records(gateway)).find(({ model, decision }) => model === agent.model && decision === 'allow');
      t.match(
        found,
        { provider: agent.provider, workload_id: door === 'connect_proxy' ? 'agents' : String, connection_type: door, status_code: 200 },
        said,
      );
      const { tokens_in: sent, tokens_out: made } = (found?.['metering'] ?? {}) as Record<string, number>;
      t.ok(Number(sent) > 1 && Number(made) === Math.ceil(STAND_IN_TEXT.length / 4), `tokens ${sent}/${made}`);
    });
  }
}

/** Everything that the agent asks a model, on its connection: what else a program fetches is nobody's question. */
const ASK = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
    - {id: ask, when: {field: context.action.params.model, exists: true}, effect: {decision: require_approval, reason: ask first, approval: {hold: 5m}}}
`);

/** Says yes to all that waits on its connection, until it is told to stop. */
function approver(gateway: StandInGateway) {
  let isOver = false;
  let given = 0;
  const ended = (async () => {
    while (!isOver) {
      const { body } = await gateway.admin('GET', '/v1/admin/approvals?status=pending');
      for (const { approval_id: id, held } of (body as { items: { approval_id: string; held?: object }[] }).items) {
        if (held === undefined) continue;
        const { status } = await gateway.admin('POST', `/v1/admin/approvals/${id}/approve`, { decided_by: 'olga' });
        if (status === 200) given += 1;
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return given;
  })();
  return {
    /** @returns how often it has said yes */
    stop: () => {
      isOver = true;
      return ended;
    },
  };
}

for (const agent of CODING_AGENTS.filter(({ peer }) => peer === 'claude' || peer === 'codex')) {
  t.test(`${agent.peer} waits for a person, and is answered as if nothing had been`, { skip: skipWithout([agent.peer]) }, async (t) => {
    const gateway = await startStandInGateway(t, { bundle: ASK });
    const olga = approver(gateway);
    const ended = await runAgent(t, gateway, agent, [agent.quiet], await workloadToken(gateway));
    const given = await olga.stop();
    const said = `${ended.stdout}\n${ended.stderr}`.slice(-3_000);
    t.equal(ended.code, 0, said);
    t.ok(ended.stdout.includes(STAND_IN_TEXT), said);
    t.ok(given > 0, 'somebody was asked');
    const all = await records(gateway);
    const asked = all.filter(({ provider }) => provider === agent.provider);
    t.same(
      asked.filter(({ decision }) => decision === 'require_approval' || decision === 'deny'),
      [],
      'no call was answered before it was decided',
    );
    t.ok(asked.length >= given, `${asked.length} calls, ${given} approvals`);
  });
}
