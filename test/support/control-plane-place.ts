import { join } from 'node:path';
import { type ControlPlaneProcess, controlPlaneEnvironment, startControlPlaneProcess } from './control-plane-process.ts';
import { CuttableLink } from './cuttable-link.ts';
import { type GatewayProcess, gatewayEnvironment, startGatewayWith } from './gateway-process.ts';
import { type HasTeardown, tempDir } from './temp-dir.ts';

export const PLACE_ORG = 'acme';
/** The workload of the org, which the control plane alone knows. */
export const PLACE_WORKLOAD = 'app';
/** The provider's key, which no program and no file of a gateway's owner has. */
export const PLACE_SECRET = 'sk-of-the-control-plane-0123456789';
const CREDENTIAL = 'cred-openai';

/** Allows small models of one provider. */
export const PLACE_BUNDLE = remoteBundle('small-models', 'gpt-4o-mini');

/** A bundle that allows one model and denies all others. */
export function remoteBundle(id: string, model: string): string {
  return `schema: gw.policy_bundle.v1
bundle_id: ${id}
version: "1"
inline_rules:
  targets:
    - id: allowed-model
      when:
        all:
          - {field: action.target_host, equals: api.openai.com}
          - {field: context.action.params.model, equals: ${model}}
      effect: {decision: allow}
`;
}

/** A control plane with an org, and a link to it that can be cut; gateways come on top. */
export class ControlPlanePlace {
  readonly link: CuttableLink;
  readonly org = PLACE_ORG;
  readonly #t: HasTeardown;
  readonly #links: CuttableLink[];
  #controlPlane: ControlPlaneProcess;

  private constructor(t: HasTeardown, controlPlane: ControlPlaneProcess, link: CuttableLink) {
    this.#t = t;
    this.#controlPlane = controlPlane;
    this.link = link;
    this.#links = [link];
  }

  /** @param org members of the org beside their defaults */
  static async start(
    t: HasTeardown,
    org: Readonly<Record<string, unknown>> = {},
    env: Readonly<Record<string, string>> = {},
  ): Promise<ControlPlanePlace> {
    const controlPlane = await startControlPlaneProcess(t, controlPlaneEnvironment(t, env));
    const place = new ControlPlanePlace(t, controlPlane, await CuttableLink.start(t, controlPlane.grpcPort));
    await place.does('PUT', '', org);
    await place.does('PUT', '/bundle', { bundle_yaml: PLACE_BUNDLE });
    await place.does('PUT', `/workloads/${PLACE_WORKLOAD}`, { name: 'App' });
    await place.does('PUT', `/credentials/${CREDENTIAL}`, { connector_id: 'openai', mode: 'alias', secret_ref: PLACE_SECRET });
    return place;
  }

  get controlPlane(): ControlPlaneProcess {
    return this.#controlPlane;
  }

  /** Asks below the org. @throws Error unless the answer is 2xx */
  does(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
    return this.#controlPlane.does(method, `/v1/orgs/${this.org}${path}`, body);
  }

  /** Members of `data` of a collection. */
  async listOf(path: string): Promise<readonly Record<string, unknown>[]> {
    return (await this.does('GET', path))['data'] as Record<string, unknown>[];
  }

  async killControlPlane(): Promise<void> {
    this.#controlPlane.child.kill('SIGKILL');
    await this.#controlPlane.child.ended;
  }

  /** On the folder of the last one, which must be gone; the link leads there. */
  async startControlPlane(): Promise<void> {
    this.#controlPlane = await startControlPlaneProcess(this.#t, this.#controlPlane.env);
    for (const link of this.#links) link.lead(this.#controlPlane.grpcPort);
  }

  /** Beside the first one, for a gateway that is to have one of its own. */
  async anotherLink(): Promise<CuttableLink> {
    const link = await CuttableLink.start(this.#t, this.#controlPlane.grpcPort);
    this.#links.push(link);
    return link;
  }

  async bootstrapToken(): Promise<string> {
    return String((await this.does('POST', '/bootstrap-tokens', {}))['token']);
  }

  /** Folders and settings of a gateway of this org that has yet to enrol, through the link. */
  async gatewayEnvironment(nodeId: string, env: Readonly<Record<string, string>> = {}): Promise<Record<string, string>> {
    return {
      ...gatewayEnvironment(this.#t),
      GW_CP_ADDR: this.link.address,
      GW_ORG_ID: this.org,
      GW_NODE_ID: nodeId,
      GW_KEY_DIR: join(tempDir(this.#t), 'keys'),
      GW_BOOTSTRAP_TOKEN: await this.bootstrapToken(),
      ...env,
    };
  }

  /** A gateway that enrols and starts. */
  async gateway(nodeId: string, env: Readonly<Record<string, string>> = {}): Promise<GatewayProcess> {
    return startGatewayWith(this.#t, await this.gatewayEnvironment(nodeId, env));
  }
}
