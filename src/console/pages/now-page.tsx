import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { heardTime } from '../kit/gateway-time.ts';
import { useKeys } from '../kit/keyboard.ts';
import { chosenOf, go, hrefOf, hrefWith, place } from '../kit/place.ts';
import { type ListedCall, recordOf } from '../kit/record.ts';
import { ago, count, hourAndMinute, money, percentOf, share, zone } from '../kit/shown-values.ts';
import { useAsk } from '../kit/use-ask.ts';
import { tellWaiting } from '../kit/waiting.ts';
import { Bar } from '../pieces/bar.tsx';
import { CallsTable } from '../pieces/calls-table.tsx';
import { Chart } from '../pieces/chart.tsx';
import type { ChartFacts } from '../pieces/chart-facts.ts';
import { Key } from '../pieces/key.tsx';
import { Options } from '../pieces/options.tsx';
import { Empty, Problem, Skeleton } from '../pieces/states.tsx';
import { Tile } from '../pieces/tile.tsx';
import { WORDS } from '../words.ts';
import { type Overview, Waits } from './waits.tsx';

const W = WORDS.now;
const EVERY_MS = 5_000;
const { '1h': hour, '6h': hours, '24h': day } = WORDS.ranges;
const WINDOWS = { '1h': hour, '6h': hours, '24h': day } as const;
type Window = keyof typeof WINDOWS;
const WINDOW_MINUTES: Readonly<Record<Window, number>> = { '1h': 60, '6h': 360, '24h': 1440 };
const PERMITTING = ['allow', 'downgrade'];

/** Is it working, and does anybody wait for me? */
export function NowPage(): JSX.Element {
  const window = chosenOf(place.value.query.get('range'), WINDOWS, '24h');
  const { answer, refusal, again } = useAsk('GET /mgmt/v1/overview', { query: { window, tz: zone() } }, EVERY_MS);
  useEffect(() => {
    if (answer === undefined) return;
    heardTime(answer.at);
    tellWaiting(answer.waiting.approvals.length, answer.waiting.more);
  }, [answer]);
  return (
    <>
      <div class="top">
        <h1>{WORDS.nav.now}</h1>
        {answer ? <State now={answer} /> : <p>{W.question}</p>}
        <span class="right">
          <span class="select">
            <select aria-label={WORDS.rangeLabel} value={window} onChange={(event) => go(hrefWith({ range: event.currentTarget.value }))}>
              <Options of={WINDOWS} />
            </select>
          </span>
        </span>
      </div>
      {refusal && <Problem refusal={refusal} again={again} />}
      {!answer && !refusal && <Skeleton />}
      {answer && (
        <>
          <Tiles now={answer} window={window} />
          <div class="grid now">
            <Calls now={answer} />
            <Waits now={answer} />
          </div>
          <Latest now={answer} />
        </>
      )}
    </>
  );
}

function State({ now }: { readonly now: Overview }): JSX.Element {
  const { health, stops } = now;
  const last = now.latest[0];
  const isWorking = health.status === 'ok' && stops.length === 0;
  const parts = [
    W.nodes(now.nodes),
    W.policy(health.bundle_id, health.bundle_version),
    last === undefined ? W.noCall : W.lastCall(ago(last.created_at, Date.parse(now.at))),
  ];
  return (
    <p>
      <span class={isWorking ? 'dot' : 'dot w'} />
      {stops.length > 0 ? WORDS.stop.stopped : health.status === 'ok' ? W.working : W.starting} {`${parts.join(', ')}.`}
    </p>
  );
}

