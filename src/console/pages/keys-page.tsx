import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { type Answer, type AskRefusal, ask, type Item, refusalFrom } from '../kit/ask.ts';
import { gatewayNow } from '../kit/gateway-time.ts';
import { may } from '../kit/session.ts';
import { ago, dayAndMonth, longTime } from '../kit/shown-values.ts';
import { type Heard, useAsk } from '../kit/use-ask.ts';
import { CopyButton } from '../pieces/copy.tsx';
import { Options } from '../pieces/options.tsx';
import { Sheet } from '../pieces/sheet.tsx';
import { Empty, Problem, Skeleton } from '../pieces/states.tsx';
import { Sure } from '../pieces/sure.tsx';
import { TableHead, UNSEEN_HEADING } from '../pieces/table-head.tsx';
import { WORDS } from '../words.ts';

const W = WORDS.keys;
const C = W.columns;
const DAY_MS = 86_400_000;
type Key = Item<'GET /mgmt/v1/keys'>;
type Session = Item<'GET /mgmt/v1/sessions'>;
type Made = Answer<'POST /mgmt/v1/keys'>;
/** What is asked about, before it is done. */
type Sheets = { readonly is: 'new' } | { readonly is: 'revoke'; readonly key: Key } | { readonly is: 'end'; readonly session: Session };

/** Who can get in, since when, last used where? */
export function KeysPage(): JSX.Element {
  const [sheet, setSheet] = useState<Sheets>();
  const keys = useAsk('GET /mgmt/v1/keys', { query: { limit: 200 } });
  const sessions = useSessions();
  const close = (): void => setSheet(undefined);
  const done = (): void => {
    close();
    keys.again();
    sessions.again();
  };
  const make = may('write') && (
    <button type="button" class="btn primary" onClick={() => setSheet({ is: 'new' })}>
      {W.make}
    </button>
  );
  return (
    <>
      <div class="top">
        <h1>{W.title}</h1>
        <p>{W.sub}</p>
        <span class="right">{make}</span>
      </div>
      {keys.refusal && <Problem refusal={keys.refusal} again={keys.again} />}
      <section class="card spaced" aria-label={W.keys}>
        <header>
          <h2>{W.keys}</h2>
        </header>
        {!keys.answer && !keys.refusal && <Skeleton rows={4} />}
        {keys.answer?.data.length === 0 && <Empty title={W.first}>{W.firstHint}</Empty>}
        {keys.answer && keys.answer.data.length > 0 && <Keys keys={keys.answer.data} revoke={(key) => setSheet({ is: 'revoke', key })} />}
      </section>
      {sessions.refusal && <Problem refusal={sessions.refusal} again={sessions.again} />}
      <section class="card" aria-label={W.sessions}>
        <header>
          <h2>{W.sessions}</h2>
        </header>
        {!sessions.answer && !sessions.refusal && <Skeleton rows={2} />}
        {sessions.answer?.length === 0 && <Empty title={W.noSessions} />}
        {sessions.answer && sessions.answer.length > 0 && (
          <Sessions sessions={sessions.answer} end={(session) => setSheet({ is: 'end', session })} />
        )}
      </section>
      {sheet?.is === 'new' && <NewKey done={done} />}
      {sheet?.is === 'revoke' && (
        <Sure
          title={W.revokeTitle(sheet.key.name)}
          hint={W.revokeHint}
          word={W.revoke}
          does={() => ask('DELETE /mgmt/v1/keys/{id}', { params: { id: sheet.key.id } })}
          done={done}
          close={close}
        />
      )}
      {sheet?.is === 'end' && (
        <Sure
          title={W.endTitle(nameOf(sheet.session))}
          hint={W.endHint}
          word={W.end}
          does={() =>
            ask(may('admin') ? 'DELETE /v1/admin/sessions/{id}' : 'DELETE /mgmt/v1/sessions/{id}', { params: { id: sheet.session.id } })
          }
          done={done}
          close={close}
        />
      )}
    </>
  );
}

/** Those of the org; whoever holds the admin token sees its own, too. */
function useSessions(): Heard<readonly Session[]> {
  const isAdmin = may('admin');
  const all = useAsk('GET /v1/admin/sessions', isAdmin ? {} : undefined);
  const own = useAsk('GET /mgmt/v1/sessions', isAdmin ? undefined : { query: { limit: 200 } });
  return isAdmin ? { ...all, answer: all.answer?.sessions } : { ...own, answer: own.answer?.data };
}

function nameOf({ name, kind }: Session): string {
  return name ?? (kind === 'admin' ? W.adminToken : kind);
}

