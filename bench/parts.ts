import { generateKeyPairSync } from 'node:crypto';
import { join } from 'node:path';
import { systemClock } from '../src/base/lib/clock.ts';
import { uuidv7 } from '../src/base/lib/ids.ts';
import { silentLogger } from '../src/base/lib/log.ts';
import { sha256Hex } from '../src/base/lib/sha256.ts';
import { compilePolicy } from '../src/decide/policy/compile.ts';
import { decide } from '../src/decide/policy/evaluate.ts';
import { countTokens } from '../src/decide/pricing/count-tokens.ts';
import { readAuthority } from '../src/inbound/ca/authority-certificate.ts';
import { issueLeaf, leafProfile, subjectOf } from '../src/inbound/ca/certificate.ts';
import { openCertificateAuthority } from '../src/inbound/ca/certificate-authority.ts';
import { openEmbeddedStore } from '../src/storage/embedded/open-embedded-store.ts';
import { someFacts } from '../test/decide/policy/policy-facts.ts';
import { HELD_OUT, HELD_OUT_CHATS } from '../test/decide/pricing/held-out.ts';
import { bundleOf, CHAT } from './systems.ts';
import { table } from './table.ts';

const FACTS = someFacts({ workload_id: 'default', params: CHAT });

/** Times `count` calls one by one. */
function times(count: number, call: (at: number) => void): { p50: number; p99: number } {
  const took = Array.from({ length: count }, (_, at) => {
    const start = performance.now();
    call(at);
    return (performance.now() - start) * 1000;
  }).sort((a, b) => a - b);
  return { p50: took[Math.floor(count / 2)] ?? 0, p99: took[Math.floor(count * 0.99)] ?? 0 };
}

/** Rules that a request does not match, each with this condition, beside one that allows. */
function conditionsOf(count: number, condition: (at: number) => string): string {
  const rules = Array.from({ length: count }, (_, at) => `    - {id: r.${at}, when: {${condition(at)}}, effect: {decision: deny}}`);
  return `schema: gw.policy_bundle.v1\ninline_rules:\n  transforms: [{id: ok, effect: {decision: allow}}]\n  risk:\n${rules.join('\n')}\n`;
}

/** By how the rules ask: equalities are found by an index, every other condition is tested. */
const POLICIES: readonly (readonly [name: string, rules: number, text: string])[] = [
  ...[10, 100, 1_000, 10_000].map((rules) => ['equality', rules, bundleOf(rules)] as const),
  ['gt on the estimate', 1_000, conditionsOf(1_000, (at) => `field: context.estimates.tokens_in, gt: ${1_000_000 + at}`)],
  ['glob on the path', 1_000, conditionsOf(1_000, (at) => `field: context.action.target_path, glob: "/v1/*/x-${at}"`)],
  ['cidr', 1_000, conditionsOf(1_000, (at) => `field: context.caller_ip, cidr: [192.168.${at % 256}.0/24]`)],
  ['matches on the model', 100, conditionsOf(100, (at) => `field: context.action.params.model, matches: "(mini|nano)-x${at}$"`)],
];

function policyRows(): string[][] {
  return POLICIES.map(([name, rules, text]) => {
    const { policy } = compilePolicy({ bundle: { text, file: 'bundle.yaml' }, tier: 'enterprise' });
    if (!policy) throw new Error(`the benchmark bundle "${name}" does not compile`);
    for (let at = 0; at < 20_000; at += 1) decide(policy, FACTS);
    const { p50, p99 } = times(20_000, () => decide(policy, FACTS));
    return [`policy evaluation, ${rules} rules, ${name}`, p50.toFixed(1), p99.toFixed(1)];
  });
}

const PROMPT_BYTES = 10 * 1024;

/** `value` as often as it takes to make a prompt of 10 KB of JSON. */
function promptOf<T>(values: readonly T[]): T[] {
  const prompt: T[] = [];
  for (let bytes = 0, at = 0; bytes < PROMPT_BYTES; at += 1) {
    const value = values[at % values.length] as T;
    prompt.push(value);
    bytes += Buffer.byteLength(JSON.stringify(value)) + 1;
  }
  return prompt;
}

