import type { ComponentChildren, JSX } from 'preact';
import type { Answer } from '../kit/ask.ts';
import { hrefOf } from '../kit/place.ts';
import { belongingOf, curlOf, type ListedCall, modelOf, recordOf, whoOf } from '../kit/record.ts';
import { bytes, count, longTime, milliseconds, money, together } from '../kit/shown-values.ts';
import { useAsk } from '../kit/use-ask.ts';
import { CopyButton } from '../pieces/copy.tsx';
import { Decision, toneOf } from '../pieces/decision.tsx';
import { Download } from '../pieces/download.tsx';
import { Key } from '../pieces/key.tsx';
import { Empty, Problem, Skeleton } from '../pieces/states.tsx';
import { WORDS } from '../words.ts';

const W = WORDS.call;
type Explained = Answer<'GET /mgmt/v1/records/{hash}/explain'>;

/** Neighbours of the call within what the filters let through. */
export interface PlaceInList {
  readonly newer: ListedCall | undefined;
  readonly older: ListedCall | undefined;
  readonly hrefOf: (call: ListedCall) => string;
}

export interface CallPanelFacts {
  /** Record id or hash. */
  readonly id: string;
  readonly place: PlaceInList | undefined;
  readonly close: string;
}

/** One call: why, what would change it, then the facts. */
export function CallPanel({ id, place, close }: CallPanelFacts): JSX.Element {
  const params = { hash: id };
  const { answer, refusal, again } = useAsk('GET /mgmt/v1/records/{hash}', { params });
  const explained = useAsk('GET /mgmt/v1/records/{hash}/explain', { params });
  const call = answer && recordOf(answer);
  return (
    <section class="card" aria-label={W.title}>
      <header>
        {call && <Decision of={call.decision} />}
        <h2 class="mono cut">{call ? modelOf(call) || call.target_host : W.title}</h2>
        <span class="more">
          {place?.newer && (
            <a href={place.hrefOf(place.newer)} data-stays="" aria-label={W.newer} title={W.newer}>
              <Key>[</Key>
            </a>
          )}
          {place?.older && (
            <a href={place.hrefOf(place.older)} data-stays="" aria-label={W.older} title={W.older}>
              <Key>]</Key>
            </a>
          )}
          <a href={close} data-stays="" aria-label={W.close} title={W.close}>
            ✕
          </a>
        </span>
      </header>
      {refusal?.status === 404 && <Empty title={W.gone} />}
      {refusal && refusal.status !== 404 && <Problem refusal={refusal} again={again} />}
      {!call && !refusal && <Skeleton />}
      {call && (
        <div class="pad">
          <Why call={call} explained={explained.answer} />
          <Facts call={call} />
          {explained.answer && <Rules explained={explained.answer} />}
          <div class="actions-line">
            <CopyButton text={() => curlOf(call)}>{W.copyCurl}</CopyButton>
            <CopyButton text={() => location.href}>{W.copyLink}</CopyButton>
            <Download asks="GET /mgmt/v1/records/{hash}" given={{ params }} name={`${call.record_id}.json`}>
              {W.json}
            </Download>
          </div>
        </div>
      )}
    </section>
  );
}

