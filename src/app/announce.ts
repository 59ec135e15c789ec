import type { Config } from '../base/config/config.ts';
import type { Gateway } from './gateway.ts';

/** What a person needs to see after the start: where everything is, and the first thing to try. Never a secret. */
export function announcement(gateway: Gateway, config: Config): string {
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
    `  health       ${proxy}/healthz`,
    `  ca           ${gateway.caFile ?? 'interception is off'}`,
    `  admin token  ${gateway.adminToken.file ?? 'as configured'}`,
    `  policy       ${gateway.bundle.bundle_id} ${gateway.bundle.version} (${config.cpAddr === undefined ? config.policiesDir : 'of the control plane'})`,
    '  docs         README.md, docs/guides/getting-started.md',
    '',
    'Try it:',
    `  curl --proxy ${proxy}${proxyTrust} --cacert ${gateway.caFile ?? 'CA'} https://api.openai.com/v1/models -H "Authorization: Bearer $OPENAI_API_KEY"`,
    `  export OPENAI_BASE_URL=${proxy}/proxy/openai/v1`,
    '',
  ];
  return `${lines.join('\n')}\n`;
}