function Keys({ keys, revoke }: { readonly keys: readonly Key[]; readonly revoke: (key: Key) => void }): JSX.Element {
  return (
    <table>
      <TableHead
        caption={W.caption}
        columns={[
          C.name,
          [C.kind, 'hide-s'],
          [C.prefix, 'hide-m hide-s'],
          C.scopes,
          [C.since, 'hide-s'],
          C.ends,
          [W.revoke, UNSEEN_HEADING],
        ]}
      />
      <tbody>
        {keys.map((key) => (
          <tr key={key.id}>
            <th scope="row" class="cut">
              {key.name}
              {key.groups && <span class="note"> {key.groups.join(', ')}</span>}
            </th>
            <td class="hide-s sec">{key.kind}</td>
            <td class="hide-m hide-s mono sec">{key.key_prefix}…</td>
            <td>{key.scopes.join(', ')}</td>
            <td class="hide-s sec" title={longTime(key.created_at)}>
              {ago(key.created_at)}
            </td>
            <td class="sec">{key.expires_at === null ? W.never : dayAndMonth(new Date(key.expires_at))}</td>
            <td class="num">
              {may('write') && (
                <button type="button" class="btn danger" aria-label={W.revokeTitle(key.name)} onClick={() => revoke(key)}>
                  {W.revoke}
                </button>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Sessions({ sessions, end }: { readonly sessions: readonly Session[]; readonly end: (session: Session) => void }): JSX.Element {
  return (
    <table>
      <TableHead
        caption={W.sessionCaption}
        columns={[C.who, [C.from, 'hide-s'], [C.since, 'hide-s'], C.last, C.ends, [W.end, UNSEEN_HEADING]]}
      />
      <tbody>
        {sessions.map((session) => (
          <tr key={session.id}>
            <th scope="row" class="cut">
              {nameOf(session)} {session.current && <span class="note">({W.current})</span>}
            </th>
            <td class="hide-s sec cut" title={session.browser}>
              {session.address}
            </td>
            <td class="hide-s sec" title={longTime(session.made_at)}>
              {ago(session.made_at)}
            </td>
            <td class="sec" title={longTime(session.last_seen_at)}>
              {ago(session.last_seen_at)}
            </td>
            <td class="sec" title={longTime(session.expires_at)}>
              {dayAndMonth(new Date(session.expires_at))}
            </td>
            <td class="num">
              {may('write') && (
                <button type="button" class="btn danger" aria-label={W.endTitle(nameOf(session))} onClick={() => end(session)}>
                  {W.end}
                </button>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Makes a key and shows it once. */
function NewKey({ done }: { readonly done: () => void }): JSX.Element {
  const [made, setMade] = useState<Made>();
  const [refusal, setRefusal] = useState<AskRefusal>();
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.currentTarget as HTMLFormElement)) as Readonly<Record<string, string>>;
    const groups = (given['groups'] ?? '')
      .split(',')
      .map((group) => group.trim())
      .filter((group) => group !== '');
    const days = Number(given['ends'] ?? '');
    try {
      setMade(
        await ask('POST /mgmt/v1/keys', {
          body: {
            name: given['name']?.trim() ?? '',
            kind: given['kind'] as Key['kind'],
            scopes: (given['scopes'] ?? 'read').split(',') as Key['scopes'][number][],
            ...(groups.length === 0 ? {} : { groups }),
            ...(days > 0 ? { expires_at: new Date(gatewayNow() + days * DAY_MS).toISOString() } : {}),
          },
        }),
      );
    } catch (error) {
      setRefusal(refusalFrom(error));
    }
  };
  if (made !== undefined)
    return (
      <Sheet title={made.name} close={done}>
        <div class="body">
          <p>{W.made}</p>
          <pre class="command" data-secret="">
            {made.key}
          </pre>
          <div class="actions">
            <CopyButton text={() => made.key}>{W.copy}</CopyButton>
            <button type="button" class="btn primary" onClick={done}>
              {W.done}
            </button>
          </div>
        </div>
      </Sheet>
    );
  return (
    <Sheet title={W.makeTitle} close={done}>
      <form class="form" onSubmit={submit}>
        {refusal && <Problem refusal={refusal} />}
        <label>
          {W.name}
          <input class="field" name="name" required maxLength={128} autocomplete="off" />
        </label>
        <Choice label={W.kind} name="kind" of={W.kinds} />
        <Choice label={W.scopes} name="scopes" of={W.scopeSets} />
        <label>
          {W.groups}
          <input class="field" name="groups" autocomplete="off" spellcheck={false} />
        </label>
        <Choice label={W.ends} name="ends" of={W.endsAfter} />
        <div class="actions">
          <button type="button" class="btn" onClick={done}>
            {WORDS.cancel}
          </button>
          <button type="submit" class="btn primary">
            {W.create}
          </button>
        </div>
      </form>
    </Sheet>
  );
}

function Choice({
  label,
  name,
  of,
}: {
  readonly label: string;
  readonly name: string;
  readonly of: Readonly<Record<string, string>>;
}): JSX.Element {
  return (
    <label>
      {label}
      <select class="field" name={name}>
        <Options of={of} />
      </select>
    </label>
  );
}
