import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { AuditChange, AuditEntry } from '../../base/model/audit-entry.ts';
import { principalText, principalWord } from '../../base/model/principal.ts';
import { tellsMore } from '../../base/model/told-changes.ts';
import type { Answer, Given } from '../kit/ask.ts';
import { useKeys } from '../kit/keyboard.ts';
import { chosenOf, go, hrefWith, place } from '../kit/place.ts';
import { longTime, shortTime } from '../kit/shown-values.ts';
import { useAsk } from '../kit/use-ask.ts';
import { FilterChip, OF_ANOTHER_LIST } from '../pieces/filter-chip.tsx';
import { NextPage } from '../pieces/next-page.tsx';
import { Empty, Problem, Skeleton } from '../pieces/states.tsx';
import { TableHead } from '../pieces/table-head.tsx';
import { WORDS } from '../words.ts';
import { RANGES } from './call-filters.tsx';

const W = WORDS.audit;
const C = W.columns;
const ASKED = 'GET /mgmt/v1/audit';
const ROWS = 100;
const TEXTS = ['principal', 'operation', 'object'] as const;
const MOST_CHANGES = 2;
const CLOSED = { entry: undefined, at: undefined };
type Entry = AuditEntry;
type Change = AuditChange;

/** Who changed what? */
export function AuditPage(): JSX.Element {
  const { query } = place.value;
  const [since] = useState(() => Date.now());
  const range = chosenOf(query.get('range'), W.ranges, '');
  const filters = Object.fromEntries(TEXTS.map((name) => [name, query.get(name) ?? undefined]));
  const from = useMemo(() => (range === '' ? undefined : new Date(since - RANGES[range]).toISOString()), [since, range]);
  const given = { query: { ...filters, from, limit: ROWS, cursor: query.get('cursor') ?? undefined } } as Given<typeof ASKED>;
  const { answer, refusal, again } = useAsk(ASKED, given);
  const entries = answer && entriesOf(answer);
  const chosen = query.get('entry') ?? undefined;
  const step = (by: number): void => {
    const open = place.value.query.get('entry');
    const next = entries?.[entries.findIndex(({ audit_id: id }) => id === open) + by];
    if (next !== undefined) go(hrefOfEntry(next), open !== null);
  };
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    '[': () => step(-1),
    ']': () => step(1),
    Escape: () => go(hrefWith(CLOSED)),
  });
  const list = (
    <section class="card calls-list" aria-label={W.title}>
      {!answer && !refusal && <Skeleton rows={12} />}
      {entries?.length === 0 && <NoEntries isFiltered={TEXTS.some((name) => query.has(name)) || range !== ''} />}
      {entries && entries.length > 0 && <Entries entries={entries} chosen={chosen} />}
      {answer && <NextPage of={answer} />}
    </section>
  );
  return (
    <div class={chosen === undefined ? '' : 'has-call'}>
      <div class="top">
        <h1>{W.title}</h1>
        <p>{W.sub}</p>
      </div>
      <Filters query={query} />
      {refusal && <Problem refusal={refusal} again={again} />}
      {chosen === undefined ? (
        list
      ) : (
        <div class="grid two">
          {list}
          {entries && <EntryPanel key={chosen} id={chosen} known={entries.find(({ audit_id: id }) => id === chosen)} />}
        </div>
      )}
    </div>
  );
}

/** What the operation answers is what the trail keeps. */
function entriesOf({ data }: Answer<typeof ASKED>): readonly Entry[] {
  return data as readonly AuditEntry[];
}

/** With its time, by which it is found when it is on another page of the list by then. */
function hrefOfEntry({ audit_id: entry, at }: Entry): string {
  return hrefWith({ entry, at });
}

function Filters({ query }: { readonly query: URLSearchParams }): JSX.Element {
  const names = [...TEXTS, 'range'] as const;
  const { '': any, ...ranges } = W.ranges;
  return (
    <div class="chips">
      {names.map((name) => (
        <FilterChip
          key={name}
          name={name}
          word={W.filters[name]}
          value={query.get(name) ?? ''}
          choices={name === 'range' ? ranges : undefined}
        />
      ))}
      {names.some((name) => query.has(name)) && (
        <a class="btn quiet" href={hrefWith({ ...Object.fromEntries(names.map((name) => [name, undefined])), ...OF_ANOTHER_LIST })}>
          {WORDS.filters.clear}
        </a>
      )}
    </div>
  );
}

function NoEntries({ isFiltered }: { readonly isFiltered: boolean }): JSX.Element {
  return isFiltered ? <Empty title={W.none}>{W.noneHint}</Empty> : <Empty title={W.noneAtAll}>{W.noneAtAllHint}</Empty>;
}

