import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type AskRefusal, ask, type Item, refusalFrom } from '../kit/ask.ts';
import { gatewayNow } from '../kit/gateway-time.ts';
import { useKeys } from '../kit/keyboard.ts';
import { go, hrefOf, hrefWith, place } from '../kit/place.ts';
import { belongingOf } from '../kit/record.ts';
import { may } from '../kit/session.ts';
import { ago, bytes, count, longTime, money, span, together } from '../kit/shown-values.ts';
import { useAsk } from '../kit/use-ask.ts';
import { tellWaiting } from '../kit/waiting.ts';
import { Decision } from '../pieces/decision.tsx';
import { Key } from '../pieces/key.tsx';
import { Empty, Problem, Skeleton } from '../pieces/states.tsx';
import { WORDS } from '../words.ts';

const W = WORDS.approvals;
const ASKED = 'GET /mgmt/v1/approvals';
const EVERY_MS = 3_000;
/** The longest page that the list has. */
const MOST_WAIT = 200;
const LATELY = 50;
export type Approval = Item<typeof ASKED>;

/** What exactly am I letting through, who asks, what does it cost, what happens if I say yes? */
export function ApprovalsPage(): JSX.Element {
  const { query } = place.value;
  const now = useSeconds();
  const { all, waits, hasMore, refusal, again } = useApprovals(now);
  useEffect(() => {
    if (all) tellWaiting(waits, hasMore);
  }, [all, waits, hasMore]);
  const asked = query.get('approval');
  const [read, setRead] = useState<string>();
  const [decided, setDecided] = useState<string>();
  const found = (id: string | null | undefined): Approval | undefined => all?.find(({ approval_id: known }) => known === id);
  const chosen = asked === null ? (stillRead(found(read), decided) ?? all?.[0]) : found(asked);
  // What somebody reads stays before him, whatever comes meanwhile: his next key is meant for it.
  const { approval_id: id } = chosen ?? {};
  useEffect(() => setRead(id), [id]);
  const step = (by: number): void => {
    const next = all?.[(chosen === undefined ? -1 : all.indexOf(chosen)) + by];
    if (next) go(hrefWith({ approval: next.approval_id }), true);
  };
  useKeys({ j: () => step(1), k: () => step(-1) });
  return (
    <>
      <div class="top">
        <h1>{W.title}</h1>
        <p>{all && W.wait(waits, hasMore)}</p>
      </div>
      {refusal && <Problem refusal={refusal} again={again} />}
      {!all && !refusal && (
        <div class="card">
          <Skeleton />
        </div>
      )}
      {all?.length === 0 && (
        <div class="card">
          <Empty title={W.none}>{W.noneHint}</Empty>
        </div>
      )}
      {all && all.length > 0 && (
        <div class="grid two">
          {chosen ? (
            <ApprovalCard
              key={id}
              approval={chosen}
              now={now}
              again={() => {
                setDecided(id);
                again();
              }}
            />
          ) : (
            <Elsewhere key={asked} id={asked} now={now} again={again} />
          )}
          <section class="card">
            <header>
              <h2>{W.next}</h2>
            </header>
            <ul class="list">
              {all.map((approval) => (
                <li key={approval.approval_id}>
                  <a
                    class="row"
                    href={hrefWith({ approval: approval.approval_id })}
                    data-stays=""
                    aria-current={approval === chosen ? 'true' : undefined}
                  >
                    <Decision of={approval.status} {...(approval.status === 'pending' ? { words: span(leftOf(approval, now)) } : {})} />
                    <div>
                      {`${whoAsks(approval)}: ${whatOf(approval)}`}
                      <div class="note">{noteOf(approval)}</div>
                    </div>
                  </a>
                </li>
              ))}
            </ul>
            {hasMore && <p class="pad note">{W.moreWait(count(MOST_WAIT))}</p>}
          </section>
        </div>
      )}
    </>
  );
}

/**
 * All that wait, however old, and those that were opened last, in the order of what is urgent. A list of the newest
 * alone would hide a request that waits behind many that were decided.
 */
function useApprovals(now: number) {
  const pending = useAsk(ASKED, { query: { status: 'pending', limit: MOST_WAIT } }, EVERY_MS);
  const newest = useAsk(ASKED, { query: { limit: LATELY } }, EVERY_MS);
  const waiting = pending.answer?.data;
  const last = newest.answer?.data;
  const again = (): void => {
    pending.again();
    newest.again();
  };
  const hasMore = pending.answer?.has_more ?? false;
  const refusal = pending.refusal ?? newest.refusal;
  if (waiting === undefined || last === undefined) return { all: undefined, waits: 0, hasMore, refusal, again };
  // Of two answers that were given a moment apart, what is decided is the later word.
  const byId = new Map([...waiting, ...last].map((one) => [one.approval_id, one]));
  for (const one of waiting) if (byId.get(one.approval_id)?.status === 'pending') byId.set(one.approval_id, one);
  const all = [...byId.values()].sort((a, b) => urgencyOf(a, now) - urgencyOf(b, now));
  return { all, waits: all.filter(({ status }) => status === 'pending').length, hasMore, refusal, again };
}

