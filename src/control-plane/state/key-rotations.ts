import { createHash } from 'node:crypto';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Commit } from '../../services/registers/commit.ts';
import type { KeyRotation, ShownKey, SigningUse } from './control-plane-state.ts';
import type { EnrolledNodes } from './enrolled-nodes.ts';
import type { SignedAnew } from './signed-anew.ts';
import type { SigningKeys } from './signing-keys.ts';

const DIGITS_OF_VERSION = 16;
/** Nodes that a status names. */
const NAMED_NODES = 100;

/** Keys of all uses that are replaced with overlap (decision 13.18). */
export class KeyRotations {
  readonly #keys: Readonly<Record<SigningUse, SigningKeys>>;
  readonly #nodes: EnrolledNodes;
  readonly #anew: SignedAnew;
  #listed: readonly ShownKey[] = [];
  #version = '';

  constructor(keys: Readonly<Record<SigningUse, SigningKeys>>, nodes: EnrolledNodes, anew: SignedAnew) {
    this.#keys = keys;
    this.#nodes = nodes;
    this.#anew = anew;
    this.#look();
    for (const one of Object.values(keys)) {
      one.onChange(() => this.#look());
      one.start(() => this.unaware);
    }
  }

  /** Of all uses; for each the one that signs first. */
  get listed(): readonly ShownKey[] {
    return this.#listed;
  }

  /** Of the list, as nodes name what they have fetched. */
  get version(): string {
    return this.#version;
  }

  /** How many nodes have not fetched the list as it is now. */
  get unaware(): number {
    let count = 0;
    for (const { versions } of this.#nodes.counting()) if (versions.keys !== this.#version) count++;
    return count;
  }

  /** When the next key of each use signs, milliseconds since the epoch; undefined: there is none. */
  switches(): readonly (readonly [use: SigningUse, at: number | undefined])[] {
    return Object.values(this.#keys).map(({ use, switchAt }) => [use, switchAt] as const);
  }

  async status(use: SigningUse): Promise<KeyRotation> {
    const keys = this.#keys[use];
    const listed = keys.listed();
    const former = use === 'bundle' ? keys.formerKids : new Set<string>();
    const onFormer = this.#onFormer(former);
    const unaware = [...this.#nodes.counting()].filter(({ versions }) => versions.keys !== this.#version);
    const named = new Map([...unaware, ...onFormer].map((node) => [`${node.org_id} ${node.node_id}`, node]));
    return {
      use,
      keys: listed,
      switch_at: listed.find(({ state }) => state === 'next')?.not_before ?? null,
      unaware_nodes: unaware.length,
      signed_by_former: use === 'bundle' ? await this.#anew.left() : 0,
      nodes_on_former: onFormer.length,
      nodes: [...named.values()].slice(0, NAMED_NODES).map(({ org_id, node_id }) => ({ org_id, node_id })),
    };
  }

  /** @throws GatewayError as {@link SigningKeys.rotate} */
  async rotate(use: SigningUse, switchAt: number, commit: Commit): Promise<KeyRotation> {
    await this.#keys[use].rotate(switchAt, commit);
    return this.status(use);
  }

  /** @throws GatewayError as {@link SigningKeys.cancel} */
  async cancel(use: SigningUse, commit: Commit): Promise<KeyRotation> {
    await this.#keys[use].cancel(commit);
    return this.status(use);
  }

  /**
   * @param confirmed also while nodes run a bundle of a former key
   * @throws GatewayError as {@link SigningKeys.finish}, and `conflict` while something still needs a former key
   */
  async finish(use: SigningUse, confirmed: boolean, commit: Commit): Promise<KeyRotation> {
    const { signed_by_former: left, nodes_on_former: behind, nodes } = await this.status(use);
    if (left > 0)
      throw new GatewayError(
        'conflict',
        `${left} bundles and overlays are still signed with a former key; that is changed by itself, a moment later.`,
      );
    if (behind > 0 && !confirmed) {
      const [first] = nodes;
      const which = first === undefined ? '' : ` (such as ${first.node_id} of ${first.org_id})`;
      throw new GatewayError(
        'conflict',
        `${behind} nodes${which} run a bundle that is signed with a former key: one that starts again without contact would have none. Wait for them, revoke those that are gone, or confirm.`,
      );
    }
    await this.#keys[use].finish(commit);
    return this.status(use);
  }

  async stop(): Promise<void> {
    for (const one of Object.values(this.#keys)) await one.stop();
    await this.#anew.stop();
  }

  #onFormer(kids: ReadonlySet<string>): KeyRotation['nodes'] {
    return [...this.#nodes.counting()].filter(({ policy_kid: kid }) => kid !== undefined && kids.has(kid));
  }

  #look(): void {
    this.#listed = Object.values(this.#keys).flatMap((one) => one.listed());
    this.#version = createHash('sha256').update(JSON.stringify(this.#listed)).digest('hex').slice(0, DIGITS_OF_VERSION);
  }
}