/** The answer first, in a sentence; then what would change it. */
function Why({ call, explained }: { readonly call: ListedCall; readonly explained: Explained | undefined }): JSX.Element {
  const codes =
    explained?.reason_codes ?? call.reason_codes.map((code): { readonly code: string; readonly meaning?: string } => ({ code }));
  const ways = explained?.would_let_it_through ?? [];
  return (
    <>
      <div class={`why ${toneOf(call.decision)}`}>
        <p class="big">{sentenceOf(call, codes)}</p>
        {codes.map(({ code, meaning }) => (
          <p class="note" key={code}>
            <code>{code}</code>
            {meaning !== undefined && ` ${meaning}`}
          </p>
        ))}
        {rulesBehind(call, explained).map(({ rule, file, line }) => (
          <p class="note" key={rule}>
            <code>{rule}</code>, <code>{`${file}:${line}`}</code>
          </p>
        ))}
        {call.error && <p class="note">{call.error.message}</p>}
      </div>
      {ways.length > 0 && (
        <>
          <h3>{W.letThrough}</h3>
          <ul>
            {ways.map((way) => (
              <li key={way}>{way}</li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

/** The rules that made the decision; where none says the same (a check behind them refused), all that took part. */
function rulesBehind({ decision }: ListedCall, explained: Explained | undefined): Explained['rules'] {
  const took = explained?.rules.filter(({ took_part: did }) => did) ?? [];
  const same = took.filter((rule) => rule.decision === decision);
  return same.length === 0 ? took : same;
}

function sentenceOf(call: ListedCall, codes: readonly { readonly code: string; readonly meaning?: string }[]): string {
  if (call.reason !== undefined && call.reason !== '') return capitalised(call.reason);
  const [first] = codes;
  if (first !== undefined) return capitalised(first.meaning ?? first.code.replaceAll('_', ' '));
  const rules = call.policy_trace?.matched_rule_ids ?? [];
  return rules.length > 0 ? W.allowedBy(rules.join(', ')) : W.allowed;
}

/** A sentence begins with a capital, but a name such as gpt-4.1 keeps its own. */
function capitalised(text: string): string {
  const whole = /^[a-z]+(?:[ ,.]|$)/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
  return /[.!?…]$/.test(whole) ? whole : `${whole}.`;
}

const DOORS: Readonly<Record<string, string>> = { direct_api: 'API', sdk_redirect: 'base URL', connect_proxy: 'HTTPS_PROXY' };

function Facts({ call }: { readonly call: ListedCall }): JSX.Element {
  const { metering } = call;
  const filter = (name: string, value: string): JSX.Element => <a href={hrefOf('calls', { range: '7d', [name]: value })}>{value}</a>;
  return (
    <>
      <h3>{W.facts}</h3>
      <dl class="kv">
        <Fact name={W.who}>
          {filter('workload_id', call.workload_id)} {whoOf(call) !== call.workload_id && whoOf(call)} {call.caller_ip}
        </Fact>
        <Fact name={W.belongs}>{belongingOf(call)}</Fact>
        <Fact name={W.door}>{`${DOORS[call.connection_type] ?? call.connection_type}, ${call.traffic_class}`}</Fact>
        <Fact name={W.asked}>
          <span class="mono">{`${call.action_method} ${call.target_host}${call.target_path}`}</span> {bytes(call.request_bytes)}
        </Fact>
        <Fact name={W.answered}>
          {together(call.status_code, call.stream ? (call.stream_outcome ?? 'stream') : undefined, bytes(call.response_bytes))}
        </Fact>
        <Fact name={W.took}>
          {call.upstream_latency_ms === undefined
            ? milliseconds(call.latency_ms)
            : W.tookOf(milliseconds(call.latency_ms), milliseconds(call.upstream_latency_ms))}
        </Fact>
        {metering && (
          <>
            <Fact name={W.tokens}>
              {W.tokensOf(
                count(metering.tokens_in),
                count(metering.tokens_out),
                metering.cached_tokens_in === undefined ? undefined : count(metering.cached_tokens_in),
              )}
            </Fact>
            <Fact name={W.cost}>
              {W.costOf(money(metering.cost_usd, true), metering.rate_source)}
              {!metering.usage_reported && <div class="note">{W.noUsage}</div>}
            </Fact>
          </>
        )}
        <Fact name={W.record}>
          <span class="mono">{call.record_id}</span>
          <div class="note">{longTime(call.created_at)}</div>
        </Fact>
        <Fact name={W.hash}>
          <span class="mono">{call.record_hash}</span>
        </Fact>
      </dl>
    </>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }): JSX.Element | null {
  if (children === '' || children === undefined) return null;
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

function Rules({ explained }: { readonly explained: Explained }): JSX.Element {
  const { decided_by: was, judged_by: now, not_known: notKnown = [], rules, more_rules: more, layers } = explained;
  const told = rules.filter(({ outcome }) => outcome !== 'not_matched');
  return (
    <>
      <h3>{W.layers}</h3>
      <table class="rules">
        <caption class="seen-by-readers">{W.layers}</caption>
        <tbody>
          {layers.map(({ layer, decision, code, stopped }) => (
            <tr key={layer}>
              <th scope="row">{layer}</th>
              <td class="grow note">{[code, stopped ? '■' : null].filter((part) => part !== null).join(' ')}</td>
              <td>{decision === null ? <span class="note">{W.noOpinion}</span> : <Decision of={decision} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <h3>{W.rules}</h3>
      {was && now && now.same === false && (
        <p class="note">{W.otherPolicy(`${was.bundle_id} ${was.version}`, `${now.bundle_id} ${now.version}`)}</p>
      )}
      <table class="rules">
        <caption class="seen-by-readers">{W.rules}</caption>
        <tbody>
          {told.map(({ rule, file, line, outcome, decision, tests }) => (
            <tr key={rule}>
              <td class="grow">
                <strong class="mono">{rule}</strong>
                <div class="note mono">{`${file}:${line}`}</div>
                {tests.map((test) => (
                  <div class="note" key={test}>
                    {test}
                  </div>
                ))}
              </td>
              <td class="note">{W.outcomes[outcome]}</td>
              <td>{decision !== null && <Decision of={decision} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rules.length - told.length + more > 0 && <p class="note">{W.moreRules(rules.length - told.length + more)}</p>}
      {notKnown.length > 0 && <p class="note">{W.notKnown(notKnown.join(', '))}</p>}
    </>
  );
}
