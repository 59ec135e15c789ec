import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { Given } from '../kit/ask.ts';
import { gatewayNow } from '../kit/gateway-time.ts';
import { useKeys } from '../kit/keyboard.ts';
import { go, hrefWith, place } from '../kit/place.ts';
import { type ListedCall, recordOf } from '../kit/record.ts';
import { useAsk } from '../kit/use-ask.ts';
import { CallsTable } from '../pieces/calls-table.tsx';
import { Empty, Problem, Skeleton } from '../pieces/states.tsx';
import { WORDS } from '../words.ts';
import { CallFilters, FILTERS, rangeOf } from './call-filters.tsx';
import { CallPanel } from './call-panel.tsx';

const W = WORDS.calls;
const ROWS = 100;
const ASKED = 'GET /mgmt/v1/records';
/** What a text may be that is no part of a model's name. */
const ALSO = ['workload_id', 'caller_id', 'project', 'target_host'] as const;

/** Why was this denied, and what would let it through? */
export function CallsPage(): JSX.Element {
  const { query } = place.value;
  const range = rangeOf(query);
  const [opened, setOpened] = useState(gatewayNow);
  // A cursor is good for the list that it was given for alone, whose beginning goes with it in the address.
  const since = timeOf(query.get('at')) ?? opened;
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? undefined]));
  const from = useMemo(() => new Date(since - range.ms).toISOString(), [since, range.ms]);
  const given = { query: { ...filters, from, limit: ROWS, cursor: query.get('cursor') ?? undefined } } as Given<typeof ASKED>;
  const { answer, refusal, again } = useAsk(ASKED, given);
  const calls = answer?.data.map(recordOf);
  const chosen = query.get('call') ?? undefined;
  const at = placeOf(calls, chosen);
  const hrefOfCall = ({ record_id: call }: ListedCall): string => hrefWith({ call });
  // Keys may come faster than a page is drawn: where somebody is is asked of the address.
  const step = (by: number): void => {
    const from = place.value.query.get('call') ?? undefined;
    const call = calls?.[placeOf(calls, from) + by];
    if (call !== undefined) go(hrefOfCall(call), from !== undefined);
  };
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    '[': () => step(-1),
    ']': () => step(1),
    '.': () => newest(),
    ...(chosen === undefined ? {} : { Escape: () => go(hrefWith({ call: undefined })) }),
  });
  const newest = (): void => {
    go(hrefWith({ cursor: undefined, at: undefined, call: undefined }), true);
    setOpened(gatewayNow());
    again();
  };
  const table =
    calls === undefined ? (
      <Skeleton rows={12} />
    ) : calls.length === 0 ? (
      <NoCalls query={query} />
    ) : (
      <>
        <CallsTable calls={calls} hrefOf={hrefOfCall} chosen={chosen} narrow={chosen !== undefined} />
        <div class="pages-line">
          {W.shown(calls.length)}
          <span class="right" />
          <button type="button" class="btn" onClick={newest}>
            {W.newest}
          </button>
          {answer?.has_more && (
            <a class="btn" href={hrefWith({ cursor: answer.next_cursor ?? undefined, at: String(since), call: undefined })}>
              {WORDS.older}
            </a>
          )}
        </div>
      </>
    );
  return (
    <div class={chosen === undefined ? '' : 'has-call'}>
      <div class="top">
        <h1>{W.title}</h1>
        <p>{W.sub(range.word)}</p>
      </div>
      <CallFilters query={query} />
      {refusal && <Problem refusal={refusal} again={again} />}
      {chosen === undefined ? (
        <div class="card calls-list">{table}</div>
      ) : (
        <div class="grid two">
          <div class="card calls-list">{table}</div>
          <CallPanel
            id={chosen}
            place={at === -1 ? undefined : { newer: calls?.[at - 1], older: calls?.[at + 1], hrefOf: hrefOfCall }}
            close={hrefWith({ call: undefined })}
          />
        </div>
      )}
    </div>
  );
}

/** Milliseconds since the epoch, as an address holds them; undefined: none that could be a time. */
function timeOf(text: string | null): number | undefined {
  return text !== null && /^\d{1,14}$/.test(text) ? Number(text) : undefined;
}

/** -1: it is not on this page. */
function placeOf(calls: readonly ListedCall[] | undefined, chosen: string | undefined): number {
  return calls?.findIndex(({ record_id: id, record_hash: hash }) => id === chosen || hash === chosen) ?? -1;
}

/** What to do where nothing fits: a text that no model has may be the name of something else. */
function NoCalls({ query }: { readonly query: URLSearchParams }): JSX.Element {
  const text = query.get('model');
  const isFiltered = FILTERS.some((name) => query.has(name));
  if (!isFiltered) return <Empty title={W.noneAtAll}>{W.noneAtAllHint}</Empty>;
  return (
    <Empty title={W.none}>
      {W.noneHint}
      {text !== null && (
        <div class="actions-line">
          {ALSO.map((name) => (
            <a class="btn" key={name} href={hrefWith({ model: undefined, [name]: text })}>
              {W.filters[name]} {text}
            </a>
          ))}
        </div>
      )}
    </Empty>
  );
}
