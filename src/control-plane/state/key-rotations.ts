import { createHash } from 'node:crypto';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Commit } from '../../services/registers/commit.ts';
import type { KeyRotation, RotatedUse, ShownKey, SigningUse } from './control-plane-state.ts';
import type { EnrolledNodes } from './enrolled-nodes.ts';
import type { NodeAuthorities } from './node-authorities.ts';
import type { SignedAnew } from './signed-anew.ts';
import type { SigningKeys } from './signing-keys.ts';

const DIGITS_OF_VERSION = 16;
/** Nodes that a status names. */
const NAMED_NODES = 100;

/** Why a former key is still needed. */
const STILL: Readonly<Record<RotatedUse, string>> = {
  ca: 'have a certificate of the former CA, or do not trust the next one yet: they would have to be enrolled anew.',
  bundle: 'run a bundle that is signed with a former key: one that starts again without contact would have none.',
  ledger: '',
};

/** Keys of all uses that are replaced with overlap (decision 13.18). */
export class KeyRotations {
  readonly #keys: Readonly<Record<SigningUse, SigningKeys>>;
  readonly #authorities: NodeAuthorities;
  readonly #nodes: EnrolledNodes;
  readonly #anew: SignedAnew;
  #listed: readonly ShownKey[] = [];
  #version = '';

  constructor(keys: Readonly<Record<SigningUse, SigningKeys>>, authorities: NodeAuthorities, nodes: EnrolledNodes, anew: SignedAnew) {
    this.#keys = keys;
    this.#authorities = authorities;
    this.#nodes = nodes;
    this.#anew = anew;
    this.#look();
    authorities.onChange(() => this.#look());
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
  switches(): readonly (readonly [use: RotatedUse, at: number | undefined])[] {
    const signing = Object.values(this.#keys).map(({ use, switchAt }) => [use, switchAt] as const);
    return [...signing, ['ca', this.#authorities.switchAt]];
  }

  async status(use: RotatedUse): Promise<KeyRotation> {
    const listed = use === 'ca' ? this.#authorities.shown() : this.#keys[use].listed();
    const onFormer = this.#onFormer(use);
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
  async rotate(use: RotatedUse, switchAt: number, commit: Commit): Promise<KeyRotation> {
    await this.#of(use).rotate(switchAt, commit);
    return this.status(use);
  }

  /**
   * @throws GatewayError as {@link SigningKeys.cancel}, and `conflict` while a node has a certificate of the next CA
   */
  async cancel(use: RotatedUse, commit: Commit): Promise<KeyRotation> {
    // A clock that was set back: certificates of a CA that nobody trusts any more would cut their nodes off.
    const next =
      use === 'ca' && !this.#authorities.isSwitched ? this.#authorities.shown().find(({ state }) => state === 'next') : undefined;
    const [first, ...others] = next === undefined ? [] : this.#nodes.ofCa(next.kid);
    if (first !== undefined)
      throw new GatewayError(
        'conflict',
        `${others.length + 1} nodes (such as ${first.node_id} of ${first.org_id}) have a certificate of the next CA already: the clock was set back since. Revoke them, or wait for the switch.`,
      );
    await this.#of(use).cancel(commit);
    return this.status(use);
  }

  /**
   * @param confirmed also while nodes run a bundle of a former key
   * @throws GatewayError as {@link SigningKeys.finish}, and `conflict` while something still needs a former key
   */
  async finish(use: RotatedUse, confirmed: boolean, commit: Commit): Promise<KeyRotation> {
    const { signed_by_former: left, nodes_on_former: behind, unaware_nodes: unaware, nodes } = await this.status(use);
    if (left > 0)
      throw new GatewayError(
        'conflict',
        `${left} bundles and overlays are still signed with a former key; that is changed by itself, a moment later.`,
      );
    // Who does not trust the next CA yet would never come back; a key of bundles he fetches then.
    const lost = Math.max(behind, use === 'ca' && this.#authorities.isSwitched ? unaware : 0);
    if (lost > 0 && !confirmed) {
      const [first] = nodes;
      const which = first === undefined ? '' : ` (such as ${first.node_id} of ${first.org_id})`;
      throw new GatewayError('conflict', `${lost} nodes${which} ${STILL[use]} Wait for them, revoke those that are gone, or confirm.`);
    }
    await this.#of(use).finish(commit);
    return this.status(use);
  }

  async stop(): Promise<void> {
    await this.#authorities.stop();
    for (const one of Object.values(this.#keys)) await one.stop();
    await this.#anew.stop();
  }

  #of(use: RotatedUse): SigningKeys | NodeAuthorities {
    return use === 'ca' ? this.#authorities : this.#keys[use];
  }

  #onFormer(use: RotatedUse): KeyRotation['nodes'] {
    if (use === 'ca') return this.#authorities.isSwitched ? [...this.#nodes.ofOtherCa(this.#authorities.ofNodes.kid)] : [];
    if (use === 'ledger') return [];
    const kids = this.#keys.bundle.formerKids;
    return [...this.#nodes.counting()].filter(({ policy_kid: kid }) => kid !== undefined && kids.has(kid));
  }

  #look(): void {
    this.#listed = Object.values(this.#keys).flatMap((one) => one.listed());
    const cas = this.#authorities.trusted.map(({ kid }) => kid);
    this.#version = createHash('sha256')
      .update(JSON.stringify([this.#listed, cas]))
      .digest('hex')
      .slice(0, DIGITS_OF_VERSION);
  }
}