/** What was read before, unless whoever reads has just decided it: then the next one comes. */
function stillRead(read: Approval | undefined, decided: string | undefined): Approval | undefined {
  return read?.status !== 'pending' && read?.approval_id === decided ? undefined : read;
}

interface ElsewhereFacts {
  readonly id: string | null;
  readonly now: number;
  readonly again: () => void;
}

/** One that an address names, and that is in no list any more. */
function Elsewhere({ id, now, again }: ElsewhereFacts): JSX.Element {
  const { answer, refusal } = useAsk(ASKED, id === null ? undefined : { query: { approval_id: id } });
  const [found] = answer?.data ?? [];
  if (refusal) return <Problem refusal={refusal} />;
  if (found) return <ApprovalCard approval={found} now={now} again={again} />;
  return <Empty title={id === null ? W.choose : answer ? W.gone : WORDS.loading} />;
}

/** Held ones first, then those that end soonest; behind them what is decided, the newest first. */
function urgencyOf(approval: Approval, now: number): number {
  if (approval.status !== 'pending') return 1e15 - Date.parse(approval.decided_at ?? approval.created_at);
  return leftOf(approval, now) - (approval.held ? 1e12 : 0);
}

/** Milliseconds. */
export function leftOf({ held, expires_at: end }: Approval, now: number): number {
  return Math.max(0, Date.parse(held?.until ?? end) - now);
}

export function whoAsks({ workload_id: workload, caller_id: caller, principal_id: person }: Approval): string {
  return [caller ?? workload, person].filter((part) => part !== undefined && part !== '').join(' for ');
}

export function whatOf({ action }: Approval): string {
  return action.model ?? `${action.method} ${action.target_host}`;
}

function noteOf({ status, estimated_cost_usd: cost, decided_by: by, decided_at: at, executed_at: sent }: Approval): string {
  if (status === 'pending') return cost === undefined ? '' : WORDS.now.estimated(money(cost));
  if (status === 'expired' || status === 'withdrawn') return W.ended[status];
  return `${W.decided(status, by ?? '', at === null ? '' : ago(at))}${sent === undefined ? '' : `. ${W.executed}`}`;
}

function ApprovalCard({
  approval,
  now,
  again,
}: {
  readonly approval: Approval;
  readonly now: number;
  readonly again: () => void;
}): JSX.Element {
  const { status, held } = approval;
  const left = span(leftOf(approval, now));
  return (
    <section class="card" aria-label={W.asks(whoAsks(approval), whatOf(approval))}>
      <header>
        <Decision of={status} {...(status === 'pending' ? { words: held ? W.heldFor(left) : W.left(left) } : {})} />
        <h2>{W.asks(whoAsks(approval), whatOf(approval))}</h2>
      </header>
      <div class="pad">
        <p class="consequence">{status === 'pending' ? consequenceOf(approval) : noteOf(approval)}</p>
        <ApprovalFacts approval={approval} />
      </div>
      {status === 'pending' && (may('decide') ? <Decide approval={approval} again={again} /> : <div class="decide note">{W.readOnly}</div>)}
    </section>
  );
}

/** What a yes does, before anybody says it. */
function consequenceOf(approval: Approval): string {
  const { held, action, needs, on_approval: does, estimated_cost_usd: cost } = approval;
  // Who else has to say yes, and of which groups, is counted in one place: by the gateway.
  const ofSeveral = needs === undefined || does === undefined ? undefined : W.yesCounts(does);
  const parts = [ofSeveral ?? (held ? W.yesHeld(action.target_host) : W.yesLater(action.target_host))];
  if (cost !== undefined) parts.push(W.mayCost(money(cost)));
  return parts.join(' ');
}

