import { shellWord } from '../program-name.ts';
import { DEMO_ORG, type FleetGateway, type FleetPlace } from './fleet-place.ts';
import { FLEET_MODEL } from './fleet-policy.ts';

/** What a person can try while the demo runs, with real values. @param gw how this program is called */
export function fleetText(place: FleetPlace, gw: string): string {
  const { url, adminToken, gateways } = place;
  const calls = gateways.map((gateway) => `# ${gateway.name}\n${curl(gateway)}\n`).join('\n');
  const [first] = gateways;
  const verify = first === undefined ? '' : proofCommands(first);
  return `
It keeps running until Ctrl-C. In another terminal:

${calls}
# a call, its record, and the proof that it is in the ledger
${verify}

# the commands below find the control plane by these
export CP_ADMIN_TOKEN=${adminToken} CP_HTTP_PORT=${new URL(url).port}

# who has enrolled, and what each has
${gw} control-plane node list ${DEMO_ORG}

# nobody of the org is served any more, and then is again
${gw} control-plane org put ${DEMO_ORG} --status suspended --suspended-reason 'for a moment'
${gw} control-plane org put ${DEMO_ORG} --status active

# another policy, which every gateway has within a moment
${gw} control-plane bundle read ${DEMO_ORG} --yaml > ${shellWord('bundle.yaml')}
${gw} control-plane bundle put ${DEMO_ORG} bundle.yaml

# one more gateway
${gw} control-plane token create ${DEMO_ORG} --address ${place.address}
`;
}

function curl({ url, headers }: FleetGateway): string {
  const shown = Object.entries(headers).map(([name, value]) => ` -H '${name}: ${value}'`);
  return `curl -s ${url}/proxy/openai/v1/chat/completions -H 'Content-Type: application/json'${shown.join('')} -d '{"model":"${FLEET_MODEL}","messages":[{"role":"user","content":"Say hello."}]}'`;
}

/** The record of a call by the id in its answer, and what `gw verify` would check. */
function proofCommands(gateway: FleetGateway): string {
  const { url, adminToken } = gateway;
  const token = `-H 'GW-Admin-Token: ${adminToken}'`;
  return `ID=$(${curl(gateway)} -o /dev/null -D - | sed -n 's/^x-gw-record-id: *\\([^[:space:]]*\\).*/\\1/Ip')
HASH=$(curl -s ${url}/v1/records/$ID ${token} | sed 's/.*"record_hash": *"\\([0-9a-f]*\\)".*/\\1/')
sleep 2; curl -s ${url}/v1/verify/$HASH ${token}`;
}
