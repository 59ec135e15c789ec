import type { NamedPrincipal } from './principal.ts';

/** What a stop holds: calls that have every member that it names. One without any holds all calls. */
export interface StopScope {
  readonly org?: string;
  readonly workload?: string;
  /** A connector id. */
  readonly provider?: string;
  /** Any spelling of its name. */
  readonly model?: string;
}

/** Calls that are refused, and were ended where they were under way, until somebody lets them go on. */
export interface Stop {
  /** UUIDv7. */
  readonly stop_id: string;
  /** That of the scope; absent where it names none. */
  readonly org_id?: string;
  readonly scope: StopScope;
  /** Callers are shown it. */
  readonly reason: string;
  readonly created_at: string;
  /** The principal in one word. */
  readonly created_by: string;
  readonly created_by_principal: NamedPrincipal;
  /** It was made with a key of its org, which may end it. */
  readonly by_org?: true;
  /** When it ends by itself. */
  readonly until?: string;
}

/** The members of a scope, from the widest to the narrowest. */
export const STOP_MEMBERS = ['org', 'workload', 'provider', 'model'] as const satisfies readonly (keyof StopScope)[];

/** What a scope says, for people: `org acme, model gpt-4o`. */
export function stopScopeText(scope: StopScope): string {
  const said = STOP_MEMBERS.filter((name) => scope[name] !== undefined).map((name) => `${name} ${scope[name]}`);
  return said.length === 0 ? 'all calls' : said.join(', ');
}