function ApprovalFacts({ approval }: { readonly approval: Approval }): JSX.Element {
  const { action, attribution, decisions = [], needs } = approval;
  const F = W.facts;
  const sizes = Object.entries(action.param_sizes)
    .map(([name, size]) => `${name} ${bytes(Number(size))}`)
    .join(', ');
  const belongs = belongingOf(attribution);
  return (
    <dl class="kv">
      <dt>{F.who}</dt>
      <dd>{together(whoAsks(approval), approval.caller_ip)}</dd>
      <dt>{F.why}</dt>
      <dd>
        {approval.rule_ids.map((rule) => (
          <code key={rule}>{rule} </code>
        ))}
        {approval.reason}
      </dd>
      {belongs !== '' && (
        <>
          <dt>{F.what}</dt>
          <dd>{belongs}</dd>
        </>
      )}
      <dt>{F.request}</dt>
      <dd class="mono">
        {[`${action.method} ${action.target_host}${action.target_path}`, action.model, action.stream ? 'stream' : undefined]
          .filter((part) => part !== undefined)
          .join(' · ')}
      </dd>
      <dt>{F.content}</dt>
      <dd>{action.params === undefined ? W.noContent(sizes) : <pre class="command">{JSON.stringify(action.params, undefined, 2)}</pre>}</dd>
      {(needs !== undefined || decisions.length > 0) && (
        <>
          <dt>{F.people}</dt>
          <dd>
            {needs?.map(({ required, group }) => `${required}${group === undefined ? '' : ` of ${group}`}`).join(', ')}{' '}
            {decisions.length === 0
              ? W.nobodyYet
              : decisions.map((one) => `${one.status}: ${W.saidSo(one.decided_by, ago(one.decided_at))}`).join('; ')}
          </dd>
        </>
      )}
      <dt>{F.until}</dt>
      <dd>{longTime(approval.held?.until ?? approval.expires_at)}</dd>
      <dt>{F.record}</dt>
      <dd>
        <a href={hrefOf('calls', { range: '30d', call: approval.record_id })}>
          <span class="mono">{approval.record_id}</span>
        </a>
      </dd>
    </dl>
  );
}

/** A letter chooses, Enter confirms the sentence: no single key decides. */
function Decide({ approval, again }: { readonly approval: Approval; readonly again: () => void }): JSX.Element {
  const [choice, setChoice] = useState<'approve' | 'deny'>();
  const [reason, setReason] = useState('');
  const [refusal, setRefusal] = useState<AskRefusal>();
  const [isAsked, setAsked] = useState(false);
  const choose = (chosen: typeof choice) => (): void => setChoice(chosen);
  const confirm = async (): Promise<void> => {
    if (choice === undefined || isAsked) return;
    setAsked(true);
    try {
      await ask(`POST /mgmt/v1/approvals/{id}/${choice}`, {
        params: { id: approval.approval_id },
        body: reason.trim() === '' ? {} : { reason: reason.trim() },
      });
      setRefusal(undefined);
    } catch (error) {
      setRefusal(refusalFrom(error));
    }
    setChoice(undefined);
    setAsked(false);
    again();
  };
  const yes = useRef<HTMLButtonElement>(null);
  // Once: whoever goes on to *Cancel* is not called back.
  useEffect(() => {
    if (choice !== undefined) yes.current?.focus();
  }, [choice]);
  const Enter: Readonly<Record<string, () => void>> = choice === undefined ? {} : { Enter: () => void confirm() };
  useKeys({ a: choose('approve'), d: choose('deny'), Escape: choose(undefined), ...Enter });
  return (
    <>
      {refusal && <Problem refusal={refusal} />}
      <div class="decide">
        {choice === undefined ? (
          <>
            <button type="button" class="btn primary" onClick={choose('approve')}>
              {W.approve} <Key>a</Key>
            </button>
            <button type="button" class="btn danger" onClick={choose('deny')}>
              {W.deny} <Key>d</Key>
            </button>
            <input
              class="field"
              aria-label={W.reason}
              placeholder={W.reason}
              maxLength={256}
              value={reason}
              onInput={(event) => setReason(event.currentTarget.value)}
            />
          </>
        ) : (
          <>
            <div role="status">{choice === 'approve' ? W.thenYes(consequenceOf(approval)) : W.thenNo}</div>
            <button
              type="button"
              class={`btn primary${choice === 'deny' ? ' danger' : ''}`}
              disabled={isAsked}
              ref={yes}
              onClick={() => void confirm()}
            >
              {choice === 'approve' ? W.confirmYes : W.confirmNo} <Key>Enter</Key>
            </button>
            <button type="button" class="btn quiet" onClick={choose(undefined)}>
              {WORDS.cancel}
            </button>
          </>
        )}
      </div>
    </>
  );
}

/** The time, each second: what is left of it is shown. */
function useSeconds(): number {
  const [now, setNow] = useState(gatewayNow);
  useEffect(() => {
    const timer = setInterval(() => setNow(gatewayNow()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
