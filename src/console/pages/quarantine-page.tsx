import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { ask, type Given, type Item } from '../kit/ask.ts';
import { chosenOf, hrefOf, place } from '../kit/place.ts';
import { may } from '../kit/session.ts';
import { ago, longTime } from '../kit/shown-values.ts';
import { useAsk } from '../kit/use-ask.ts';
import { Badge } from '../pieces/badge.tsx';
import { NextPage } from '../pieces/next-page.tsx';
import { PresetChips } from '../pieces/preset-chips.tsx';
import { Empty, Problem, Skeleton } from '../pieces/states.tsx';
import { Sure } from '../pieces/sure.tsx';
import { TableHead } from '../pieces/table-head.tsx';
import { WORDS } from '../words.ts';

const W = WORDS.quarantine;
const C = W.columns;
const ASKED = 'GET /mgmt/v1/quarantine';
const ROWS = 100;
type Entry = Item<typeof ASKED>;
const ACTIVE: Readonly<Record<keyof typeof W.presets, boolean | undefined>> = { held: true, released: false, all: undefined };

/** Who is stopped and why, and is it safe to release? */
export function QuarantinePage(): JSX.Element {
  const { query } = place.value;
  const [entry, setEntry] = useState<Entry>();
  const preset = chosenOf(query.get('show'), W.presets, 'held');
  const given = { query: { active: ACTIVE[preset], limit: ROWS, cursor: query.get('cursor') ?? undefined } } as Given<typeof ASKED>;
  const { answer, refusal, again } = useAsk(ASKED, given);
  const close = (): void => setEntry(undefined);
  return (
    <>
      <div class="top">
        <h1>{W.title}</h1>
        <p>{W.sub}</p>
      </div>
      <PresetChips name="show" chosen={preset} of={W.presets} />
      {refusal && <Problem refusal={refusal} again={again} />}
      <section class="card" aria-label={W.title}>
        {!answer && !refusal && <Skeleton rows={4} />}
        {answer?.data.length === 0 && <Empty title={preset === 'released' ? W.noneReleased : W.none}>{W.noneHint}</Empty>}
        {answer && answer.data.length > 0 && <Entries entries={answer.data} release={setEntry} />}
        {answer && <NextPage of={answer} />}
      </section>
      {entry && (
        <Release
          entry={entry}
          close={close}
          done={() => {
            close();
            again();
          }}
        />
      )}
    </>
  );
}

function Entries({ entries, release }: { readonly entries: readonly Entry[]; readonly release: (entry: Entry) => void }): JSX.Element {
  return (
    <table class="wrapped">
      <TableHead caption={W.caption} columns={[C.who, C.why, [C.risk, 'num hide-s'], [C.since, 'hide-s'], C.state]} />
      <tbody>
        {entries.map((entry) => (
          <tr key={entry.quarantine_id}>
            <th scope="row">
              {whomOf(entry)}
              <div class="note">{W.ofWorkload(entry.workload_id)}</div>
            </th>
            <td class="fill">
              {entry.reason}
              <div class="note">
                <a class="link" href={hrefOf('calls', { range: '30d', call: entry.record_id })}>
                  {W.theCall}
                </a>{' '}
                ·{' '}
                <a class="link" href={callsOf(entry)}>
                  {W.itsCalls}
                </a>
              </div>
            </td>
            <td class="num sec hide-s">{entry.risk_score === 0 ? WORDS.none : entry.risk_score.toFixed(2)}</td>
            <td class="sec hide-s" title={longTime(entry.created_at)}>
              {ago(entry.created_at)}
            </td>
            <td>
              <State entry={entry} release={release} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Whether it holds somebody, and what can be done about it. */
function State({ entry, release }: { readonly entry: Entry; readonly release: (entry: Entry) => void }): JSX.Element {
  const { released_at: at, released_by: by, released_by_note: note } = entry;
  if (at !== null)
    return (
      <span title={longTime(at)}>
        <Badge tone="allow" sign="✓">
          {W.released}
        </Badge>
        <div class="note">{W.releasedBy(by ?? WORDS.none, note, ago(at))}</div>
      </span>
    );
  if (!may('decide'))
    return (
      <Badge tone="quarantine" sign="⊘">
        {W.held}
      </Badge>
    );
  return (
    <button type="button" class="btn" aria-label={W.releaseTitle(whomOf(entry))} onClick={() => release(entry)}>
      {W.release}
    </button>
  );
}

interface ReleaseFacts {
  readonly entry: Entry;
  readonly done: () => void;
  readonly close: () => void;
}

/** Says what a release does before it is done, and keeps for whom it was. */
function Release({ entry, done, close }: ReleaseFacts): JSX.Element {
  const release = (fields: FormData): Promise<unknown> => {
    const forWhom = String(fields.get('for') ?? '').trim();
    const body = forWhom === '' ? {} : { released_by: forWhom };
    return ask('POST /mgmt/v1/quarantine/{id}/release', { params: { id: entry.quarantine_id }, body });
  };
  const whom = whomOf(entry);
  return (
    <Sure
      title={W.releaseTitle(whom)}
      hint={W.consequence(whom, entry.reason)}
      word={W.confirm}
      isDanger={false}
      does={release}
      done={done}
      close={close}
    >
      <label>
        {may('admin') ? W.byWhom : W.forWhom}
        <input class="field" name="for" maxLength={128} autocomplete="off" />
      </label>
    </Sure>
  );
}

/** Whom an entry holds: one caller, everybody of an address who gives no name, or all of a workload. */
function whomOf({ caller_id: caller, caller_ip: address, workload_id: workload }: Entry): string {
  if (caller !== undefined) return caller;
  return address === undefined ? W.everybody(workload) : W.nameless(address);
}

/** What it has tried since. */
function callsOf({ caller_id: caller, caller_ip: address, workload_id: workload }: Entry): string {
  const whose = caller === undefined ? { caller_ip: address } : { caller_id: caller };
  return hrefOf('calls', { range: '30d', decision: 'quarantine', workload_id: workload, ...whose });
}
