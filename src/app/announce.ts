import { join, relative } from 'node:path';
import type { Config } from '../base/config/config.ts';
import { packageRoot } from '../base/lib/package-root.ts';
import { CONSOLE_PATH } from '../operations/console-operations.ts';
import type { Gateway } from './gateway.ts';

/**
 * What a person needs to see after the start: where everything is, and the first things to try. Never a secret.
 * @param where commands work as they are printed
 */
export function announcement(gateway: Gateway, config: Config, where: string): string {
  const proxy = gateway.originOf(gateway.host, gateway.port);
  const management = gateway.originOf(config.host, gateway.managementPort ?? gateway.port);
  // What curl trusts as a proxy it is told apart from what it trusts behind it.
  const proxyTrust = config.tlsCertFile === undefined ? '' : ` --proxy-cacert ${config.tlsCertFile}`;
  const lines = [
    'AI Request Gateway is running.',
    '',
    `  proxy        ${proxy}`,
    `  ambient      ${gateway.originOf(gateway.ambientHost, gateway.ambientPort)}`,
    `  API          ${proxy}/v1/actions:execute`,
    `  management   ${management}/mgmt/v1, ${management}/mcp`,
    `  console      ${config.consoleEnabled ? `${management}${CONSOLE_PATH} (sign in with the admin token or a management key)` : 'off (GW_CONSOLE_ENABLED=false)'}`,
    `  health       ${proxy}/healthz`,
    `  ca           ${gateway.caFile ?? 'interception is off'}`,
    `  admin token  ${gateway.adminToken.file ?? 'as configured'}`,
    `  policy       ${gateway.bundle.bundle_id} ${gateway.bundle.version} (${config.cpAddr === undefined ? config.policiesDir : 'of the control plane'})`,
    `  docs         ${document('README.md')}, ${document('docs/guides/getting-started.md')}`,
    '',
    `Next, in another terminal ${where}:`,
    '  gw status          which gateway the commands use, and whether it answers',
    '  gw logs --follow   a line for each call as it comes',
    config.proxyAuth === 'required'
      ? '  gw doctor          what keeps programs from it; each needs a workload or an API key'
      : '  gw run -- curl https://api.openai.com/v1/models   or claude, or any program',
    '',
    'Without gw:',
    `  curl --proxy ${proxy}${proxyTrust} --cacert ${gateway.caFile ?? 'CA'} https://api.openai.com/v1/models -H "Authorization: Bearer $OPENAI_API_KEY"`,
    `  export OPENAI_BASE_URL=${proxy}/proxy/openai/v1`,
    '',
  ];
  return `${lines.join('\n')}\n`;
}

/** Where it is read: an installed gateway is started in folders that have no documents. */
function document(path: string): string {
  return relative(process.cwd(), packageRoot()) === '' ? path : join(packageRoot(), path);
}
