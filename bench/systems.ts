import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
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

/** Starts the upstream, the floors and the gateway with everything on: 1,000 rules, metering, hash, durable record, metrics, log line. */
export async function startSystems(dir: string): Promise<Systems> {
  const upstream = await startServer<{ port: number; caFile: string }>('upstream.js', [dir]);
  const { port, caFile } = upstream.ready;
  const reverse = await startServer<{ port: number }>('floor-reverse.js', [String(port), caFile]);
  const interceptor = await startServer<{ port: number; caFile: string }>('floor-interceptor.js', [String(port), caFile, dir]);
  mkdirSync(join(dir, 'policies'));
  writeFileSync(join(dir, 'policies', 'bundle.yaml'), bundleOf(1000));
  const gateway = await startGateway(dir, {
    GW_POLICIES_DIR: join(dir, 'policies'),
    GW_UPSTREAM_CONNECT_TO: `${HOST}:443=127.0.0.1:${port}`,
    GW_UPSTREAM_CA_FILE: caFile,
    // The limiter runs, and never refuses.
    GW_RATELIMIT_REFILL_RATE: '1000000000',
    GW_RATELIMIT_MAX_TOKENS: '1000000000',
  });
  const envelope = (params: object) =>
    JSON.stringify({
      schema: 'gw.action_request.v2',
      org_id: 'default',
      workload_id: 'default',
      credential_hint: 'sk-bench',
      action: { type: 'ai.infer', method: 'POST', target_host: HOST, target_path: PATH, params },
    });
  const plain = (target: number, path: string) => ({ via: 'plain', port: target, path, host: `127.0.0.1:${target}` });
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
        job: (params) => ({
          via: 'connect',
          port: interceptor.ready.port,
          caFile: interceptor.ready.caFile,
          path: PATH,
          host: HOST,
          body: JSON.stringify(params),
        }),
      },
      {
        name: 'gateway, CONNECT',
        floor: 'bare interceptor',
        process: gateway,
        job: (params) => ({
          via: 'connect',
          port: gateway.port,
          caFile: join(dir, 'ca', 'root-ca.pem'),
          path: PATH,
          host: HOST,
          body: JSON.stringify(params),
        }),
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
        job: (params) => ({ ...plain(gateway.port, '/v1/actions:execute'), body: envelope(params) }),
      },
    ],
    async stop() {
      for (const system of [gateway, interceptor, reverse, upstream]) await system.stop();
    },
  };
}
