/*
 * A gateway whose control plane lies: of the bundles that it is offered none with a wrong signature, of another org or
 * older than what it has is ever active.
 */
import { generateKeyPairSync } from 'node:crypto';
import { join } from 'node:path';
import { eventually } from '../support/child.ts';
import { PLACE_ORG, remoteBundle } from '../support/control-plane-place.ts';
import { LyingControlPlane } from '../support/lying-control-plane.ts';
import type { CleanUp } from './checks.ts';
import { ALLOWED_MODEL, ControlledGateway } from './controlled-gateway.ts';
import type { Seeded } from './seeded.ts';
import { bundlesThatWentBack, hashesBelow } from './stored-hashes.ts';

const STEPS = 6;
/** Numbers of bundles that must never decide a call begin here. */
const LIES_FROM = 1_000_000;
const WAIT_MS = 180_000;

export interface LieFindings {
  readonly problems: string[];
  lies: number;
  truths: number;
}

/** The bundle with this number, which its records tell. */
export function numberedBundle(number: number): string {
  return remoteBundle('numbered', ALLOWED_MODEL).replace('version: "1"', `version: "${number}"`);
}

type Lie = (plane: LyingControlPlane, sequence: number, yaml: string) => LyingControlPlane['bundle'];

const stranger = generateKeyPairSync('ed25519').privateKey;
const LIES: Readonly<Record<string, Lie>> = {
  'the signature of a stranger': (plane, sequence, yaml) => plane.signed(yaml, sequence + 1, stranger),
  'a key that nobody knows': (plane, sequence, yaml) => plane.signed(yaml, sequence + 1, stranger, 'bundle-9'),
  'an older sequence': (plane, sequence, yaml) => plane.signed(yaml, Math.max(1, sequence - 1)),
  'other bytes than were signed': (plane, sequence, yaml) => ({
    ...plane.signed(numberedBundle(sequence + 1), sequence + 1),
    bundle_yaml: Buffer.from(yaml),
  }),
  'another org': (plane, sequence, yaml) => ({ ...plane.signed(yaml, sequence + 1), org_id: 'globex' }),
  'another sequence than was signed': (plane, sequence, yaml) => ({ ...plane.signed(yaml, sequence), sequence: String(sequence + 7) }),
  'no bundle in it': (plane, sequence) => plane.signed('schema: gw.policy_bundle.v1\nbundle_id: [', sequence + 1),
};

/** The gateway, and what it is told. */
export class LiedTo {
  readonly #root: string;
  readonly #plane: LyingControlPlane;
  readonly #gateway: ControlledGateway;
  #sequence = 1;
  #lied = 0;

  private constructor(root: string, plane: LyingControlPlane, gateway: ControlledGateway) {
    this.#root = root;
    this.#plane = plane;
    this.#gateway = gateway;
  }

  /** @param env of a gateway that has yet to learn of a control plane */
  static async start(cleanUp: CleanUp, root: string, env: Readonly<Record<string, string>>): Promise<LiedTo> {
    const plane = await LyingControlPlane.start(cleanUp);
    plane.bundle = plane.signed(numberedBundle(1), 1);
    const gateway = new ControlledGateway(cleanUp, 'node-1', {
      ...env,
      GW_CP_ADDR: `127.0.0.1:${plane.port}`,
      GW_ORG_ID: PLACE_ORG,
      GW_NODE_ID: 'node-1',
      GW_KEY_DIR: join(root, 'keys-of-the-lied-to'),
      GW_BOOTSTRAP_TOKEN: plane.bootstrapToken,
    });
    await gateway.start();
    return new LiedTo(root, plane, gateway);
  }

  /** A few lies and truths, between which the gateway may be killed. */
  async round(random: Seeded, found: LieFindings): Promise<void> {
    for (let step = 0; step < STEPS; step += 1) {
      if (random.chance(0.3)) {
        await this.#gateway.kill();
        await this.#gateway.start();
      }
      if (random.chance(0.6)) await this.#lie(random, found);
      else await this.#tell(random, found);
    }
  }

  async #tell(random: Seeded, found: LieFindings): Promise<void> {
    // The step between is one that no lie has used.
    this.#sequence += 2;
    this.#plane.bundle = this.#plane.signed(numberedBundle(this.#sequence), this.#sequence);
    found.truths += 1;
    const expected = String(this.#sequence);
    await this.#offer(random);
    await eventually(
      `bundle ${expected} at the gateway that is lied to`,
      async () => {
        await this.#gateway.call(random);
        return (await this.#gateway.health())?.['bundle_version'] === expected ? true : undefined;
      },
      WAIT_MS,
    );
  }

  async #lie(random: Seeded, found: LieFindings): Promise<void> {
    this.#lied += 1;
    found.lies += 1;
    const [name, lie] = random.pick(Object.entries(LIES));
    this.#plane.bundle = lie(this.#plane, this.#sequence, numberedBundle(LIES_FROM + this.#lied));
    await this.#offer(random);
    await this.#gateway.call(random);
    const version = (await this.#gateway.health())?.['bundle_version'];
    if (version !== String(this.#sequence)) found.problems.push(`${name}: bundle ${String(version)} is active, ${this.#sequence} was`);
  }

  /** Until the gateway has fetched what is there now. */
  async #offer(random: Seeded): Promise<void> {
    const fetches = () => this.#plane.calls.filter((name) => name === 'FetchBundle').length;
    const before = fetches();
    this.#plane.changed('policy');
    await eventually(
      'the fetch of a bundle',
      async () => {
        await this.#gateway.call(random);
        return fetches() > before ? true : undefined;
      },
      WAIT_MS,
    );
  }

  /** What its records say of the bundles that decided. */
  async weigh(found: LieFindings): Promise<void> {
    found.problems.push(...(await this.#gateway.stop()));
    const records = await hashesBelow(this.#root, this.#gateway.dataDir);
    for (const { id, bundle } of records) if ((bundle ?? 0) >= LIES_FROM) found.problems.push(`record ${id} was decided by a lie`);
    found.problems.push(...bundlesThatWentBack(records));
    const submitted = new Set(this.#plane.hashes);
    const away = records.filter(({ hash }) => !submitted.has(hash)).length;
    if (away > 100) found.problems.push(`${away} hashes were not submitted`);
  }
}
