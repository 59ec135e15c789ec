import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { CONTROL_PLANE_SETTINGS } from '../../../src/base/config/control-plane-settings.ts';
import { loadControlPlaneSettings } from '../../../src/base/config/load-control-plane-settings.ts';
import { ConfigError } from '../../../src/base/config/settings-reader.ts';
import { tempDir } from '../../support/temp-dir.ts';

function refusal(env: Record<string, string>): ConfigError {
  try {
    loadControlPlaneSettings(env, false);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

t.test('without any variable everything has its default', async (t) => {
  const { config, warnings } = loadControlPlaneSettings({}, false);
  t.match(config, {
    host: '127.0.0.1',
    grpcPort: 7443,
    httpPort: 7444,
    dataDir: resolve('control-plane-data'),
    names: ['localhost', '127.0.0.1'],
    drainTimeout: 10_000,
    logFormat: 'json',
  });
  t.same([config.adminToken, config.secretsKey, config.metricsToken], [undefined, undefined, undefined]);
  t.same(warnings, []);
});

t.test('a member is called as its variable', async (t) => {
  for (const [member, { variable }] of Object.entries(CONTROL_PLANE_SETTINGS))
    t.equal(variable, `CP_${member.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`);
});

t.test('all mistakes are told at once, with what a misspelt name may mean', async (t) => {
  const { problems, warnings } = refusal({
    CP_GRPC_PORT: '70000',
    CP_NAMES: ' , ',
    CP_SECRETS_KEY: 'short',
    CP_LOG_LEVEL: 'loud',
    CP_DATADIR: '/x',
  });
  t.same(problems.map(({ variable }) => variable).sort(), ['CP_GRPC_PORT', 'CP_LOG_LEVEL', 'CP_NAMES', 'CP_SECRETS_KEY']);
  t.notMatch(problems.map(({ message }) => message).join(), 'short');
  t.same(warnings, ['"CP_DATADIR" is not a setting and has no effect; did you mean CP_DATA_DIR?']);
  t.match(refusal({ CP_GRPC_PORT: '9000', CP_HTTP_PORT: '9000' }).message, 'CP_HTTP_PORT: "9000" is CP_GRPC_PORT too');
});

t.test('a secret may stand in a file', async (t) => {
  const file = join(tempDir(t), 'token');
  writeFileSync(file, 'token-of-a-file-0123\n');
  const { config, warnings } = loadControlPlaneSettings({ CP_ADMIN_TOKEN_FILE: file }, false);
  t.equal(config.adminToken, 'token-of-a-file-0123');
  t.same(warnings, []);
  t.match(refusal({ CP_ADMIN_TOKEN_FILE: file, CP_ADMIN_TOKEN: 'another' }).message, 'only one of them');
});

t.test('what is allowed and unwise is a warning', async (t) => {
  const { warnings } = loadControlPlaneSettings({ CP_HOST: '0.0.0.0', CP_ADMIN_TOKEN: 'short' }, false);
  t.match(warnings, [
    /^CP_ADMIN_TOKEN has fewer than 16/,
    /^CP_HOST: other machines can reach 0\.0\.0\.0/,
    /^CP_NAMES has only names of this machine/,
  ]);
  t.equal(loadControlPlaneSettings({ CP_HOST: '0.0.0.0', CP_NAMES: 'plane.example.com' }, false).warnings.length, 1);
});
