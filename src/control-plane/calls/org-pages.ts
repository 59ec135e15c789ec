import type { JsonObject } from '../../base/json/json-object.ts';
import type {
  AddonsResponse,
  CredentialsResponse,
  ExportConfigResponse,
  KeysResponse,
  OverlaysResponse,
  WorkloadsResponse,
} from '../proto/messages.ts';
import type { EntityKind } from '../state/control-plane-state.ts';
import type { NodeId } from '../state/enrolled-nodes.ts';
import { nodesOf, type OpenEntity } from '../state/org-entities.ts';
import type { StoredControlPlane } from '../state/stored-control-plane.ts';
import { checkedCursor } from './checked-input.ts';
import type { NodeStates } from './node-states.ts';

/** Entries of a page at most, and bytes, well below the size of a message. */
const PAGE = 500;
const PAGE_BYTES = 2 * 1024 * 1024;
/** What the API that makes one does not take. */
const NOT_ASKED: ReadonlySet<string> = new Set(['created_at', 'updated_at', 'node_ids']);
const NOT_ASKED_OF_EXPORTS: ReadonlySet<string> = new Set(['created_at', 'org_id']);

interface Page<T> {
  readonly entries: readonly T[];
  readonly next: string;
}

/** What an org has for one of its nodes, in pages. */
export class OrgPages {
  readonly #state: StoredControlPlane;
  readonly #states: NodeStates;

  constructor(state: StoredControlPlane, states: NodeStates) {
    this.#state = state;
    this.#states = states;
  }

  async workloads(node: NodeId, cursor: string): Promise<WorkloadsResponse> {
    const { workloads: version } = this.#state.presentVersions(node.orgId);
    const { entries, next } = await this.#page(node, 'workloads', cursor, ({ value }) => JSON.stringify(value), sizeOfText);
    return { org: this.#states.stateFor(node), version, workloads: entries, next_cursor: next };
  }

  /** Those of providers that are for this node. */
  async credentials(node: NodeId, cursor: string): Promise<CredentialsResponse> {
    const { credentials: version } = this.#state.presentVersions(node.orgId);
    const { entries, next } = await this.#page(
      node,
      'credentials',
      cursor,
      ({ value, secret }) =>
        isFor(value, node.nodeId)
          ? { credential: JSON.stringify(without(value, NOT_ASKED)), secret: secret ?? '', node_ids: nodesOf(value) }
          : undefined,
      (one) => [one.credential, one.secret, ...one.node_ids].reduce((sum, text) => sum + sizeOfText(text), 0),
    );
    return { org: this.#states.stateFor(node), version, credentials: entries, next_cursor: next };
  }

  /** Those that are of no node, and of this one. */
  async exportConfig(node: NodeId, cursor: string): Promise<ExportConfigResponse> {
    const { export_config: version } = this.#state.presentVersions(node.orgId);
    const { entries, next } = await this.#page(
      node,
      'export-destinations',
      cursor,
      ({ value, secret }) => {
        const { node_id: of } = value;
        if ((of !== undefined && of !== node.nodeId) || secret === undefined) return undefined;
        return JSON.stringify({ ...without(value, NOT_ASKED_OF_EXPORTS), config: JSON.parse(secret) as unknown });
      },
      sizeOfText,
    );
    return { org: this.#states.stateFor(node), version, destinations: entries, inherit_org_defaults: true, next_cursor: next };
  }

  async addons(node: NodeId): Promise<AddonsResponse> {
    const { addons: version } = this.#state.presentVersions(node.orgId);
    const found = await this.#state.registers.entities.list(node.orgId, 'addons');
    const addons = found.map(({ id, value: { enabled, config } }) => ({
      id,
      enabled: enabled === true,
      config: config === undefined ? '' : JSON.stringify(config),
    }));
    return { org: this.#states.stateFor(node), version, addons };
  }

  async overlays(node: NodeId): Promise<OverlaysResponse> {
    const { overlays: version } = this.#state.presentVersions(node.orgId);
    const found = await this.#state.overlays.list(node.orgId);
    const overlays = found.map(({ level, node_id, bundle_yaml, put_at, kid, signature }) => ({
      level,
      node_id: node_id ?? '',
      bundle_yaml: Buffer.from(bundle_yaml),
      put_at,
      kid,
      signature: Buffer.from(signature, 'base64'),
    }));
    return { org: this.#states.stateFor(node), version, overlays };
  }

  keys(node: NodeId): KeysResponse {
    const cas = this.#state.authorities.trusted.map(({ certificate }) => certificate);
    const keys = this.#state.keys().map(({ kid, alg, use, public_key, not_before = '', not_after = '' }) => ({
      kid,
      alg,
      use,
      public_key: Buffer.from(public_key, 'base64'),
      not_before,
      not_after,
    }));
    return { org: this.#states.stateFor(node), version: this.#state.presentVersions(node.orgId).keys, keys, ca_certificates: cas };
  }

  /** @param shown undefined: not for this node */
  async #page<T>(
    { orgId }: NodeId,
    kind: EntityKind,
    cursor: string,
    shown: (entity: OpenEntity) => T | undefined,
    sizeOf: (entry: T) => number,
  ): Promise<Page<T>> {
    const rows = await this.#state.registers.entities.open(orgId, kind, checkedCursor(cursor), PAGE);
    const entries: T[] = [];
    let bytes = 0;
    for (const [at, row] of rows.entries()) {
      const entry = shown(row);
      if (entry === undefined) continue;
      bytes += sizeOf(entry);
      // One alone always fits into a message.
      if (bytes > PAGE_BYTES && entries.length > 0) return { entries, next: rows[at - 1]?.id ?? '' };
      entries.push(entry);
    }
    return { entries, next: rows.length < PAGE ? '' : (rows.at(-1)?.id ?? '') };
  }
}

/**
 * `export_auth` credentials never leave the control plane; a `node_scoped` one goes to its nodes alone (specification,
 * "Credential").
 */
function isFor(value: JsonObject, nodeId: string): boolean {
  return value['type'] === 'ai_provider' && (value['distribution'] === 'org_wide' || nodesOf(value).includes(nodeId));
}

function without(value: JsonObject, names: ReadonlySet<string>): JsonObject {
  return Object.fromEntries(Object.entries(value).filter(([name]) => !names.has(name)));
}

function sizeOfText(text: string): number {
  return Buffer.byteLength(text);
}
