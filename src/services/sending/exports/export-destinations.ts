import { isDeepStrictEqual } from 'node:util';
import { type Clock, timestamp } from '../../../base/lib/clock.ts';
import { GatewayError } from '../../../base/lib/gateway-error.ts';
import { uuidv7 } from '../../../base/lib/ids.ts';
import type { Logger } from '../../../base/lib/log.ts';
import { SealError, type Sealed, type SecretBox } from '../../../base/lib/secret-box.ts';
import type { ExportDestination, ExportEventName, ExportKind } from '../../../base/model/export-destination.ts';
import type { Effect, Store } from '../../../storage/contract/store.ts';
import type { Commit } from '../../registers/commit.ts';
import { REMOVED, Register } from '../../registers/register.ts';
import { entityWith } from '../../registers/watched-space.ts';
import { maskedExport, readExportConfig } from './export-config.ts';

/** Entities of this space hold a destination and, sealed, what it is reached by. */
export const EXPORTS = 'export_destination';

interface StoredDestination extends Omit<ExportDestination, 'config'> {
  readonly sealed: Sealed;
}

/** A destination with what it is really reached by. */
export interface OpenDestination extends Omit<ExportDestination, 'config'> {
  /** Undefined: it cannot be read. */
  readonly config: ExportDestination['config'] | undefined;
}

export interface NewDestination {
  readonly name: string;
  readonly kind: ExportKind;
  readonly config: unknown;
  readonly enabled?: boolean | undefined;
  readonly node_id?: string | undefined;
  readonly event_types?: readonly ExportEventName[] | undefined;
}

/** A destination as somebody who owns all of them gives it. */
export interface GivenDestination extends NewDestination {
  readonly id: string;
}

/** What is given is changed. */
export type DestinationChange = { readonly [K in keyof NewDestination]?: NewDestination[K] | undefined };

export interface DestinationStoreOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly box: SecretBox;
  /** Whether a webhook of this host may be called without TLS. */
  readonly mayBePlain: (host: string) => boolean;
}

/** Where the sealed config of a destination belongs. */
export function exportContext(id: string): string {
  return `export destination ${id}`;
}

/**
 * Export destinations of all orgs. What they are reached by is sealed at rest, open in memory, and its secrets are
 * shown to nobody but in the answer to what made it.
 */
export class ExportDestinations {
  readonly #options: DestinationStoreOptions;
  readonly #space: Register<OpenDestination, StoredDestination>;

  private constructor(options: DestinationStoreOptions, space: Register<OpenDestination, StoredDestination>) {
    this.#options = options;
    this.#space = space;
  }

  /** @param changed told when one is there, gone or another, whoever has changed it */
  static async open(
    options: DestinationStoreOptions,
    changed: (id: string, now: OpenDestination | undefined) => void,
  ): Promise<ExportDestinations> {
    const space = await Register.openSealed<OpenDestination, StoredDestination>(options.store, EXPORTS, {
      stored: entityWith<StoredDestination>('id', 'org_id'),
      opened: (stored) => opened(stored, options),
      orgOf: (one) => one.org_id,
      changed,
    });
    return new ExportDestinations(options, space);
  }

  list(orgId: string): readonly ExportDestination[] {
    return this.#space.ofOrg(orgId).map(shown);
  }

  get(orgId: string, id: string): ExportDestination | undefined {
    const found = this.open(id);
    return found?.org_id === orgId ? shown(found) : undefined;
  }

  /** For delivery and nothing else. */
  open(id: string): OpenDestination | undefined {
    return this.#space.get(id);
  }

  /** All of them, for delivery and nothing else. */
  all(): Iterable<OpenDestination> {
    return this.#space.values();
  }

