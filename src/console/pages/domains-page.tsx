import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Given, Item } from '../kit/ask.ts';
import { chosenOf, hrefOf, place } from '../kit/place.ts';
import { ago, count, longTime } from '../kit/shown-values.ts';
import { useAsk } from '../kit/use-ask.ts';
import { Badge } from '../pieces/badge.tsx';
import { CopyButton } from '../pieces/copy.tsx';
import { NextPage } from '../pieces/next-page.tsx';
import { PresetChips } from '../pieces/preset-chips.tsx';
import { Sheet } from '../pieces/sheet.tsx';
import { Empty, Problem, Skeleton } from '../pieces/states.tsx';
import { TableHead, UNSEEN_HEADING } from '../pieces/table-head.tsx';
import { WORDS } from '../words.ts';

const W = WORDS.domains;
const ASKED = 'GET /mgmt/v1/discovery/domains';
type Domain = Item<typeof ASKED>;
type Preset = keyof typeof W.presets;
const PRESETS: Readonly<Record<Preset, Given<typeof ASKED>['query']>> = {
  unmanaged: { managed: false },
  managed: { managed: true },
  all: {},
  everything: { show: 'all' },
};
const ROWS = 100;
const LOOKS = { managed: ['allow', '✓'], unmanaged: ['wait', '!'], other: ['error', '·'] } as const;

/** Which AI is used that nobody manages, by whom, since when? */
export function DomainsPage(): JSX.Element {
  const { query } = place.value;
  const [rule, setRule] = useState<string>();
  const preset = chosenOf(query.get('show'), W.presets, 'unmanaged');
  const given = { query: { ...PRESETS[preset], limit: ROWS, cursor: query.get('cursor') ?? undefined } } as Given<typeof ASKED>;
  const { answer, refusal, again } = useAsk(ASKED, given);
  return (
    <>
      <div class="top">
        <h1>{W.title}</h1>
        <p>{W.sub}</p>
      </div>
      <PresetChips name="show" chosen={preset} of={W.presets} />
      {refusal && <Problem refusal={refusal} again={again} />}
      <section class="card">
        {!answer && !refusal && <Skeleton />}
        {answer?.data.length === 0 && <Empty title={preset === 'unmanaged' ? W.noneUnmanaged : W.none}>{W.noneHint}</Empty>}
        {answer && answer.data.length > 0 && <Domains domains={answer.data} draft={setRule} />}
        {answer && <NextPage of={answer} />}
      </section>
      {rule !== undefined && <RuleSheet domain={rule} close={() => setRule(undefined)} />}
    </>
  );
}

function Domains({ domains, draft }: { readonly domains: readonly Domain[]; readonly draft: (domain: string) => void }): JSX.Element {
  const C = W.columns;
  return (
    <table>
      <TableHead
        caption={W.caption}
        columns={[
          C.domain,
          [C.vendor, 'hide-s'],
          C.state,
          [C.who, 'hide-s'],
          [C.hits, 'num'],
          [C.first, 'hide-m hide-s'],
          [C.last, 'hide-s'],
          [W.rule, UNSEEN_HEADING],
        ]}
      />
      <tbody>
        {domains.map((domain) => (
          <tr key={domain.domain}>
            <th scope="row" class="mono cut" title={domain.domain}>
              <a href={hrefOf('calls', { range: '30d', target_host: domain.domain })}>{domain.domain}</a>
            </th>
            <td class="hide-s sec">{domain.vendor ?? (domain.looks_like === undefined ? WORDS.none : W.looksLike(domain.looks_like))}</td>
            <td>
              <State domain={domain} />
            </td>
            <td class="hide-s cut">{whoGoes(domain)}</td>
            <td class="num">{count(domain.hits)}</td>
            <td class="hide-m hide-s sec" title={longTime(domain.first_seen)}>
              {ago(domain.first_seen)}
            </td>
            <td class="hide-s sec" title={longTime(domain.last_seen)}>
              {ago(domain.last_seen)}
            </td>
            <td class="num">
              <button type="button" class="btn" onClick={() => draft(domain.domain)} aria-label={W.ruleTitle(domain.domain)}>
                {W.rule}
              </button>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function State({ domain }: { readonly domain: Domain }): JSX.Element {
  const isAi = domain.vendor !== undefined || domain.looks_like !== undefined || domain.managed;
  const state = domain.managed ? 'managed' : isAi ? 'unmanaged' : 'other';
  const [tone, sign] = LOOKS[state];
  return (
    <Badge tone={tone} sign={sign}>
      {W[state]}
    </Badge>
  );
}

export function whoGoes({ workloads }: Pick<Domain, 'workloads'>): string {
  const MOST = 2;
  const names = workloads.slice(0, MOST).map(({ workload_id: id }) => id ?? W.several);
  return names.join(', ') + (workloads.length > MOST ? ` ${W.more(workloads.length - MOST)}` : '');
}

/** A rule that can be put into a bundle; nothing is changed by looking at it. */
function RuleSheet({ domain, close }: { readonly domain: string; readonly close: () => void }): JSX.Element {
  // Quoted both: a name may be a number, or begin with what means something in YAML.
  const text = `targets:
  - id: ${JSON.stringify(`use-of-${domain.replace(/[^A-Za-z0-9]+/g, '-')}`)}
    when: {field: context.action.target_host, equals: ${JSON.stringify(domain)}}
    effect: {decision: deny, reason: "ask the platform team before you use this"}
`;
  return (
    <Sheet title={W.ruleTitle(domain)} close={close}>
      <div class="body">
        <p class="note">{W.ruleHint}</p>
        <pre class="command">{text}</pre>
        <div class="actions">
          <CopyButton text={() => text}>{WORDS.domains.rule}</CopyButton>
          <button type="button" class="btn" onClick={close}>
            {WORDS.call.close}
          </button>
        </div>
      </div>
    </Sheet>
  );
}
