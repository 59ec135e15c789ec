import { isJsonObject } from '../../base/json/json-object.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { ask, type DemoAnswer } from '../demo/demo-requests.ts';
import { DEMO_ORG, type FleetGateway, type FleetPlace } from './fleet-place.ts';
import { bundleText, FLEET_MODEL } from './fleet-policy.ts';

const TRY_AGAIN_MS = 200;
/** Nothing of the demo takes longer, but on a machine that is busy. */
const LIMIT_MS = 60_000;

/** Ids of the records of calls that were allowed last, by the name of the gateway. */
export type LastRecords = Map<string, string>;

/** One thing that the demo shows. */
export interface FleetStep {
  readonly title: string;
  /** Done as often as it takes. @returns what there is to see, or undefined while it is not so yet */
  readonly run: (gateway: FleetGateway, records: LastRecords) => Promise<string | undefined>;
  /** What is done once, before it is looked at on each gateway. */
  readonly first?: (place: FleetPlace) => Promise<unknown>;
}

/** A call of a gateway, by the base URL of an SDK. */
export function callGateway({ url, headers }: FleetGateway): Promise<DemoAnswer> {
  return ask({
    url: `${url}/proxy/openai/v1/chat/completions`,
    headers,
    body: { model: FLEET_MODEL, messages: [{ role: 'user', content: 'Say hello.' }] },
  });
}

export const FLEET_STEPS: readonly FleetStep[] = [
  {
    title: 'connected to the control plane',
    run: isConnected,
  },
  {
    title: 'a call, by the policy and with the credential of the control plane',
    run: isAllowed,
  },
  {
    title: 'its record is in the ledger, under a signed root',
    run: isProven,
  },
  {
    title: 'another bundle is put, which says no',
    first: ({ ask: askPlane }) => askPlane('bundle.put', { org: DEMO_ORG, bundle_yaml: bundleText('2', [FLEET_MODEL]) }),
    run: (gateway) => refusalOf(gateway, 'model_not_approved'),
  },
  {
    title: 'the first bundle again',
    first: ({ ask: askPlane }) => askPlane('bundle.put', { org: DEMO_ORG, bundle_yaml: bundleText('3', []) }),
    run: isAllowed,
  },
  {
    title: 'the org is suspended',
    first: ({ ask: askPlane }) => askPlane('org.put', { org: DEMO_ORG, status: 'suspended', suspended_reason: 'shown by the demo' }),
    run: (gateway) => refusalOf(gateway, 'org_suspended'),
  },
  {
    title: 'and active again',
    first: ({ ask: askPlane }) => askPlane('org.put', { org: DEMO_ORG, status: 'active', suspended_reason: null }),
    run: isAllowed,
  },
];

interface Taking {
  readonly place: FleetPlace;
  readonly clock: Clock;
  readonly records: LastRecords;
  /** Told what there is to see. */
  readonly seen: (gateway: FleetGateway, text: string) => void;
}

/** Does one step on every gateway. @throws Error when it does not come to it */
export async function takeStep(step: FleetStep, { place, clock, records, seen }: Taking): Promise<void> {
  await step.first?.(place);
  for (const gateway of place.gateways) {
    const until = clock.monotonic() + LIMIT_MS;
    for (;;) {
      const text = await step.run(gateway, records);
      if (text !== undefined) {
        seen(gateway, text);
        break;
      }
      if (clock.monotonic() > until) throw new Error(`${gateway.name}: ${step.title}: it has not come to that in ${LIMIT_MS / 1000} s`);
      await new Promise<void>((resolve) => void clock.after(TRY_AGAIN_MS, resolve));
    }
  }
}

async function isConnected({ url }: FleetGateway): Promise<string | undefined> {
  const { cp_status: status } = await jsonAt(`${url}/healthz`);
  return status === 'connected' ? 'cp_status: connected' : undefined;
}

async function isAllowed(gateway: FleetGateway, records: LastRecords): Promise<string | undefined> {
  const { status, headers } = await callGateway(gateway);
  if (status !== 200) return undefined;
  records.set(gateway.name, String(headers['x-gw-record-id']));
  return 'allowed';
}

async function isProven(gateway: FleetGateway, records: LastRecords): Promise<string | undefined> {
  const proof = await proofOf(gateway, records.get(gateway.name) ?? '');
  return proof === undefined ? undefined : `verified: leaf ${String(proof['leaf_index'])} of batch ${String(proof['batch_id'])}`;
}

async function refusalOf(gateway: FleetGateway, code: string): Promise<string | undefined> {
  const { status, text } = await callGateway(gateway);
  return status === 403 && text.includes(code) ? `refused: ${code}` : undefined;
}

async function proofOf({ url, adminToken }: FleetGateway, recordId: string): Promise<Readonly<Record<string, unknown>> | undefined> {
  const headers = { 'GW-Admin-Token': adminToken };
  const { record_hash: hash } = await jsonAt(`${url}/v1/records/${recordId}`, headers);
  if (typeof hash !== 'string') return undefined;
  const { status, inclusion_proof: proof } = await jsonAt(`${url}/v1/verify/${hash}`, headers);
  return status === 'verified' && isJsonObject(proof) ? proof : undefined;
}

async function jsonAt(url: string, headers: Readonly<Record<string, string>> = {}): Promise<Readonly<Record<string, unknown>>> {
  const { text } = await ask({ url, headers });
  const value: unknown = JSON.parse(text);
  return isJsonObject(value) ? value : {};
}