  /** @returns the destination with its secrets, this once @throws GatewayError `invalid_request`; as its commit */
  async create(orgId: string, made: NewDestination, commit?: Commit): Promise<ExportDestination> {
    const { clock, mayBePlain } = this.#options;
    const config = readExportConfig(made.kind, made.config, mayBePlain);
    const now = clock.now();
    const rest = restOf(made, uuidv7(now), orgId, timestamp(now));
    const stored = { ...rest, sealed: this.#sealed(rest.id, config) };
    await this.#space.change(rest.id, () => stored, { commit });
    return { ...rest, config };
  }

  /** Changes what is given. Undefined when the org has no such destination. @throws GatewayError `invalid_request` */
  async change(
    orgId: string,
    id: string,
    { config, ...change }: DestinationChange,
    commit?: Commit,
  ): Promise<ExportDestination | undefined> {
    const given = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
    const next = (before: StoredDestination | undefined): StoredDestination | undefined => {
      if (before?.org_id !== orgId) return undefined;
      const kind = change.kind ?? before.kind;
      if (kind !== before.kind && config === undefined)
        throw new GatewayError('invalid_request', 'The export destination is not valid.', {
          details: [{ path: 'config', message: 'is needed when the kind changes: each kind has its own' }],
        });
      if (config === undefined) return { ...before, ...given };
      return { ...before, ...given, sealed: this.#sealed(id, readExportConfig(kind, config, this.#options.mayBePlain)) };
    };
    const changed = await this.#space.change(id, next, { commit });
    return changed && this.get(orgId, id);
  }

  /** @param also what goes with it @returns false when the org has no such destination */
  async remove(orgId: string, id: string, also: readonly Effect[], commit?: Commit): Promise<boolean> {
    if (this.get(orgId, id) === undefined) return false;
    return this.#space.remove(id, { commit }, (_destination, { effects }) => effects.push(...also));
  }

  /**
   * These are all destinations from now on, of every org, in one commit; one that is as it was stays untouched.
   * @param also what goes with it, by the ids of those that are gone
   * @throws GatewayError `invalid_request`
   */
  async replaceAll(
    orgId: string,
    given: readonly GivenDestination[],
    also: (gone: readonly string[]) => Promise<readonly Effect[]>,
    commit?: Commit,
  ): Promise<void> {
    const kept = new Set(given.map(({ id }) => id));
    const gone = [...this.#space.keys()].filter((id) => !kept.has(id));
    const changes = new Map<string, StoredDestination | typeof REMOVED>(gone.map((id) => [id, REMOVED]));
    for (const one of given) {
      const stored = this.#given(orgId, one);
      if (stored !== undefined) changes.set(stored.id, stored);
    }
    await this.#space.changeAll(changes, { commit }, await also(gone));
  }

  /** Undefined: it is as it was. */
  #given(orgId: string, made: GivenDestination): StoredDestination | undefined {
    const { clock, mayBePlain } = this.#options;
    const config = readExportConfig(made.kind, made.config, mayBePlain);
    const before = this.#space.get(made.id);
    const rest = restOf(made, made.id, orgId, before?.created_at ?? timestamp(clock.now()));
    if (isDeepStrictEqual(before, { ...rest, config })) return undefined;
    return { ...rest, sealed: this.#sealed(made.id, config) };
  }

  #sealed(id: string, config: ExportDestination['config']): Sealed {
    return this.#options.box.seal(JSON.stringify(config), exportContext(id));
  }
}

/** What a destination is but for how it is reached. */
function restOf(made: NewDestination, id: string, orgId: string, createdAt: string): Omit<ExportDestination, 'config'> {
  return {
    id,
    org_id: orgId,
    name: made.name,
    kind: made.kind,
    enabled: made.enabled ?? true,
    ...(made.node_id === undefined ? {} : { node_id: made.node_id }),
    ...(made.event_types === undefined ? {} : { event_types: made.event_types }),
    created_at: createdAt,
  };
}

/**
 * Those that a node sends to: of each org its own where it has some, else those that are of no node, where it takes
 * them over (decision 11.3).
 * @param inherits `inherit_org_defaults` of the node
 */
export function destinationsOf(all: Iterable<OpenDestination>, nodeId: string, inherits: boolean): readonly OpenDestination[] {
  const enabled = [...all].filter((one) => one.enabled);
  const withOwn = new Set(enabled.filter((one) => one.node_id === nodeId).map((one) => one.org_id));
  return enabled.filter((one) => (withOwn.has(one.org_id) ? one.node_id === nodeId : inherits && one.node_id === undefined));
}

function opened({ sealed, ...destination }: StoredDestination, { box, log }: DestinationStoreOptions): OpenDestination {
  try {
    const config = JSON.parse(box.open(sealed, exportContext(destination.id)).toString()) as ExportDestination['config'];
    return { ...destination, config };
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    log.error({ destination_id: destination.id, err: error }, 'an export destination cannot be opened; was GW_SECRETS_KEY changed?');
    return { ...destination, config: undefined };
  }
}

function shown({ config, ...destination }: OpenDestination): ExportDestination {
  const unread = destination.kind === 'webhook' ? { url: '' } : { address: '', format: 'rfc5424' as const };
  return { ...destination, config: maskedExport(config ?? unread) };
}
