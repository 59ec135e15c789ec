import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { chosenOf, hrefWith } from '../kit/place.ts';
import { FilterChip, OF_ANOTHER_LIST, setFilter } from '../pieces/filter-chip.tsx';
import { Options } from '../pieces/options.tsx';
import { WORDS } from '../words.ts';

const W = WORDS.calls;
const HOUR_MS = 3_600_000;

/** How far back, by the value of `range` in the address. */
export const RANGES = { '1h': HOUR_MS, '6h': 6 * HOUR_MS, '24h': 24 * HOUR_MS, '7d': 7 * 24 * HOUR_MS, '30d': 30 * 24 * HOUR_MS } as const;
type Range = keyof typeof RANGES;
const USUAL: Range = '24h';

export function rangeOf(query: URLSearchParams): { readonly name: Range; readonly ms: number; readonly word: string } {
  const name = chosenOf(query.get('range'), WORDS.ranges, USUAL);
  return { name, ms: RANGES[name], word: WORDS.ranges[name] };
}

/** Filters of which the values are known; every other one is a text. */
const CHOICES: Readonly<Partial<Record<string, Readonly<Record<string, string>>>>> = {
  decision: {
    allow: WORDS.decisions.allow,
    downgrade: WORDS.decisions.downgrade,
    deny: WORDS.decisions.deny,
    rate_limit: WORDS.decisions.rate_limit,
    require_approval: WORDS.decisions.require_approval,
    require_attribution: WORDS.decisions.require_attribution,
    quarantine: WORDS.decisions.quarantine,
    error: WORDS.decisions.error,
  },
  traffic_class: { developer: 'developer', ambient: 'ambient' },
  connection_type: { direct_api: 'API', sdk_redirect: 'base URL', connect_proxy: 'HTTPS_PROXY' },
  cost_doubt: W.doubts,
  stream_outcome: { complete: 'complete', aborted: 'aborted', error: 'error' },
  record_tier: { action: 'action', connection: 'connection', usage: 'usage' },
};

const FIRST = ['decision', 'workload_id', 'model', 'provider', 'project', 'min_cost_usd'] as const;
const OTHERS = [
  'caller_id',
  'connection_type',
  'traffic_class',
  'target_host',
  'reason_code',
  'cost_doubt',
  'stream_outcome',
  'customer',
  'account',
  'label_key',
  'label_value',
  'caller_ip',
  'credential_id',
  'api_key_id',
  'node',
  'record_tier',
  'action_type',
] as const;

/** Every filter of the list of records, by the name that it has there and in the address. */
export const FILTERS = [...FIRST, ...OTHERS] as const;

export function CallFilters({ query }: { readonly query: URLSearchParams }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const shown = FILTERS.filter((name) => isOpen || (FIRST as readonly string[]).includes(name) || query.has(name));
  const hasAny = FILTERS.some((name) => query.has(name));
  return (
    <div class="chips">
      <span class="chip">
        <label>
          {W.filters.range}{' '}
          <select value={rangeOf(query).name} onChange={(event) => setFilter('range', event.currentTarget.value)}>
            <Options of={WORDS.ranges} />
          </select>
        </label>
      </span>
      {shown.map((name) => (
        <FilterChip key={name} name={name} word={W.filters[name]} value={query.get(name) ?? ''} choices={CHOICES[name]} />
      ))}
      <button type="button" class="chip" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {isOpen ? W.fewer : W.more}
      </button>
      {hasAny && (
        <a class="btn quiet" href={hrefWith({ ...Object.fromEntries(FILTERS.map((name) => [name, undefined])), ...OF_ANOTHER_LIST })}>
          {WORDS.filters.clear}
        </a>
      )}
    </div>
  );
}
