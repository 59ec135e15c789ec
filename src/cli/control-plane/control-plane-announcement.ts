import type { ControlPlaneSettings } from '../../base/config/control-plane-settings.ts';
import { originOf, reachableHost } from '../../base/config/own-origin.ts';
import { bracketHost } from '../../base/lib/host.ts';

/** A control plane that runs, as far as a person needs to find it. */
interface Running {
  readonly grpcPort: number;
  readonly httpPort: number;
  readonly adminToken: { readonly file: string | undefined };
}

/** What a person needs to see after the start: where everything is, and the first thing to do. Never a secret. @param gw how this program is called */
export function controlPlaneAnnouncement({ grpcPort, httpPort, adminToken }: Running, settings: ControlPlaneSettings, gw: string): string {
  const host = reachableHost(settings.host);
  const http = originOf('http', host, httpPort);
  const lines = [
    'The control plane is running.',
    '',
    `  gateways     ${bracketHost(host)}:${grpcPort}`,
    `  names        ${settings.names.join(', ')}`,
    `  admin API    ${http}/v1`,
    `  admin token  ${adminToken.file ?? 'as configured'}`,
    `  ca           ${http}/v1/ca.crt`,
    `  health       ${http}/healthz`,
    `  data         ${settings.dataDir}`,
    '  docs         docs/guides/control-plane.md',
    '',
    'Try it:',
    `  ${gw} control-plane org put acme`,
    `  ${gw} control-plane token create acme`,
    '',
  ];
  return `${lines.join('\n')}\n`;
}
