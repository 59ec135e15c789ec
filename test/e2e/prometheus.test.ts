// The metrics, the dashboard and the alert rules before programs that are not ours: Prometheus scrapes a gateway and
// evaluates every expression, promtool checks and tests the rules.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { eventually, launch } from '../support/child.ts';
import { chat, startGoverned } from '../support/governed.ts';
import { alertRules, MONITORING, shippedExpressions } from '../support/monitoring-files.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

const METRICS_TOKEN = 'metrics-token-0123456789';

interface QueryAnswer {
  readonly status: string;
  readonly error?: string;
  readonly data?: { readonly result: readonly { readonly metric: Record<string, string>; readonly value: readonly [number, string] }[] };
}

/** A Prometheus that scrapes one gateway and has the shipped rules. @returns asks its query API */
async function startPrometheus(
  t: HasTeardown,
  target: string,
): Promise<(path: string, query?: Record<string, string>) => Promise<unknown>> {
  const dir = tempDir(t);
  const config = join(dir, 'prometheus.yml');
  writeFileSync(
    config,
    JSON.stringify({
      global: { scrape_interval: '1s', evaluation_interval: '1s' },
      rule_files: [join(MONITORING, 'alert-rules.yaml')],
      scrape_configs: [
        { job_name: 'ai-request-gateway', authorization: { credentials: METRICS_TOKEN }, static_configs: [{ targets: [target] }] },
      ],
    }),
  );
  const places = [`--config.file=${config}`, `--storage.tsdb.path=${join(dir, 'data')}`, '--web.listen-address=127.0.0.1:0'];
  const child = launch(t, requirePeer('prometheus'), places, { cwd: dir });
  const address = await eventually('Prometheus is ready', () => {
    const place = /msg="Listening on" address=(\S+)/.exec(child.stderr)?.[1];
    return child.stderr.includes('Server is ready to receive web requests') ? place : undefined;
  });
  return async (path, query = {}) => {
    const answer = await fetch(`http://${address}/api/v1/${path}?${new URLSearchParams(query)}`);
    return answer.json();
  };
}

t.test(
  'Prometheus evaluates every expression of the dashboard and of the rules over a gateway',
  { skip: skipWithout(['prometheus']) },
  async (t) => {
    const { gw, send, execute } = await startGoverned(t, { env: { GW_METRICS_TOKEN: METRICS_TOKEN } });
    t.equal((await send(chat())).status, 200);
    const ask = await startPrometheus(t, `127.0.0.1:${gw.port}`);
    const query = (expr: string) => ask('query', { query: expr }) as Promise<QueryAnswer>;
    const scraped = async (count: number): Promise<void> => {
      await eventually(`${count} scrapes`, async () => {
        const { data } = await query('count_over_time(gw_requests_total{decision="allow"}[5m])');
        return Number(data?.result[0]?.value[1]) >= count ? true : undefined;
      });
    };
    await scraped(2);
    for (let call = 0; call < 5; call++) t.equal((await send(chat())).status, 200);
    t.equal((await execute({ workload_id: 'nobody' })).status, 403);
    await scraped(4);

    let withResults = 0;
    const { data: clock } = (await ask('query', { query: 'time()' })) as { data: { result: [number, string] } };
    const [end] = clock.result;
    for (const { where, expr } of shippedExpressions()) {
      const answer = await query(expr);
      t.match(answer, { status: 'success' }, `${where}: ${answer.error ?? ''}`);
      if ((answer.data?.result.length ?? 0) > 0) withResults += 1;
      const range = (await ask('query_range', { query: expr, start: String(end - 5), end: String(end), step: '1' })) as QueryAnswer;
      t.match(range, { status: 'success' }, `${where} over time: ${range.error ?? ''}`);
    }
    t.ok(withResults > 30, `${withResults} have something to show`);
    const requests = await query('sum by (decision) (gw_requests_total)');
    t.same(Object.fromEntries((requests.data?.result ?? []).map(({ metric, value }) => [metric['decision'], value[1]])), {
      allow: '6',
      deny: '1',
    });

    const { data } = (await ask('rules')) as { data: { groups: { rules: { name: string; health: string; lastError?: string }[] }[] } };
    const rules = data.groups.flatMap(({ rules: ofGroup }) => ofGroup);
    t.same(
      rules.map(({ name }) => name),
      alertRules().map(({ alert }) => alert),
    );
    for (const { name, health, lastError } of rules) t.not(health, 'err', `${name}: ${lastError ?? ''}`);
  },
);

t.test(
  'promtool finds nothing wrong with the rules, and each alert fires where its test says',
  { skip: skipWithout(['promtool']) },
  (t) => {
    for (const args of [
      ['check', 'rules', '--lint=all', '--lint-fatal', 'alert-rules.yaml'],
      ['test', 'rules', 'alert-rules.test.yaml'],
      ['check', 'rules', '--lint=all', '--lint-fatal', 'control-plane-alert-rules.yaml'],
      ['test', 'rules', 'control-plane-alert-rules.test.yaml'],
    ]) {
      const { status, stdout, stderr } = spawnSync(requirePeer('promtool'), args, { cwd: MONITORING, encoding: 'utf8' });
      t.equal(status, 0, stdout + stderr);
    }
    const guide = readFileSync(join(packageRoot(), 'docs', 'guides', 'monitoring.md'), 'utf8');
    const blocks = [...guide.matchAll(/^```yaml\n(# prometheus\.yml\n[\s\S]*?)^```$/gm)].map(([, block = '']) => block);
    t.equal(blocks.length, 2);
    const tls = /^```yaml\n( {4}scheme: https\n[\s\S]*?)^```$/m.exec(guide)?.[1] ?? '';
    t.match(tls, 'ca_file');
    const config = join(tempDir(t), 'prometheus.yml');
    writeFileSync(config, `${blocks[0]}${tls}${blocks[1]}`);
    const checked = spawnSync(requirePeer('promtool'), ['check', 'config', '--syntax-only', config], { encoding: 'utf8' });
    t.equal(checked.status, 0, `the examples of the guide: ${checked.stdout}${checked.stderr}`);
    t.end();
  },
);
