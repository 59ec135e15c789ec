import { Agent, request } from 'node:http';
import { packageRoot } from '../src/base/lib/package-root.ts';
import { median } from './measure.ts';
import { type Measured, startGateway } from './processes.ts';
import { table } from './table.ts';

const WORKLOADS = 50;
const BATCH = 100;
const WARM_UP = 30;
const BATCHES = 100;
const ADMIN_TOKEN = 'bench-admin-token';

interface Asked {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly body?: object;
}

const ASKED: readonly Asked[] = [
  { name: 'GET /mgmt/v1/keys', method: 'GET', path: '/mgmt/v1/keys' },
  { name: `GET /mgmt/v1/workloads, ${WORKLOADS} of them`, method: 'GET', path: `/mgmt/v1/workloads?limit=${WORKLOADS}` },
  { name: 'PUT /mgmt/v1/workloads', method: 'PUT', path: '/mgmt/v1/workloads', body: { workload_id: 'agent-7', name: 'An agent' } },
];

/** What one call of the management API costs a gateway that is alone in its process. @param dir of its own */
export async function measureManagement(dir: string): Promise<string> {
  const gateway = await startGateway(dir, packageRoot(), { GW_ADMIN_TOKEN: ADMIN_TOKEN });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  try {
    const key = await keyOf(gateway.port, agent);
    const ask = ({ method, path, body }: Omit<Asked, 'name'>) =>
      send(gateway.port, agent, { authorization: `Bearer ${key}` }, method, path, body);
    for (let at = 1; at < WORKLOADS; at += 1)
      await ask({ method: 'PUT', path: '/mgmt/v1/workloads', body: { workload_id: `agent-${at}`, name: `Agent ${at}` } });
    const took = new Map<Asked, number[]>(ASKED.map((one) => [one, []]));
    for (let round = 0; round < WARM_UP + BATCHES; round += 1) {
      for (const [asked, list] of took) {
        const each = await cost(gateway, () => ask(asked));
        if (round >= WARM_UP) list.push(each);
      }
    }
    const rows = [...took].map(([{ name }, list]) => [
      name,
      median(list).toFixed(0),
      Math.min(...list).toFixed(0),
      Math.max(...list).toFixed(0),
    ]);
    return table(['call', 'µs of CPU', 'from', 'to'], rows);
  } finally {
    agent.destroy();
    await gateway.stop();
  }
}

/** Microseconds of CPU of one call: the mean of a batch, since the system counts in steps. */
async function cost(gateway: Measured, call: () => Promise<string>): Promise<number> {
  const before = gateway.cpuMicros();
  for (let at = 0; at < BATCH; at += 1) await call();
  return (gateway.cpuMicros() - before) / BATCH;
}

async function keyOf(port: number, agent: Agent): Promise<string> {
  const body = { name: 'bench', kind: 'management', scopes: ['read', 'write'] };
  const made = await send(port, agent, { 'gw-admin-token': ADMIN_TOKEN }, 'POST', '/v1/admin/mgmt-keys', body);
  return (JSON.parse(made) as { key: string }).key;
}

function send(
  port: number,
  agent: Agent,
  headers: Readonly<Record<string, string>>,
  method: string,
  path: string,
  body?: object,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const call = request(
      { port, host: '127.0.0.1', agent, method, path, headers: { ...headers, 'content-type': 'application/json' } },
      (answer) => {
        let text = '';
        answer.setEncoding('utf8');
        answer.on('data', (part: string) => {
          text += part;
        });
        answer.on('end', () => {
          if ((answer.statusCode ?? 500) < 300) resolve(text);
          else reject(new Error(text));
        });
      },
    );
    call.on('error', reject);
    call.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
