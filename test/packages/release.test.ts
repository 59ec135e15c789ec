// A release, made in a clone that is thrown away.
import { createHash } from 'node:crypto';
import { appendFileSync, cpSync, existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import t, { type Test } from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { type Ended, run } from '../support/child.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { tempDir } from '../support/temp-dir.ts';
import { projectFile, Tree } from './manifests.ts';
import { npmEnvironment } from './npm-place.ts';

const VERSION = '99.0.0';
const GIT_ENV = {
  GIT_AUTHOR_NAME: 'Release test',
  GIT_AUTHOR_EMAIL: 'release@example.invalid',
  GIT_COMMITTER_NAME: 'Release test',
  GIT_COMMITTER_EMAIL: 'release@example.invalid',
  GIT_CONFIG_GLOBAL: '/dev/null',
};

/** A clone that needs no set-up: the modules and the build are those of this project. */
async function cloned(t: Test): Promise<string> {
  const clone = join(tempDir(t), 'clone');
  const { code, stderr } = await run(t, requirePeer('git'), ['clone', '--quiet', packageRoot(), clone], { env: GIT_ENV });
  if (code !== 0) throw new Error(stderr);
  symlinkSync(join(packageRoot(), 'node_modules'), join(clone, 'node_modules'));
  appendFileSync(join(clone, '.git', 'info', 'exclude'), 'node_modules\n');
  cpSync(join(packageRoot(), 'build'), join(clone, 'build'), { recursive: true, filter: (path) => !path.endsWith('.without-peers') });
  // Right behind a release nothing stands there.
  const changelog = join(clone, 'CHANGELOG.md');
  writeFileSync(changelog, readFileSync(changelog, 'utf8').replace('## Unreleased\n\n', '## Unreleased\n\n* A change of the test.\n\n'));
  await git(t, clone, 'commit', '--quiet', '--all', '--message', 'Change something');
  return clone;
}

function release(t: Test, clone: string, args: readonly string[]): Promise<Ended> {
  const env = { ...npmEnvironment(), ...GIT_ENV };
  return run(t, process.execPath, [join(clone, 'scripts/release.mjs'), ...args], { cwd: clone, env });
}

async function git(t: Test, clone: string, ...args: readonly string[]): Promise<string> {
  return (await run(t, requirePeer('git'), args, { cwd: clone, env: GIT_ENV })).stdout.trim();
}

/** What `npm ci --omit=dev` installs, by the lock file: `name@version`. */
function production(): readonly string[] {
  const { packages } = JSON.parse(projectFile('package-lock.json')) as {
    packages: Record<string, { version: string; dev?: boolean; devOptional?: boolean }>;
  };
  const all = Object.entries(packages)
    .filter(([path, entry]) => path !== '' && entry.dev !== true && entry.devOptional !== true)
    .map(([path, { version }]) => `${path.slice(path.lastIndexOf('node_modules/') + 13)}@${version}`);
  return [...new Set(all)].sort();
}

function schemaOf(name: string): object {
  return JSON.parse(projectFile(`node_modules/@cyclonedx/cyclonedx-library/res/schema/${name}`)) as object;
}

t.test('a release', { skip: skipWithout(['git', 'npm']) }, async (t) => {
  const clone = await cloned(t);

  await t.test('is refused where it would not be what people think', async (t) => {
    for (const [args, said] of [
      [['0.0.1'], /does not come after/],
      [['next'], /three numbers/],
      [[VERSION, '--force'], /usage/],
    ] as const) {
      t.match(await release(t, clone, args), { code: 1, stderr: said });
    }
    appendFileSync(join(clone, 'NOTICE'), 'x');
    t.match(await release(t, clone, [VERSION]), { code: 1, stderr: /not committed:\n.*NOTICE/ });
    await git(t, clone, 'checkout', '--', 'NOTICE');
  });

  await t.test('can be tried without doing it', async (t) => {
    t.match(await release(t, clone, [VERSION, '--dry-run']), { code: 0, stdout: new RegExp(`would release ${VERSION}`) });
    t.equal(await git(t, clone, 'status', '--porcelain'), '');
    t.notOk(existsSync(join(clone, 'dist')));
  });

  await t.test('moves the changes, sets the version, commits and tags', async (t) => {
    const unreleased = /## Unreleased\n\n(\* .*)\n/.exec(readFileSync(join(clone, 'CHANGELOG.md'), 'utf8'))?.[1] ?? '';
    const { code, stderr } = await release(t, clone, [VERSION]);
    t.equal(code, 0, stderr);
    const changes = readFileSync(join(clone, 'CHANGELOG.md'), 'utf8');
    t.match(changes, new RegExp(`## Unreleased\\n\\n## ${VERSION}, \\d{4}-\\d\\d-\\d\\d\\n\\n\\* `));
    t.ok(changes.indexOf(unreleased) > changes.indexOf(`## ${VERSION}`));
    const manifest = JSON.parse(readFileSync(join(clone, 'package.json'), 'utf8')) as { version: string };
    t.equal(manifest.version, VERSION);
    t.equal(await git(t, clone, 'describe', '--exact-match'), `v${VERSION}`);
    t.equal(await git(t, clone, 'status', '--porcelain'), '');
    t.equal(
      await git(t, clone, 'show', '--name-only', '--format=%s'),
      `Release ${VERSION}\n\nCHANGELOG.md\npackage-lock.json\npackage.json`,
    );
    t.match(await release(t, clone, [VERSION]), { code: 1, stderr: /does not come after/ });
  });

  const base = `ai-request-gateway-${VERSION}`;
  const dist = (name: string) => join(clone, 'dist', name);

  await t.test('gives out a package, two bills of materials and their sums', async (t) => {
    t.strictSame(
      readdirSync(join(clone, 'dist')).sort(),
      ['SHA256SUMS', `${base}.cyclonedx.json`, `${base}.spdx.json`, `${base}.tgz`].sort(),
    );
    const sums = readFileSync(dist('SHA256SUMS'), 'utf8').trimEnd().split('\n');
    t.equal(sums.length, 3);
    for (const line of sums) {
      const [sum, name = ''] = line.split('  ');
      t.equal(
        createHash('sha256')
          .update(readFileSync(dist(name)))
          .digest('hex'),
        sum,
        name,
      );
    }
  });

  await t.test('its CycloneDX keeps to the schema and has every production dependency', async (t) => {
    const bom: unknown = JSON.parse(readFileSync(dist(`${base}.cyclonedx.json`), 'utf8'));
    const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true });
    for (const name of ['spdx.SNAPSHOT.schema.json', 'jsf-0.82.SNAPSHOT.schema.json']) {
      ajv.addSchema(schemaOf(name), `http://cyclonedx.org/schema/${name}`);
    }
    const tree = new Tree(bom, 'bom');
    const validate = ajv.compile(schemaOf(`bom-${tree.get('specVersion').text}.SNAPSHOT.schema.json`));
    t.ok(validate(bom), JSON.stringify(validate.errors));
    t.match(tree.get('metadata', 'component').value, { name: 'ai-request-gateway', version: VERSION, type: 'application' });
    const components = tree.get('components').list;
    t.strictSame(components.map((one) => `${one.get('name').text}@${one.get('version').text}`).sort(), production());
    for (const one of components) {
      t.ok(one.get('licenses').list.length > 0, one.get('name').text);
      t.match(one.get('purl').text, /^pkg:npm\//);
      t.equal(one.get('hashes').list[0]?.get('alg').text, 'SHA-512');
    }
  });

  await t.test('its SPDX has them too', async (t) => {
    const tree = new Tree(JSON.parse(readFileSync(dist(`${base}.spdx.json`), 'utf8')), 'spdx');
    t.equal(tree.get('spdxVersion').text, 'SPDX-2.3');
    const packages = tree.get('packages').list.map((one) => `${one.get('name').text}@${one.get('versionInfo').text}`);
    t.strictSame(packages.sort(), [...production(), `ai-request-gateway@${VERSION}`].sort());
    for (const one of tree.get('packages').list) t.not(one.get('licenseDeclared').value, 'NOASSERTION', one.get('name').text);
  });
});