function Entries({ entries, chosen }: { readonly entries: readonly Entry[]; readonly chosen: string | undefined }): JSX.Element {
  const isNarrow = chosen !== undefined;
  return (
    <table class="wrapped">
      <TableHead caption={W.caption} columns={[C.time, C.what, [C.who, 'hide-s'], !isNarrow && [C.changes, 'hide-m hide-s']]} />
      <tbody>
        {entries.map((entry) => (
          <tr key={entry.audit_id} data-chosen={entry.audit_id === chosen ? '' : undefined}>
            <td class="mono sec" title={longTime(entry.at)}>
              <a class="cover" href={hrefOfEntry(entry)} data-stays="" aria-current={entry.audit_id === chosen ? 'true' : undefined}>
                {shortTime(entry.at)}
              </a>
            </td>
            <td>
              {W.operation(entry.operation)}
              <div class="note">{entry.object_name ?? entry.object}</div>
            </td>
            <td class="hide-s">{principalWord(entry.principal, entry.principal.user)}</td>
            {!isNarrow && (
              <td class="fill hide-m hide-s">
                <Summary entry={entry} />
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The first of its changes, for a row. */
function Summary({ entry }: { readonly entry: Entry }): JSX.Element {
  const told = toldOf(entry);
  const more = told.length - MOST_CHANGES + (entry.more_changes ?? 0);
  return (
    <>
      {told.slice(0, MOST_CHANGES).map((change) => (
        <div class="note" key={nameOf(change)}>
          {W.change(nameOf(change), shownOf(change.before, change.before_value), shownOf(change.after, change.after_value))}
        </div>
      ))}
      {more > 0 && <div class="note">{W.more(more)}</div>}
    </>
  );
}

function toldOf(entry: Entry): readonly Change[] {
  return entry.changes.filter((change) => tellsMore(change, entry));
}

function nameOf({ rule, member }: Change): string {
  if (rule === undefined) return member;
  return member === 'rule' ? rule : `${rule}: ${member}`;
}

/** Undefined: there was none. @param value undefined: it is a secret, or may be one */
function shownOf(hash: string | null, value: string | undefined): string | undefined {
  return hash === null ? undefined : (value ?? W.notShown);
}

/** One entry, with all that it says. @param known undefined: it is not on this page of the list, and is asked for */
function EntryPanel({ id, known }: { readonly id: string; readonly known: Entry | undefined }): JSX.Element {
  const moment = known === undefined ? momentAsked() : undefined;
  const asked = useAsk(ASKED, moment);
  const entry = known ?? (asked.answer && entriesOf(asked.answer))?.find(({ audit_id: one }) => one === id);
  const { refusal } = asked;
  return (
    <section class="card" aria-label={W.entry}>
      <header>
        <h2>{entry ? W.operation(entry.operation) : W.entry}</h2>
        <span class="more">
          <a href={hrefWith(CLOSED)} data-stays="" aria-label={WORDS.call.close} title={WORDS.call.close}>
            ✕
          </a>
        </span>
      </header>
      {refusal && <Problem refusal={refusal} again={asked.again} />}
      {entry === undefined && moment && asked.answer === undefined && !refusal && <Skeleton />}
      {entry === undefined && (moment === undefined || asked.answer) && <Empty title={W.gone} />}
      {entry && <EntryFacts entry={entry} />}
    </section>
  );
}

/** The moment in which it was made, which stands in the address beside its id. Undefined: there is none. */
function momentAsked(): Given<typeof ASKED> | undefined {
  const at = Date.parse(place.value.query.get('at') ?? '');
  if (Number.isNaN(at)) return undefined;
  return { query: { from: new Date(at).toISOString(), to: new Date(at + 1).toISOString(), limit: ROWS } };
}

function EntryFacts({ entry }: { readonly entry: Entry }): JSX.Element {
  const F = W.facts;
  const { object, object_name: name, node_id: node, principal } = entry;
  const told = toldOf(entry);
  return (
    <>
      <div class="pad">
        <dl class="kv">
          <dt>{F.when}</dt>
          <dd>{longTime(entry.at)}</dd>
          <dt>{F.who}</dt>
          <dd>
            <a href={hrefWith({ principal: principal.name ?? principal.user ?? principal.id, ...OF_ANOTHER_LIST })}>
              {principalText(principal)}
            </a>
          </dd>
          <dt>{F.what}</dt>
          <dd class="mono">
            <a href={hrefWith({ operation: entry.operation, ...OF_ANOTHER_LIST })}>{entry.operation}</a>
          </dd>
          {object !== undefined && (
            <>
              <dt>{F.object}</dt>
              <dd>
                <a href={hrefWith({ object, ...OF_ANOTHER_LIST })}>{name ?? object}</a>
                {name !== undefined && <div class="note mono">{object}</div>}
              </dd>
            </>
          )}
          <dt>{F.from}</dt>
          <dd>{node === undefined ? entry.from : W.atNode(entry.from, node)}</dd>
        </dl>
      </div>
      {told.length > 0 && <Changes changes={told} />}
      <div class="pad note">
        {told.length === 0 && W.noChanges} {entry.more_changes !== undefined && W.notKept(entry.more_changes)} {W.hashes}
      </div>
    </>
  );
}

/** Before and after, member by member. */
function Changes({ changes }: { readonly changes: readonly Change[] }): JSX.Element {
  return (
    <table class="rules">
      <TableHead caption={W.changesCaption} columns={[C.member, C.before, C.after]} />
      <tbody>
        {changes.map((change) => (
          <tr key={`${change.entity} ${nameOf(change)}`}>
            <th scope="row">{nameOf(change)}</th>
            <td title={change.before ?? undefined}>{change.before === null ? <Nothing /> : shownOf(change.before, change.before_value)}</td>
            <td title={change.after ?? undefined}>{change.after === null ? <Nothing /> : shownOf(change.after, change.after_value)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Nothing(): JSX.Element {
  return <span class="dim">{W.nothing}</span>;
}
