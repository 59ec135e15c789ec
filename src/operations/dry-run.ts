/*
 * What a removal would take away, asked before it is done (decision 10.18): the operation runs up to the commit that
 * would store it, which is told in the place of being stored. No operation has code of its own for that.
 */
import { z } from 'zod';
import { changesOf } from '../services/registers/audit-changes.ts';
import { isToldEntity, nameOfThing } from '../services/registers/audit-values.ts';
import type { Commit } from '../services/registers/commit.ts';
import type { Effect } from '../storage/contract/store.ts';
import type { HandOn } from './hand-on.ts';
import { optional } from './members.ts';
import type { OperationServices } from './services.ts';
import { count } from './shapes.ts';

/** Things that an answer names of each kind; `counts` is of all. */
const SHOWN = 100;
const DRY_RUN = 'dry_run';
/** Notes of what has been said of a limit already: they go with it, and are nothing that somebody has made. */
const NOTES: ReadonlySet<string> = new Set(['budget_alerted', 'budget_alert_posted', 'budget_refused']);

const PARAMETER = {
  [DRY_RUN]: z.enum(['true', 'false'], 'must be true or false').optional().meta({
    type: 'boolean',
    description: 'true: nothing is removed; the answer has what would be (`lost`), and what names it and stays (`left`)',
  }),
};

const THING = z.object({
  entity: z.string().meta({ description: 'What it is, as in the audit trail' }),
  object: z.string().optional().meta({ description: 'Its id' }),
  name: z.string().optional(),
  values: z.record(z.string(), z.string()).meta({ description: 'Its members, as text, but for secrets' }),
});

/** The answer to a removal that is only tried. */
export const TRIED_REMOVAL = z.object({
  dry_run: z.literal(true),
  counts: z.record(z.string(), count).meta({ description: 'How many things of each kind would be gone' }),
  lost: z.array(THING),
  changed: z.array(THING).meta({ description: 'What would stay and be otherwise: members as they would be' }),
  left: z.array(THING).meta({ description: 'What would stay and names what is gone' }),
});

type Thing = z.output<typeof THING>;

/** Whether an operation takes away the one thing that its path names. */
export function removesOne({ method, path }: { readonly method: string; readonly path: string }): boolean {
  return method === 'DELETE' && path.includes('{');
}

/** The query of a removal; one that says itself what would be lost keeps its own. */
export function withDryRun(query: z.ZodObject | undefined): z.ZodObject {
  const schema = query ?? z.strictObject({});
  return DRY_RUN in schema.shape ? schema : schema.extend(PARAMETER);
}

/** Whether it can be tried by this mechanism. */
export function canBeTried(query: z.ZodObject | undefined): boolean {
  return query?.shape[DRY_RUN] === PARAMETER[DRY_RUN];
}

/** What takes a removal that is only tried; undefined: it is carried out. */
export function trialOf(
  query: z.ZodObject | undefined,
  given: Readonly<Record<string, unknown>>,
  services: OperationServices,
): Trial | undefined {
  return canBeTried(query) && given[DRY_RUN] === 'true' ? new Trial(services) : undefined;
}

/** Ends a removal where it would be stored. */
class StoredNothing extends Error {}

interface Changed {
  readonly entity: string;
  readonly object: string | undefined;
  readonly before: unknown;
  readonly after: unknown;
}

/** Takes what would be stored or handed on. */
export class Trial {
  readonly #services: OperationServices;
  readonly #changed: Changed[] = [];

  constructor(services: OperationServices) {
    this.#services = services;
  }

  /** Nothing behind it is done. */
  readonly commit: Commit = async (object, effects, _expect, also = []) => {
    for (const { object: own, effects: of } of [{ object, effects }, ...also]) {
      for (const effect of of) await this.#take(effect, own);
    }
    throw new StoredNothing('a removal that is only tried is not stored');
  };

  readonly handOn: HandOn = (_write, { entity, object, show }) => {
    this.#changed.push({ entity, object, before: show(), after: undefined });
    return Promise.resolve([]);
  };

  /** The services as the operation sees them: also those keys that have no entries in the trail are not stored. */
  get services(): OperationServices {
    const sessionFor = (): Promise<Commit> => Promise.resolve(this.commit);
    const audit = Object.assign(Object.create(this.#services.audit) as OperationServices['audit'], { sessionFor });
    return Object.assign(Object.create(this.#services) as OperationServices, { audit });
  }

  /** What the removal would do. @throws what it throws before it would be stored */
  async outcome(remove: () => Promise<unknown>): Promise<{ readonly json: z.output<typeof TRIED_REMOVAL>; readonly status: 200 }> {
    await remove().catch((error: unknown) => {
      if (!(error instanceof StoredNothing)) throw error;
    });
    return { json: this.#told(), status: 200 };
  }

  #told(): z.output<typeof TRIED_REMOVAL> {
    const there = this.#changed.filter(({ before }) => before !== undefined);
    const lost = there.filter(({ after }) => after === undefined);
    const counts: Record<string, number> = {};
    for (const { entity } of lost) counts[entity] = (counts[entity] ?? 0) + 1;
    return {
      dry_run: true,
      counts,
      lost: lost.slice(0, SHOWN).map(thing),
      changed: there
        .filter(({ after }) => after !== undefined)
        .slice(0, SHOWN)
        .map(thing),
      left: lost.flatMap(({ entity, before }) => naming(entity, before, this.#services)).slice(0, SHOWN),
    };
  }

  async #take(effect: Effect, object: string | undefined): Promise<void> {
    if (effect.op === 'add' || !isToldEntity(effect.space) || NOTES.has(effect.space)) return;
    const { space, key } = effect;
    const before = await this.#services.audit.stored(space, key);
    this.#changed.push({ entity: space, object, before, after: effect.op === 'put' ? effect.value : undefined });
  }
}

/** A thing that is gone as it was; one that changes by the members that do. */
function thing({ entity, object, before, after }: Changed): Thing {
  const values = changesOf(entity, before, after).flatMap(({ member, before_value: was, after_value: is }) => {
    const value = after === undefined ? was : is;
    return value === undefined ? [] : [[member, value] as const];
  });
  return { entity, ...optional('object', object), ...optional('name', nameOfThing(entity, before)), values: Object.fromEntries(values) };
}

/**
 * What names a workload or a project that is gone: it stays, and counts for nothing or for a name that is no longer
 * registered.
 */
function naming(entity: string, value: unknown, { budgets, workloads }: OperationServices): readonly Thing[] {
  if ((entity !== 'workload' && entity !== 'project') || typeof value !== 'object' || value === null) return [];
  const { org_id: org, [`${entity}_id`]: id } = value as Readonly<Record<string, unknown>>;
  if (typeof org !== 'string' || typeof id !== 'string') return [];
  const told = (kind: string, object: string, one: unknown) => thing({ entity: kind, object, before: one, after: undefined });
  const limits = budgets.service
    .list(org)
    .filter(({ limit }) => limit.scope === entity && limit.scope_id === id)
    .map(({ limit }) => told('budget_limit', limit.limit_id, limit));
  if (entity === 'workload') return limits;
  const charged = workloads.list().filter(({ org_id: own = org, default_attribution: of }) => own === org && of?.project_id === id);
  return [...limits, ...charged.map((one) => told('workload', one.workload_id, one))];
}
