// Which way the database takes to a page among many records: by an index, in order, and past few rows.
import t from 'tap';
import type { RecordQuery } from '../../../src/storage/contract/record-query.ts';
import { RecordPlaces } from '../../../src/storage/postgres/record-places.ts';
import { recordStatement } from '../../../src/storage/postgres/record-reads.ts';
import { makeRecord } from '../../contract/store-under-test.ts';
import { skipWithout } from '../../support/peers.ts';
import { PgRig } from './pg-rig.ts';
import { PostgresServer } from './server.ts';

const skip = skipWithout(['postgresql']);
const RECORDS = 200_000;
/** A page of 8 KiB is a block; a page of fifty records is in about as many, and an index has a few more. */
const MAX_BLOCKS = 300;

/** Rows as the driver writes them, over two months; org 7 and project 777 have few records. */
const FILL = `
DELETE FROM gw_records;
DELETE FROM gw_hours;
INSERT INTO gw_records (place, committed_at, record_id, record_hash, text, org_id, workload_id, decision, model, cost_pico, facets)
SELECT n * 1024, '2026-10-15 00:00:00+00'::timestamptz + n * interval '15 seconds', 'filled-' || lpad(n::text, 12, '0'),
  decode(md5(n::text) || md5((n + 1)::text), 'hex'), '{"n":' || n || '}',
  org, 'workload-' || n % 40, decision, 'gpt-4o', n % 1000 * 1000000,
  ARRAY['org_id=' || org, 'workload_id=workload-' || n % 40, 'decision=' || decision, 'project_id=' || project,
        'provider=' || (ARRAY['openai', 'anthropic', 'google'])[n % 3 + 1], 'reason_code=' || decision || '_by_rule',
        'label="team"', 'label="team":"t' || n % 9 || '"']
FROM (
  SELECT n, 'org-' || CASE WHEN n % 10000 = 7 THEN 7 ELSE n % 5 END AS org, CASE WHEN n % 50 = 0 THEN 'deny' ELSE 'allow' END AS decision,
    CASE WHEN n % 20000 = 5 THEN '777' ELSE (n % 30)::text END AS project
  FROM generate_series(1, ${RECORDS}) AS n
) AS given;
INSERT INTO gw_hours SELECT floor(extract(epoch FROM committed_at) / 3600)::bigint, min(place), max(place) FROM gw_records
GROUP BY 1;
UPDATE gw_state SET change = ${RECORDS + 1}, last_record_id = 'filled-999999999999';
SELECT 1 AS n`;

interface Plan {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly 'Actual Rows': number;
  readonly Plans?: readonly Plan[];
}

function* nodes(plan: Plan): Generator<Plan> {
  yield plan;
  for (const inner of plan.Plans ?? []) yield* nodes(inner);
}

await t.test('a page of fifty among many records', { skip }, async (t) => {
  const server = await PostgresServer.start(t);
  const database = await server.database();
  const { store } = await new PgRig(t, database).open();
  for (const month of [9, 10, 11]) await store.commit(makeRecord(month, { committed_at: Date.UTC(2026, month, 1) }), []);
  await server.sql(FILL, database.name);
  await server.sql('VACUUM ANALYZE', database.name);
  const places = new RecordPlaces('key');
  const behind = places.positionOf(`${150_000 * 1_024}`);
  const queries: Readonly<Record<string, Omit<RecordQuery, 'limit'>>> = {
    'the newest': {},
    'behind a position': { after: behind },
    'of an org': { org_id: 'org-1' },
    'of an org with few': { org_id: 'org-7' },
    'of a workload': { org_id: 'org-1', workload_id: 'workload-11' },
    'of a decision': { org_id: 'org-0', decision: 'deny', after: behind },
    'of a provider': { org_id: 'org-1', provider: 'openai' },
    'of a project with few': { org_id: 'org-0', project_id: '777' },
    'of a project with none': { org_id: 'org-1', project_id: 'none' },
    'of projects': { org_id: 'org-1', project_id: ['777', 'none'] },
    'with a reason': { org_id: 'org-0', reason_code: 'deny_by_rule' },
    'with a label': { org_id: 'org-1', label: { key: 'team', value: 't3' } },
    'with a label that none has': { org_id: 'org-1', label: { key: 'crew' } },
    'of a workload in all orgs': { workload_id: 'workload-12' },
    'since a time': { since: Date.UTC(2026, 10, 17) },
    'until a time': { until: Date.UTC(2026, 9, 20) },
    'at a time': { org_id: 'org-1', since: Date.UTC(2026, 10, 2), until: Date.UTC(2026, 10, 2, 1) },
    'by id': { record_id: 'filled-000000123456' },
  };
  for (const [name, query] of Object.entries(queries)) {
    for (const newestFirst of [true, false]) {
      const statement = recordStatement({ ...query, limit: 50, newestFirst }, places);
      const bound = (statement?.values ?? []).map((value) => `'${value.replaceAll("'", "''")}'`);
      const text = (statement?.text ?? '').replace(/\$(\d+)/g, (_, n: string) => bound[Number(n) - 1] ?? '');
      const [row] = await server.sql(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, database.name);
      const [{ Plan: plan }] = (row as { 'QUERY PLAN': [{ Plan: Plan }] })['QUERY PLAN'];
      const blocks = plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
      t.ok(blocks < MAX_BLOCKS, `${name}, newest first ${newestFirst}: ${blocks} blocks`);
      const whole = [...nodes(plan)].filter(
        (node) => node['Node Type'] === 'Seq Scan' && node['Relation Name'] !== 'gw_hours' && node['Actual Rows'] > 100,
      );
      t.strictSame(whole, [], 'nothing is read from end to end');
    }
  }
});
