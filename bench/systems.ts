import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../src/base/lib/package-root.ts';
import type { Measured } from './processes.ts';
import { startGateway, startServer } from './processes.ts';

/** One way from the client to the upstream. */
export interface System {
  readonly name: string;
  /** The system that this one is compared with; absent for floors. */
  readonly floor?: string;
  readonly process?: Measured;
  /** The load generator's job for a request body, without concurrency and time. */
  job(params: object): object;
}

/** A system with a process of its own. */
export type Door = System & { readonly process: Measured };

export interface Systems {
  readonly list: readonly System[];
  stop(): Promise<void>;
}

export const CHAT = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'm'.repeat(900) }] };
export const STREAM = { ...CHAT, stream: true, stream_options: { include_usage: true } };
const HOST = 'api.openai.com';
const PATH = '/v1/chat/completions';

/** A bundle of `count` rules, one of which allows the call: what an operator's grown policy costs. */
export function bundleOf(count: number): string {
  const rules = Array.from(
    { length: count - 1 },
    (_, at) =>
      `    - {id: deny.${at}, priority: ${at % 100}, when: {all: [{field: workload.workload_id, equals: w-${at}}, {field: context.action.params.model, in: [m-${at}, n-${at}]}]}, effect: {decision: deny, reason: no}}`,
  );
  const allow = `    - {id: allow, when: {field: context.connector.id, equals: openai}, effect: {decision: allow}}`;
  return `schema: gw.policy_bundle.v1\nbundle_id: bench\nversion: "1"\ninline_rules:\n  connectors:\n${allow}\n  targets:\n${rules.join('\n')}\n`;
}

/** What the floors and the gateways are fed from. */
export interface Upstream {
  readonly process: Measured;
  readonly port: number;
  readonly caFile: string;
}

export async function startUpstream(dir: string): Promise<Upstream> {
  const upstream = await startServer<{ port: number; caFile: string }>('upstream.js', [dir]);
  return { process: upstream, ...upstream.ready };
}

/**
 * A gateway with everything on: 1,000 rules, metering, hash, durable record, metrics, log line; and its doors. `root`:
 * of the checkout that it runs from.
 */
export async function startDoors(dir: string, root: string, upstream: Upstream): Promise<readonly Door[]> {
  mkdirSync(join(dir, 'policies'), { recursive: true });
  writeFileSync(join(dir, 'policies', 'bundle.yaml'), bundleOf(1000));
  const gateway = await startGateway(dir, root, {
    GW_POLICIES_DIR: join(dir, 'policies'),
    GW_UPSTREAM_CONNECT_TO: `${HOST}:443=127.0.0.1:${upstream.port}`,
    GW_UPSTREAM_CA_FILE: upstream.caFile,
    // The limiter runs, and never refuses.
    GW_RATELIMIT_REFILL_RATE: '1000000000',
    GW_RATELIMIT_MAX_TOKENS: '1000000000',
  });
  const intercepted = { via: 'connect', port: gateway.port, caFile: join(dir, 'ca', 'root-ca.pem'), path: PATH, host: HOST };
  return [
    {
      name: 'gateway, CONNECT',
      floor: 'bare interceptor',
      process: gateway,
      job: (params) => ({ ...intercepted, body: JSON.stringify(params) }),
    },
    {
      name: 'gateway, redirect',
      floor: 'bare reverse proxy',
      process: gateway,
      job: (params) => ({ ...plain(gateway.port, `/proxy/openai${PATH}`), body: JSON.stringify(params) }),
    },
    {
      name: 'gateway, structured API',
      floor: 'bare reverse proxy',
      process: gateway,
      job: (params) => ({ ...plain(gateway.port, '/v1/actions:execute'), body: envelopeOf(params) }),
    },
  ];
}

/** Starts the upstream, the floors and the gateway. */
export async function startSystems(dir: string): Promise<Systems> {
  const upstream = await startUpstream(dir);
  const { port, caFile } = upstream;
  const reverse = await startServer<{ port: number }>('floor-reverse.js', [String(port), caFile]);
  const interceptor = await startServer<{ port: number; caFile: string }>('floor-interceptor.js', [String(port), caFile, dir]);
  const doors = await startDoors(dir, packageRoot(), upstream);
  const { ready } = interceptor;
  return {
    list: [
      { name: 'direct', job: (params) => ({ via: 'tls', port, caFile, path: PATH, host: HOST, body: JSON.stringify(params) }) },
      {
        name: 'bare reverse proxy',
        process: reverse,
        job: (params) => ({ ...plain(reverse.ready.port, `/proxy/openai${PATH}`), body: JSON.stringify(params) }),
      },
      {
        name: 'bare interceptor',
        process: interceptor,
        job: (params) => ({ via: 'connect', port: ready.port, caFile: ready.caFile, path: PATH, host: HOST, body: JSON.stringify(params) }),
      },
      ...doors,
    ],
    async stop() {
      for (const process of new Set([...doors.map((door) => door.process), interceptor, reverse, upstream.process])) await process.stop();
    },
  };
}

function plain(port: number, path: string): object {
  return { via: 'plain', port, path, host: `127.0.0.1:${port}` };
}

function envelopeOf(params: object): string {
  return JSON.stringify({
    schema: 'gw.action_request.v2',
    org_id: 'default',
    workload_id: 'default',
    credential_hint: 'sk-bench',
    action: { type: 'ai.infer', method: 'POST', target_host: HOST, target_path: PATH, params },
  });
}
