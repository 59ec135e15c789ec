// No cluster is here: the manifests are held against the published types and schemas of their kinds, and against what
// they say of each other.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ServiceMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor';
import { Deployment } from 'kubernetes-models/apps/v1/Deployment';
import { NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget';
import { ConfigMap } from 'kubernetes-models/v1/ConfigMap';
import { Namespace } from 'kubernetes-models/v1/Namespace';
import { PersistentVolumeClaim } from 'kubernetes-models/v1/PersistentVolumeClaim';
import { Secret } from 'kubernetes-models/v1/Secret';
import { Service } from 'kubernetes-models/v1/Service';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { run } from '../support/child.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { tempDir } from '../support/temp-dir.ts';
import { isSetting, projectYaml, Tree } from './manifests.ts';

const FOLDER = 'deploy/kubernetes';
const MODULES = 'kubernetes-models';

/** Where the published type of each kind stands, and its schema. */
const KINDS: Readonly<Record<string, { readonly module: string; validate(value: object): void }>> = {
  Namespace: { module: `${MODULES}/v1/Namespace`, validate: (value) => new Namespace(value).validate() },
  ConfigMap: { module: `${MODULES}/v1/ConfigMap`, validate: (value) => new ConfigMap(value).validate() },
  Secret: { module: `${MODULES}/v1/Secret`, validate: (value) => new Secret(value).validate() },
  Service: { module: `${MODULES}/v1/Service`, validate: (value) => new Service(value).validate() },
  PersistentVolumeClaim: {
    module: `${MODULES}/v1/PersistentVolumeClaim`,
    validate: (value) => new PersistentVolumeClaim(value).validate(),
  },
  Deployment: { module: `${MODULES}/apps/v1/Deployment`, validate: (value) => new Deployment(value).validate() },
  PodDisruptionBudget: {
    module: `${MODULES}/policy/v1/PodDisruptionBudget`,
    validate: (value) => new PodDisruptionBudget(value).validate(),
  },
  NetworkPolicy: {
    module: `${MODULES}/networking.k8s.io/v1/NetworkPolicy`,
    validate: (value) => new NetworkPolicy(value).validate(),
  },
  ServiceMonitor: {
    module: '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor',
    validate: (value) => new ServiceMonitor(value as never).validate(),
  },
};

const files = readdirSync(join(packageRoot(), FOLDER)).sort();
const manifests = files.filter((file) => file !== 'kustomization.yaml').map((file) => projectYaml(`${FOLDER}/${file}`));

function manifest(kind: string): Tree {
  const found = manifests.find((one) => one.get('kind').text === kind);
  if (found === undefined) throw new Error(`no ${kind}`);
  return found;
}

const pod = manifest('Deployment').get('spec', 'template', 'spec');
const [container = pod] = pod.get('containers').list;

/**
 * Writes the values as literals of their published types, which have no members but those, and has the compiler judge.
 */
async function typeErrors(t: Parameters<typeof run>[0], values: readonly Tree[]): Promise<string> {
  const folder = tempDir(t);
  symlinkSync(join(packageRoot(), 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'package.json'), '{"type": "module"}');
  const lines = values.map((value, index) => {
    const kind = value.get('kind').text;
    const module = KINDS[kind]?.module ?? '';
    return `import type { I${kind} as T${index} } from '${module}';\nexport const v${index}: T${index} = ${JSON.stringify(value.value)};\n`;
  });
  writeFileSync(join(folder, 'manifests.ts'), lines.join(''));
  const compiler = join(packageRoot(), 'node_modules', 'typescript', 'bin', 'tsc');
  const options = ['--noEmit', '--strict', '--skipLibCheck', '--target', 'es2022'];
  const { code, stdout } = await run(t, process.execPath, [compiler, ...options, '--module', 'nodenext', 'manifests.ts'], { cwd: folder });
  return code === 0 ? '' : stdout;
}

t.test('every manifest is sound by the schema of its kind', async (t) => {
  t.strictSame(
    manifests.map((one) => one.get('kind').text).filter((kind) => !(kind in KINDS)),
    [],
  );
  for (const one of manifests) {
    const kind = KINDS[one.get('kind').text];
    t.doesNotThrow(() => kind?.validate(one.value as object), one.get('kind').text);
  }
});

t.test('no manifest has a member that its kind does not know', async (t) => {
  t.equal(await typeErrors(t, manifests), '');
});

t.test('a misspelt member would be seen', async (t) => {
  const deployment = structuredClone(manifest('Deployment').value) as { spec: { template: { spec: Record<string, unknown> } } };
  deployment.spec.template.spec['terminationGracePeriod'] = 60;
  t.match(await typeErrors(t, [new Tree(deployment, 'misspelt')]), /terminationGracePeriod/);
});

t.test('the kustomization names every manifest but the example of a secret and what needs an operator', async (t) => {
  const named = projectYaml(`${FOLDER}/kustomization.yaml`)
    .get('resources')
    .list.map((one) => one.text);
  const apart = ['kustomization.yaml', 'secret.example.yaml', 'service-monitor.yaml'];
  t.strictSame(
    [...named].sort(),
    files.filter((file) => !apart.includes(file)),
  );
});

t.test('kubectl builds the kustomization', { skip: skipWithout(['kubectl']) }, async (t) => {
  // A copy: it writes nothing, but a home of its own keeps it from reading anybody's clusters.
  const home = tempDir(t);
  mkdirSync(join(home, '.kube'));
  const { status, stdout, stderr } = spawnSync(requirePeer('kubectl'), ['kustomize', join(packageRoot(), FOLDER)], {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], HOME: home, KUBECONFIG: join(home, '.kube', 'config') },
  });
  t.equal(status, 0, stderr);
  t.match(stdout, /image: registry\.example\/ai-request-gateway:replace-me/);
  t.equal(stdout.match(/^kind: /gm)?.length, 7);
  t.equal(stdout.match(/^ {2}namespace: ai-request-gateway$/gm)?.length, 6);
});