/**
 * Prompts of the same size that are judged in different ways: whole, by parts of a long text, and as many small values.
 */
function estimateRows(): string[][] {
  const texts = Object.values(HELD_OUT);
  const prompts: readonly (readonly [name: string, prompt: unknown])[] = [
    ['one text', promptOf(texts).join('\n')],
    ['texts in many languages', promptOf(texts).map((content) => ({ role: 'user', content }))],
    ['short turns', promptOf(Object.values(HELD_OUT_CHATS)[0] ?? [])],
  ];
  return prompts.map(([name, prompt]) => {
    for (let at = 0; at < 20_000; at += 1) countTokens([prompt]);
    const { p50, p99 } = times(20_000, () => countTokens([prompt]));
    return [`estimate of a prompt of 10 KB, ${name}`, p50.toFixed(1), p99.toFixed(1)];
  });
}

async function mintRows(dir: string): Promise<string[][]> {
  const ca = await openCertificateAuthority({ dir: join(dir, 'mint'), clock: systemClock, log: silentLogger });
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const validity = { notBefore: systemClock.now(), notAfter: systemClock.now() + 86_400_000 };
  const { name, keyIdentifier } = readAuthority(ca.rootDer);
  const profile = leafProfile(
    { name, keyIdentifier: keyIdentifier ?? Buffer.alloc(20), key: privateKey, validity, permits: () => true },
    subjectOf(publicKey),
  );
  return [
    await awaited('leaf certificate of a new host', (host) => issueLeaf(profile, host, validity)),
    await awaited('the same with its TLS context', (host) => ca.contextFor(host)),
  ];
}

async function awaited(part: string, make: (host: string) => Promise<unknown>): Promise<string[]> {
  const took: number[] = [];
  for (let at = 0; at < 500; at += 1) {
    const start = performance.now();
    await make(`host-${at}.example.com`);
    took.push((performance.now() - start) * 1000);
  }
  took.sort((a, b) => a - b);
  return [part, (took[250] ?? 0).toFixed(0), (took[495] ?? 0).toFixed(0)];
}

/** Record append at c=64, beside its own CPU. */
async function appendRow(dir: string): Promise<string[]> {
  const store = await openEmbeddedStore({ dir: join(dir, 'append'), fsync: 'off', clock: systemClock, log: silentLogger });
  const count = 60_000;
  const commits = Array.from({ length: count }, (_, at) => {
    const record_id = uuidv7(1_700_000_000_000 + at);
    const record_hash = sha256Hex(record_id);
    return {
      record_id,
      record_hash,
      text: `{"filler":"${'a'.repeat(1850)}","record_hash":"${record_hash}","record_id":"${record_id}"}`,
      committed_at: at,
      members: {
        org_id: 'default',
        workload_id: `workload-${at % 50}`,
        decision: 'allow',
        model: 'gpt-4o',
        metering: { cost_usd: '0.00123' },
      },
    };
  });
  const cpu = process.cpuUsage();
  const start = performance.now();
  let next = 0;
  const worker = async () => {
    for (let commit = commits[next++]; commit; commit = commits[next++]) await store.commit(commit, []);
  };
  await Promise.all(Array.from({ length: 64 }, worker));
  const seconds = (performance.now() - start) / 1000;
  const used = process.cpuUsage(cpu);
  await store.close();
  return [`record append, c=64: ${Math.round(count / seconds)}/s, CPU µs per record`, ((used.user + used.system) / count).toFixed(1), ''];
}

/** The parts alone, microseconds. */
export async function measureParts(dir: string): Promise<string> {
  const rows = [...policyRows(), ...estimateRows(), ...(await mintRows(dir)), await appendRow(dir)];
  return `## Parts\n\n${table(['part', 'p50 µs', 'p99 µs'], rows)}`;
}
