import type { JSX } from 'preact';
import type { Answer, Given, Item } from '../kit/ask.ts';
import { chosenOf, place } from '../kit/place.ts';
import { ago, count, dayAndMonth, longTime, money, percentOf, shortTime } from '../kit/shown-values.ts';
import { useAsk } from '../kit/use-ask.ts';
import { Badge } from '../pieces/badge.tsx';
import { Bar } from '../pieces/bar.tsx';
import { NextPage } from '../pieces/next-page.tsx';
import { PresetChips } from '../pieces/preset-chips.tsx';
import { Empty, Problem, Skeleton } from '../pieces/states.tsx';
import { TableHead } from '../pieces/table-head.tsx';
import { Tile } from '../pieces/tile.tsx';
import { WORDS } from '../words.ts';

const W = WORDS.limits;
const C = W.columns;
const ASKED = 'GET /mgmt/v1/budgets/limits';
const ROWS = 200;
const DAY_MS = 86_400_000;
type Limit = Item<typeof ASKED>;
const LOOKS = { reached: ['deny', '✕'], will_be_reached: ['wait', '!'], holds: ['allow', '✓'], unknown: ['error', '·'] } as const;

/** Which limit bites next? */
export function LimitsPage(): JSX.Element {
  const { query } = place.value;
  const scope = chosenOf(query.get('scope'), W.scopes, 'all');
  const given = {
    query: { scope: scope === 'all' ? undefined : scope, limit: ROWS, cursor: query.get('cursor') ?? undefined },
  } as Given<typeof ASKED>;
  const { answer, refusal, again } = useAsk(ASKED, given);
  const limits = answer?.data.toSorted((a, b) => urgencyOf(a) - urgencyOf(b));
  return (
    <>
      <div class="top">
        <h1>{W.title}</h1>
        <p>{W.sub}</p>
      </div>
      {refusal && <Problem refusal={refusal} again={again} />}
      <PresetChips name="scope" chosen={scope} of={W.scopes} />
      {limits && limits.length > 0 && <Next limits={limits} />}
      <section class="card spaced" aria-label={W.budgets}>
        <header>
          <h2>{W.budgets}</h2>
        </header>
        {!limits && !refusal && <Skeleton rows={4} />}
        {limits?.length === 0 && (
          <Empty title={scope === 'all' ? W.none : W.noneOfScope}>
            {W.noneHint}
            <pre>{W.noneCommand}</pre>
          </Empty>
        )}
        {limits && limits.length > 0 && <Limits limits={limits} />}
        {answer && <NextPage of={answer} />}
      </section>
      <Rates />
    </>
  );
}

/** What is reached first, then what will be by its time, then what is most used. */
function urgencyOf(limit: Limit): number {
  const { outlook, reached_at: at } = limit.forecast;
  if (outlook === 'reached') return -1;
  return at === null ? 1e15 - usedOf(limit) : Date.parse(at);
}

/** In percent; all of a limit of nothing. */
function usedOf({ spent_usd: spent, effective_limit_usd: limit }: Limit): number {
  return percentOf(spent, limit) ?? 100;
}

function nameOf({ scope, scope_id: id }: Limit): string {
  return id === undefined ? W.wholeOrg : `${W.scopeNames[scope]} ${id}`;
}

/** The cap that will refuse first, and how many do already. @param limits the most urgent first */
function Next({ limits }: { readonly limits: readonly Limit[] }): JSX.Element {
  const refusing = limits.filter((limit) => isCap(limit) && limit.forecast.outlook === 'reached');
  const next = limits.find((limit) => isCap(limit) && limit.forecast.outlook === 'will_be_reached');
  const passed = limits.filter((limit) => !isCap(limit) && limit.forecast.outlook === 'reached').length;
  return (
    <div class="grid tiles">
      <Tile name={W.next} value={next?.forecast.reached_at ? momentOf(next.forecast.reached_at) : WORDS.none}>
        {next === undefined ? W.noNext : W.nextIs(nameOf(next), money(next.effective_limit_usd, true), W.periods[next.period])}
      </Tile>
      <Tile name={W.refusing} value={count(refusing.length)} unit={W.ofAll(count(limits.length))}>
        {refusing[0] === undefined ? W.noneRefuses : refusing.map(nameOf).slice(0, 2).join(', ')}
      </Tile>
      <Tile name={W.passed} value={count(passed)}>
        {W.passedHint}
      </Tile>
      <Tile name={W.overridden} value={count(limits.filter(({ override }) => override !== undefined).length)}>
        {W.overriddenHint}
      </Tile>
    </div>
  );
}

function isCap({ actions }: Limit): boolean {
  return actions.includes('cap');
}

/** The hour where it is within a day, else the day. */
function momentOf(time: string): string {
  return Date.parse(time) - Date.now() < DAY_MS ? shortTime(time).replace(/(\d\d:\d\d):\d\d$/, '$1') : dayAndMonth(new Date(time));
}