function Tiles({ now, window }: { readonly now: Overview; readonly window: Window }): JSX.Element {
  const all = now.decisions.reduce((sum, { count: calls }) => sum + calls, 0);
  const refusing = now.decisions.filter(({ decision }) => !PERMITTING.includes(decision)).toSorted((a, b) => b.count - a.count);
  const refused = refusing.reduce((sum, { count: calls }) => sum + calls, 0);
  const [most] = refusing;
  const { today } = now;
  const { cap } = today;
  const used = cap && percentOf(cap.spent_usd, cap.effective_limit_usd);
  const [noUsage = 0, atDefault = 0] = [today.total_requests_without_usage, today.total_requests_priced_by_default];
  const perMinute = all / WINDOW_MINUTES[window];
  return (
    <div class="grid tiles">
      <Tile name={W.calls} value={count(all)}>
        {W.perMinute(count(Math.round(perMinute * 10) / 10))}
      </Tile>
      <Tile name={W.refused} value={share(refused, all)} unit={W.refusedOf(count(refused), count(all))}>
        {most === undefined ? (
          W.noneRefused
        ) : (
          <a class="link" href={hrefOf('calls', { range: window, decision: most.decision })}>
            {W.mostBy(WORDS.decisions[most.decision], count(most.count))}
          </a>
        )}
      </Tile>
      <Tile name={W.spendToday} value={money(today.cost_usd)} unit={cap ? W.ofLimit(money(cap.effective_limit_usd)) : undefined}>
        {cap && used !== undefined && <Bar used={used} label={W.capBar(`${Math.round(used)} %`)} />}
        {today.forecast.forecast_usd === null ? W.tooEarly : W.forecast(money(today.forecast.forecast_usd))}
      </Tile>
      <Tile name={W.notCertain} value={count(noUsage)} unit={W.withoutUsage}>
        {noUsage + atDefault === 0 ? (
          W.allCertain
        ) : (
          <a class="link" href={hrefOf('calls', { range: '24h', cost_doubt: 'any' })}>
            {W.defaultPrice(count(atDefault))}
          </a>
        )}
      </Tile>
    </div>
  );
}

function Calls({ now }: { readonly now: Overview }): JSX.Element {
  const facts: ChartFacts = {
    label: W.over,
    kind: 'area',
    times: now.buckets.map(({ time }) => Date.parse(time) / 1000),
    series: [
      { name: W.allowed, colour: '--allow', values: now.buckets.map(({ allow_count: calls }) => calls) },
      { name: W.refusedSeries, colour: '--deny', values: now.buckets.map(({ deny_count: calls }) => calls) },
    ],
    timeText: (seconds) => hourAndMinute(seconds * 1000),
    valueText: (value) => (Number.isInteger(value) ? count(value) : ''),
    timeName: W.time,
  };
  return <Chart {...facts} />;
}

/** Rows stay where they are: what is new waits until it is asked for. */
function Latest({ now }: { readonly now: Overview }): JSX.Element {
  const [shown, setShown] = useState<readonly ListedCall[]>();
  const calls = now.latest.map(recordOf);
  const rows = shown ?? calls;
  const known = new Set(rows.map(({ record_id: id }) => id));
  const fresh = calls.filter(({ record_id: id }) => !known.has(id)).length;
  const isFirst = shown === undefined || shown.length === 0;
  useEffect(() => {
    if (isFirst) setShown(calls);
  }, [isFirst, calls]);
  const update = (): void => setShown(calls);
  useKeys({ '.': update });
  return (
    <section class="card">
      <header>
        <h2>{W.latest}</h2>
        <span class="more">
          {fresh > 0 && (
            <button type="button" class="btn quiet" onClick={update}>
              <Key>.</Key> {W.fresh(fresh)}
            </button>
          )}
          <a class="link" href={hrefOf('calls')}>
            {W.allCalls}
          </a>
        </span>
      </header>
      {rows.length === 0 ? (
        <Empty title={WORDS.calls.noneAtAll}>{WORDS.calls.noneAtAllHint}</Empty>
      ) : (
        <CallsTable calls={rows} hrefOf={({ record_id: call }) => hrefOf('calls', { call, range: '7d' })} />
      )}
    </section>
  );
}
