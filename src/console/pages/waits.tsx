import type { JSX } from 'preact';
import type { Answer } from '../kit/ask.ts';
import { hrefOf } from '../kit/place.ts';
import { ago, count, money, span, together } from '../kit/shown-values.ts';
import { Decision } from '../pieces/decision.tsx';
import { Empty } from '../pieces/states.tsx';
import { WORDS } from '../words.ts';
import { leftOf, whatOf, whoAsks } from './approvals-page.tsx';
import { whoGoes } from './domains-page.tsx';

export type Overview = Answer<'GET /mgmt/v1/overview'>;
const W = WORDS.now;
const MOST_ROWS = 6;

/** Something that somebody has to look at. */
interface Waiting {
  readonly key: string;
  /** Where it is seen to; undefined: it is only told. */
  readonly href?: string;
  readonly sign: JSX.Element;
  readonly what: string;
  readonly note: string;
}

/** What waits for who looks, what stands on an open connection first. */
export function Waits({ now }: { readonly now: Overview }): JSX.Element {
  const rows = [...stopsOf(now), ...approvalsOf(now), ...failuresOf(now), ...strangersOf(now), ...warningsOf(now)];
  return (
    <section class="card">
      <header>
        <h2>{W.waits}</h2>
        <span class="more">{rows.length}</span>
      </header>
      {rows.length === 0 ? (
        <Empty title={W.nothingWaits}>{W.nothingWaitsHint}</Empty>
      ) : (
        <ul class="list">
          {rows.slice(0, MOST_ROWS).map((row) => (
            <li key={row.key}>
              <Row row={row} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Row({ row: { href, sign, what, note } }: { readonly row: Waiting }): JSX.Element {
  const inner = (
    <>
      {sign}
      <div>
        {what}
        {note !== '' && <div class="note">{note}</div>}
      </div>
    </>
  );
  if (href === undefined) return <div class="row">{inner}</div>;
  return (
    <a class="row" href={href}>
      {inner}
      <span class="r dim" aria-hidden="true">
        →
      </span>
    </a>
  );
}

function stopsOf({ stops }: Overview): readonly Waiting[] {
  return stops.map((stop) => ({ key: stop.stop_id, sign: <Dot bad />, what: WORDS.stop.stopped, note: stop.reason }));
}

function approvalsOf(now: Overview): readonly Waiting[] {
  return now.waiting.approvals.map((approval) => {
    const [rule] = approval.rule_ids;
    const cost = approval.estimated_cost_usd;
    return {
      key: approval.approval_id,
      href: hrefOf('approvals', { approval: approval.approval_id }),
      sign: <Decision of="pending" words={span(leftOf(approval, Date.parse(now.at)))} />,
      what: W.wants(whoAsks(approval)) + whatOf(approval),
      note: together(cost && W.estimated(money(cost)), rule && W.byRule(rule)),
    };
  });
}

function failuresOf({ health }: Overview): readonly Waiting[] {
  return health.connectors
    .filter(({ healthy }) => !healthy)
    .map(({ id }) => ({
      key: `connector ${id}`,
      href: hrefOf('calls', { provider: id, decision: 'error' }),
      sign: <Dot bad />,
      what: W.providerDown(id),
      note: '',
    }));
}

function strangersOf({ waiting, unmanaged_domains: domains, at }: Overview): readonly Waiting[] {
  const held = waiting.in_quarantine;
  const quarantine = {
    key: 'quarantine',
    href: hrefOf('quarantine'),
    sign: <Dot />,
    what: W.quarantined(count(held)),
    note: '',
  };
  return [
    ...(held === 0 ? [] : [quarantine]),
    ...domains.map((domain) => ({
      key: domain.domain,
      href: hrefOf('domains'),
      sign: <Dot />,
      what: W.unmanaged(domain.domain),
      note: W.unmanagedSince(whoGoes(domain), ago(domain.first_seen, Date.parse(at))),
    })),
  ];
}

function warningsOf({ health }: Overview): readonly Waiting[] {
  return health.warnings.map(({ code, message }) => ({ key: code, sign: <Dot />, what: message, note: code }));
}

function Dot({ bad = false }: { readonly bad?: boolean }): JSX.Element {
  return <span class={bad ? 'dot e' : 'dot w'} />;
}