function Limits({ limits }: { readonly limits: readonly Limit[] }): JSX.Element {
  return (
    <table class="wrapped">
      <TableHead caption={W.caption} columns={[C.what, [C.used, 'fill'], C.outlook, [C.does, 'hide-s'], [C.ends, 'hide-m hide-s']]} />
      <tbody>
        {limits.map((limit) => (
          <Row key={limit.limit_id} limit={limit} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ limit }: { readonly limit: Limit }): JSX.Element {
  const { forecast, override, period, actions } = limit;
  const used = usedOf(limit);
  const to = forecast.forecast_usd === null ? used : percentOf(forecast.forecast_usd, limit.effective_limit_usd);
  return (
    <tr>
      <th scope="row">
        {nameOf(limit)}
        <div class="note">{W.periods[period]}</div>
      </th>
      <td class="fill">
        <Bar used={used} to={to ?? used} label={WORDS.now.capBar(`${Math.round(used)} %`)} />
        {W.spentOf(money(limit.spent_usd), money(limit.effective_limit_usd, true), `${Math.round(used)} %`)}
        {/[1-9]/.test(limit.reserved_usd) && <span class="note"> {W.reserved(money(limit.reserved_usd))}</span>}
        {override && <div class="note">{W.override(money(limit.limit_usd, true), momentOf(override.until), override.reason)}</div>}
      </td>
      <td>
        <OutlookOf forecast={forecast} />
      </td>
      <td class="hide-s sec">{actions.length === 0 ? W.draft : actions.map((action) => W.actions[action]).join(', ')}</td>
      <td class="hide-m hide-s sec" title={longTime(forecast.period_end)}>
        {momentOf(forecast.period_end)}
      </td>
    </tr>
  );
}

function OutlookOf({ forecast }: Pick<Limit, 'forecast'>): JSX.Element {
  const { outlook, forecast_usd: usd, reached_at: at } = forecast;
  const [tone, sign] = LOOKS[outlook];
  const when = outlook === 'will_be_reached' && at !== null ? ` ${momentOf(at)}` : '';
  return (
    <>
      <Badge tone={tone} sign={sign}>
        {W.outlooks[outlook]}
        {when}
      </Badge>
      {usd !== null && <div class="note hide-s">{W.forecast(money(usd))}</div>}
    </>
  );
}

/** How many calls workloads may make: that of all, and those that have a rate of their own. */
function Rates(): JSX.Element {
  const config = useAsk('GET /mgmt/v1/ratelimit/config', {});
  const own = useAsk('GET /mgmt/v1/ratelimit/workloads', { query: { limit: ROWS } });
  const busy = useAsk('GET /mgmt/v1/ratelimit/keys', { query: { limit: ROWS } });
  const refusal = config.refusal ?? own.refusal;
  return (
    <section class="card" aria-label={W.rates}>
      <header>
        <h2>{W.rates}</h2>
        <span class="more">{config.answer && rateOf(config.answer)}</span>
      </header>
      {refusal && <Problem refusal={refusal} again={() => (config.refusal ? config.again() : own.again())} />}
      {!own.answer && !refusal && <Skeleton rows={2} />}
      {own.answer?.data.length === 0 && (
        <Empty title={W.noRate}>
          {W.noRateHint}
          <pre>{W.noRateCommand}</pre>
        </Empty>
      )}
      {own.answer && own.answer.data.length > 0 && <OwnRates rates={own.answer.data} busy={busy.answer?.data ?? []} />}
      {busy.answer && busy.answer.data.length > 0 && <div class="pages-line">{W.busyNow(busy.answer.data.join(', '))}</div>}
    </section>
  );
}

function rateOf({ refill_rate: rate, max_tokens: most, window_duration: window }: Answer<'GET /mgmt/v1/ratelimit/config'>): string {
  return W.rate(count(most), count(rate), window);
}

interface OwnRatesFacts {
  readonly rates: readonly Item<'GET /mgmt/v1/ratelimit/workloads'>[];
  /** Workloads that have called just now. */
  readonly busy: readonly string[];
}

function OwnRates({ rates, busy }: OwnRatesFacts): JSX.Element {
  return (
    <table>
      <TableHead caption={W.ratesCaption} columns={[C.workload, [C.perMinute, 'num'], [C.bucket, 'hide-s'], [C.since, 'hide-s']]} />
      <tbody>
        {rates.map(({ workload_id: id, requests_per_minute: rate, created_at: since }) => (
          <tr key={id}>
            <th scope="row" class="cut">
              {id}
            </th>
            <td class="num">{count(rate)}</td>
            <td class="hide-s sec">{busy.includes(id) ? W.inUse : W.full}</td>
            <td class="hide-s sec" title={longTime(since)}>
              {ago(since)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
