import type { JSX } from 'preact';
import { type ListedCall, modelOf, rulesOf, whoOf } from '../kit/record.ts';
import { count, longTime, money, shortTime } from '../kit/shown-values.ts';
import { WORDS } from '../words.ts';
import { Decision } from './decision.tsx';
import { TableHead } from './table-head.tsx';

const C = WORDS.calls.columns;

export interface CallsTableFacts {
  readonly calls: readonly ListedCall[];
  readonly hrefOf: (call: ListedCall) => string;
  readonly chosen?: string | undefined;
  /** Beside a call there is room for less. */
  readonly narrow?: boolean;
}

/** Calls, each row a link: the newest first. */
export function CallsTable({ calls, hrefOf, chosen, narrow = false }: CallsTableFacts): JSX.Element {
  return (
    <table>
      <TableHead
        caption={WORDS.calls.caption}
        columns={[
          C.time,
          C.decision,
          C.who,
          !narrow && [C.provider, 'hide-m hide-s'],
          C.model,
          !narrow && [C.tokens, 'num hide-s'],
          [C.cost, 'num hide-s'],
          !narrow && [C.why, 'hide-m hide-s'],
        ]}
      />
      <tbody>
        {calls.map((call) => (
          <CallRow key={call.record_id} call={call} href={hrefOf(call)} isChosen={call.record_id === chosen} narrow={narrow} />
        ))}
      </tbody>
    </table>
  );
}

function CallRow({ call, href, isChosen, narrow }: { call: ListedCall; href: string; isChosen: boolean; narrow: boolean }): JSX.Element {
  const { metering } = call;
  return (
    <tr data-chosen={isChosen ? '' : undefined}>
      <td class="mono sec" title={longTime(call.created_at)}>
        <a class="cover" href={href} data-stays="" aria-current={isChosen ? 'true' : undefined}>
          {shortTime(call.created_at)}
        </a>
      </td>
      <td>
        <Decision of={call.decision} />
      </td>
      <td class="cut">{whoOf(call)}</td>
      {!narrow && <td class="hide-m hide-s">{call.provider ?? WORDS.none}</td>}
      <td class="mono cut" title={modelOf(call)}>
        {modelOf(call) || call.target_host}
      </td>
      {!narrow && (
        <td class="num sec hide-s">
          {metering === undefined ? WORDS.none : `${count(metering.tokens_in)} / ${count(metering.tokens_out)}`}
        </td>
      )}
      <td class="num hide-s">{metering === undefined ? WORDS.none : money(metering.cost_usd)}</td>
      {!narrow && (
        <td class="grow note hide-m hide-s" title={whyOf(call)}>
          {whyOf(call)}
        </td>
      )}
    </tr>
  );
}

/** Why it was not simply allowed. */
function whyOf(call: ListedCall): string {
  if (call.decision === 'allow') return call.reason_codes.join(', ');
  // The rule that spoke last is the one that was stricter than those before it.
  return call.reason ?? (call.reason_codes.join(', ') || (rulesOf(call).at(-1) ?? ''));
}