t.test('every selector picks the pod', async (t) => {
  const labels = manifest('Deployment').get('spec', 'template', 'metadata', 'labels').value;
  const selectors = [
    manifest('Deployment').get('spec', 'selector', 'matchLabels'),
    manifest('Service').get('spec', 'selector'),
    manifest('PodDisruptionBudget').get('spec', 'selector', 'matchLabels'),
    manifest('NetworkPolicy').get('spec', 'podSelector', 'matchLabels'),
  ];
  for (const selector of selectors) t.strictSame(selector.value, labels);
  t.strictSame(
    manifest('ServiceMonitor').get('spec', 'selector', 'matchLabels').value,
    manifest('Service').get('metadata', 'labels').value,
  );
});

t.test('every port that is named is one of the container, or of the service', async (t) => {
  const ofPod = container.get('ports').list.map((port) => port.get('name').text);
  const ofService = manifest('Service').get('spec', 'ports').list;
  const policy = manifest('NetworkPolicy')
    .get('spec', 'ingress')
    .list.flatMap((rule) => rule.get('ports').list)
    .map((port) => port.get('port').text);
  const probes = ['startupProbe', 'livenessProbe', 'readinessProbe'].map((probe) => container.get(probe, 'httpGet', 'port').text);
  for (const name of [...ofService.map((port) => port.get('targetPort').text), ...policy, ...probes]) t.ok(ofPod.includes(name), name);
  const named = ofService.map((port) => port.get('name').text);
  for (const endpoint of manifest('ServiceMonitor').get('spec', 'endpoints').list) t.ok(named.includes(endpoint.get('port').text));
});

t.test('what is mounted is there: volumes, the claim, the secret and its keys', async (t) => {
  const volumes = pod.get('volumes').list;
  t.strictSame(
    container
      .get('volumeMounts')
      .list.map((mount) => mount.get('name').text)
      .sort(),
    volumes.map((volume) => volume.get('name').text).sort(),
  );
  const byName = (name: string): Tree | undefined => volumes.find((volume) => volume.get('name').text === name);
  const claim = manifest('PersistentVolumeClaim').get('metadata', 'name').text;
  t.equal(byName('data')?.get('persistentVolumeClaim', 'claimName').text, claim);
  const secret = manifest('Secret');
  t.equal(byName('secrets')?.get('secret', 'secretName').text, secret.get('metadata', 'name').text);
  const mounted = secret.get('stringData').names.map((key) => `/run/secrets/ai-request-gateway/${key}`);
  const settings = manifest('ConfigMap').get('data');
  const read = settings.names.filter((name) => name.endsWith('_FILE')).map((name) => settings.get(name).text);
  t.strictSame([...read].sort(), [...mounted].sort());
  const monitor = manifest('ServiceMonitor').get('spec', 'endpoints').list[0]?.get('authorization', 'credentials');
  t.ok(secret.get('stringData').names.includes(monitor?.get('key').text ?? ''));
});

t.test('every variable is a setting, and none holds a secret', async (t) => {
  const names = manifest('ConfigMap').get('data').names;
  t.strictSame(
    names.filter((name) => !isSetting(name)),
    [],
  );
  t.equal(container.get('env').value, undefined);
  t.equal(manifest('ConfigMap').get('data', 'GW_PROXY_AUTH').text, 'required');
});

t.test('one gateway at a time writes to the store, and may end its streams', async (t) => {
  t.equal(manifest('Deployment').get('spec', 'replicas').number, 1);
  t.equal(manifest('Deployment').get('spec', 'strategy', 'type').text, 'Recreate');
  const drain = /^(\d+)s$/.exec(manifest('ConfigMap').get('data', 'GW_DRAIN_TIMEOUT').text)?.[1];
  t.ok(pod.get('terminationGracePeriodSeconds').number > Number(drain));
  t.equal(container.get('livenessProbe', 'httpGet', 'path').text, '/healthz');
  t.equal(container.get('readinessProbe', 'httpGet', 'path').text, '/readyz');
});

t.test('the pod keeps to the restricted profile, with a root that nobody writes', async (t) => {
  t.strictSame(container.get('securityContext').value, {
    allowPrivilegeEscalation: false,
    privileged: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  });
  t.match(pod.get('securityContext').value, { runAsNonRoot: true, runAsUser: 10001, seccompProfile: { type: 'RuntimeDefault' } });
  t.equal(pod.get('automountServiceAccountToken').value, false);
  for (const name of ['hostNetwork', 'hostPID', 'hostIPC']) t.equal(pod.get(name).value, undefined);
  for (const volume of pod.get('volumes').list) t.equal(volume.get('hostPath').value, undefined);
  t.match(manifest('Namespace').get('metadata', 'labels').value, { 'pod-security.kubernetes.io/enforce': 'restricted' });
  t.ok(container.get('resources', 'limits', 'memory').text);
});
