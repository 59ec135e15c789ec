import type { JSX } from 'preact';
import type { Answer, Given } from '../kit/ask.ts';
import { chosenOf, go, hrefOf, hrefWith, place } from '../kit/place.ts';
import { count, dayAndMonth, dollarsForChart, money, percentOf, reportDay, zone } from '../kit/shown-values.ts';
import { useAsk } from '../kit/use-ask.ts';
import { Bar } from '../pieces/bar.tsx';
import { Chart } from '../pieces/chart.tsx';
import type { ChartFacts } from '../pieces/chart-facts.ts';
import { Download } from '../pieces/download.tsx';
import { Options } from '../pieces/options.tsx';
import { Empty, Problem, Skeleton } from '../pieces/states.tsx';
import { TableHead } from '../pieces/table-head.tsx';
import { Tile } from '../pieces/tile.tsx';
import { WORDS } from '../words.ts';

const W = WORDS.spend;
const ASKED = 'GET /mgmt/v1/billing/report';
type Report = Answer<typeof ASKED>;
type By = keyof typeof W.keys;
type Period = keyof typeof W.periods;
const COLOURS = ['--c1', '--c2', '--c3', '--c4', '--c5'];
const MOST_ROWS = 100;
/** As which a report names all that have no row of their own. */
const REST = 'other';

/** Who spent what, where will the month end, which numbers are not certain? */
export function SpendPage(): JSX.Element {
  const { query } = place.value;
  const by = chosenOf(query.get('by'), W.keys, 'project');
  const period = chosenOf(query.get('period'), W.periods, 'this-month');
  const days = { period, tz: zone() };
  const given: Given<typeof ASKED> = { query: { ...days, by, limit: MOST_ROWS } };
  const { answer, refusal, again } = useAsk(ASKED, given);
  const daily = useAsk(ASKED, { query: { ...days, by: 'provider', per: 'day' } });
  return (
    <>
      <div class="top">
        <h1>{W.title}</h1>
        <p>{answer && W.days(reportDay(answer.from), reportDay(answer.to), answer.tz)}</p>
        <span class="right">
          <Choice label={W.period} value={period} of={W.periods} name="period" />
          <Choice label={W.by} value={by} of={W.keys} name="by" before={`${W.by} `} />
          <Download asks={ASKED} given={{ query: { ...days, by, format: 'csv' } }} name={`spend-${by}.csv`}>
            {W.csv}
          </Download>
        </span>
      </div>
      {refusal && <Problem refusal={refusal} again={again} />}
      {!answer && !refusal && <Skeleton rows={4} />}
      {answer && <Totals report={answer} />}
      {daily.answer && daily.answer.rows.length > 0 && (
        <div class="spaced">
          <Chart {...chartOf(daily.answer)} />
        </div>
      )}
      {answer && (
        <section class="card">
          {answer.rows.length === 0 ? <Empty title={W.none}>{W.noneHint}</Empty> : <Rows report={answer} by={by} />}
        </section>
      )}
    </>
  );
}

function Choice<K extends By | Period>({
  label,
  value,
  of,
  name,
  before = '',
}: {
  readonly label: string;
  readonly value: K;
  readonly of: Readonly<Record<K, string>>;
  readonly name: string;
  readonly before?: string;
}): JSX.Element {
  return (
    <span class="select">
      <select aria-label={label} value={value} onChange={(event) => go(hrefWith({ [name]: event.currentTarget.value }))}>
        <Options of={of} before={before} />
      </select>
    </span>
  );
}

interface ReportFacts {
  readonly report: Report;
}

function Totals({ report }: ReportFacts): JSX.Element {
  const { forecast } = report;
  const end = forecast === undefined ? W.endsNot : forecast.forecast_usd === null ? W.tooEarly : W.endHint;
  return (
    <div class="grid tiles">
      <Tile name={W.total} value={money(report.total_cost_usd)}>
        {W.requests(count(report.total_requests))}
      </Tile>
      <Tile name={W.end} value={forecast?.forecast_usd ? money(forecast.forecast_usd) : WORDS.none}>
        {end}
      </Tile>
      <CapTile report={report} />
      <DoubtTile report={report} />
    </div>
  );
}

function CapTile({ report }: ReportFacts): JSX.Element {
  const cap = report.forecast?.first_cap;
  if (cap === undefined)
    return (
      <Tile name={W.cap} value={WORDS.none}>
        {W.noCap}
      </Tile>
    );
  const used = percentOf(cap.spent_usd, cap.effective_limit_usd);
  return (
    <Tile name={W.cap} value={money(cap.effective_limit_usd)}>
      {used !== undefined && <Bar used={used} label={WORDS.now.capBar(`${Math.round(used)} %`)} />}
      {W.capOf(cap.scope_id ?? cap.scope)}.{' '}
      {cap.reached_at === null ? W.outlooks[cap.outlook] : W.reachedAt(dayAndMonth(new Date(cap.reached_at)))}
    </Tile>
  );
}

function DoubtTile({ report }: ReportFacts): JSX.Element {
  const [noUsage = 0, atDefault = 0] = [report.total_requests_without_usage, report.total_requests_priced_by_default];
  const text =
    atDefault === 0
      ? W.approximated(money(report.total_cost_without_usage_usd ?? '0'))
      : W.atDefault(count(atDefault), money(report.total_cost_priced_by_default_usd ?? '0'));
  return (
    <Tile name={W.uncertain} value={count(noUsage)} unit={W.withoutUsage}>
      {noUsage + atDefault === 0 ? (
        W.certain
      ) : (
        <a class="link" href={hrefOf('calls', { range: '30d', cost_doubt: 'any' })}>
          {text}
        </a>
      )}
    </Tile>
  );
}

/** Spend of each day by provider: the four dearest, and all others together. */
function chartOf({ rows, from, to }: Report): ChartFacts {
  const days = daysBetween(from, to);
  const sums = new Map<string, number>();
  for (const { keys, cost_usd: cost } of rows) {
    const name = keys['provider'] ?? '';
    sums.set(name, (sums.get(name) ?? 0) + dollarsForChart(cost));
  }
  const names = [...sums].filter(([, sum]) => sum > 0).sort(([, a], [, b]) => b - a);
  const own = names.slice(0, names.length > COLOURS.length ? COLOURS.length - 1 : COLOURS.length).map(([name]) => name);
  const shown = names.length > own.length ? [...own, undefined] : own;
  return {
    label: W.chart,
    kind: 'bars',
    times: days.map((day) => Date.parse(`${day}T00:00:00Z`) / 1000),
    series: shown.map((name, at) => ({
      name: name === undefined ? W.others : name || W.noName.provider,
      colour: COLOURS[at] ?? '--c5',
      values: days.map((day) => {
        const ofDay = rows.filter(({ period, keys }) => {
          const provider = keys['provider'] ?? '';
          return period === day && (name === undefined ? !own.includes(provider) : provider === name);
        });
        return ofDay.reduce((sum, { cost_usd: cost }) => sum + dollarsForChart(cost), 0);
      }),
    })),
    timeText: (seconds) => reportDay(new Date(seconds * 1000).toISOString().slice(0, 10)),
    valueText: (value) => money(String(Math.round(value * 1e6) / 1e6)),
    timeName: W.day,
  };
}

function daysBetween(from: string, to: string): readonly string[] {
  const days: string[] = [];
  const DAY_MS = 86_400_000;
  for (let at = Date.parse(`${from}T00:00:00Z`); at <= Date.parse(`${to}T00:00:00Z`); at += DAY_MS)
    days.push(new Date(at).toISOString().slice(0, 10));
  return days;
}

function Rows({ report, by }: { readonly report: Report; readonly by: By }): JSX.Element {
  const C = W.columns;
  const noName = by in W.noName ? W.noName[by as keyof typeof W.noName] : W.noName.other;
  return (
    <table>
      <TableHead
        caption={W.caption}
        columns={[
          W.keyNames[by],
          [C.spent, 'num'],
          [C.share, 'hide-s'],
          [C.calls, 'num'],
          [C.tokens, 'num hide-s'],
          [C.withoutUsage, 'num hide-s'],
          [C.atDefault, 'num hide-m hide-s'],
        ]}
      />
      <tbody>
        {report.rows.map((row) => {
          const name = row.keys[by] ?? '';
          return (
            <tr key={name}>
              <th scope="row" class="cut">
                {name === '' ? noName : name === REST ? W.rest : <a href={callsOf(by, name)}>{name}</a>}
              </th>
              <td class="num" title={money(row.cost_usd, true)}>
                {money(row.cost_usd)}
              </td>
              <td class="hide-s">
                <Bar used={Math.min(79, dollarsForChart(row.share_pct))} label={`${row.share_pct} %`} />
              </td>
              <td class="num sec">{count(row.requests)}</td>
              <td class="num sec hide-s">{`${count(row.tokens_in)} / ${count(row.tokens_out)}`}</td>
              <td class="num sec hide-s">{count(row.requests_without_usage ?? 0)}</td>
              <td class="num sec hide-m hide-s">{count(row.requests_priced_by_default ?? 0)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

/** The calls behind a row. */
function callsOf(by: By, name: string): string {
  const filters: Readonly<Record<By, string>> = {
    project: 'project',
    workload: 'workload_id',
    provider: 'provider',
    model: 'model',
    customer: 'customer',
    account: 'account',
    caller: 'caller_id',
  };
  return hrefOf('calls', { range: '30d', [filters[by]]: name });
}
