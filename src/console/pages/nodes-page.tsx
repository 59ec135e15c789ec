import type { JSX } from 'preact';
import type { Answer, Item } from '../kit/ask.ts';
import { place } from '../kit/place.ts';
import { session } from '../kit/session.ts';
import { ago, count, longTime, money, span } from '../kit/shown-values.ts';
import { useAsk } from '../kit/use-ask.ts';
import { Badge } from '../pieces/badge.tsx';
import { NextPage } from '../pieces/next-page.tsx';
import { Problem, Skeleton } from '../pieces/states.tsx';
import { TableHead } from '../pieces/table-head.tsx';
import { WORDS } from '../words.ts';

const W = WORDS.nodes;
const C = W.columns;
const ASKED = 'GET /mgmt/v1/nodes';
const ROWS = 200;
const EVERY_MS = 10_000;
/** From here on a node may be forgotten: it is not heard of any more. */
const SILENT_MS = 60_000;
type Node = Item<typeof ASKED>;
type Health = Answer<'GET /mgmt/v1/health'>;

/** Is every node there, how far behind, what does it hold? */
export function NodesPage(): JSX.Element {
  const given = { query: { limit: ROWS, ...cursorOf(place.value.query) } };
  const { answer, refusal, again } = useAsk(ASKED, given, EVERY_MS);
  const health = useAsk('GET /mgmt/v1/health', {}, EVERY_MS);
  const problem = refusal ?? health.refusal;
  const isReady = answer !== undefined && (health.answer ?? health.refusal) !== undefined;
  return (
    <>
      <div class="top">
        <h1>{W.title}</h1>
        <p>{answer && summaryOf(answer.data)}</p>
      </div>
      {problem && <Problem refusal={problem} again={refusal ? again : health.again} />}
      <section class="card spaced" aria-label={W.title}>
        {!isReady && !refusal && <Skeleton rows={3} />}
        {answer && isReady && <Nodes nodes={answer.data} health={health.answer} />}
        {answer && <NextPage of={answer} />}
      </section>
      {health.answer && <Around health={health.answer} nodes={answer?.data ?? []} />}
    </>
  );
}

function cursorOf(query: URLSearchParams): { readonly cursor?: string } {
  const cursor = query.get('cursor');
  return cursor === null ? {} : { cursor };
}

function summaryOf(nodes: readonly Node[]): string {
  const silent = nodes.filter(isSilent).length;
  return silent === 0 ? W.allThere(nodes.length) : W.someSilent(silent, nodes.length);
}

/** A gateway alone is heard of by whoever asks it. */
function isSilent({ last_seen_at: seen }: Node): boolean {
  return seen !== undefined && Date.now() - Date.parse(seen) > SILENT_MS;
}

function Nodes({ nodes, health }: { readonly nodes: readonly Node[]; readonly health: Health | undefined }): JSX.Element {
  return (
    <table class="wrapped">
      <TableHead
        caption={W.caption}
        columns={[C.node, C.state, C.behind, [C.holds, 'hide-s'], [C.version, 'hide-s'], [C.since, 'hide-m hide-s']]}
      />
      <tbody>
        {nodes.map((node) => (
          <Row key={node.node_id} node={node} here={health?.node_id === node.node_id ? health : undefined} />
        ))}
      </tbody>
    </table>
  );
}

/** @param here what the node that was asked says of itself */
function Row({ node, here }: { readonly node: Node; readonly here: Health | undefined }): JSX.Element {
  const { version, last_seen_at: seen, allowances, registered_at: since } = node;
  const backlog = here?.backlog ?? node.backlog;
  const held = allowances !== undefined && /[1-9]/.test(allowances.usd) ? allowances : undefined;
  return (
    <tr>
      <th scope="row">
        {node.node_id}
        {here && <div class="note">{W.thisOne}</div>}
      </th>
      <td>
        <State node={node} here={here} />
        {seen !== undefined && (
          <div class="note" title={longTime(seen)}>
            {W.heardOf(ago(seen))}
          </div>
        )}
      </td>
      <td>{backlog === undefined ? WORDS.none : behindOf(backlog)}</td>
      <td class="hide-s">
        {held === undefined ? <span class="sec">{W.holdsNothing}</span> : W.holds(money(held.usd), count(held.accounts))}
        {held && isSilent(node) && <div class="note">{W.staysTaken}</div>}
      </td>
      <td class="hide-s mono sec">{version ?? (here && session.value?.gateway.version) ?? WORDS.none}</td>
      <td class="hide-m hide-s sec" title={longTime(since)}>
        {ago(since)}
      </td>
    </tr>
  );
}

function State({ node, here }: { readonly node: Node; readonly here: Health | undefined }): JSX.Element {
  if (isSilent(node))
    return (
      <Badge tone="deny" sign="✕">
        {W.silent}
      </Badge>
    );
  if (here !== undefined && !here.ready)
    return (
      <Badge tone="wait" sign="!">
        {W.notReady}
      </Badge>
    );
  return (
    <Badge tone="allow" sign="✓">
      {W.there}
    </Badge>
  );
}

function behindOf({ records, seconds }: Health['backlog']): string {
  return records === 0 ? W.notBehind : W.behind(count(records), span(seconds * 1000));
}

/** What stands around the nodes: the policy that they have, the control plane, and what to do about one that is gone. */
function Around({ health, nodes }: { readonly health: Health; readonly nodes: readonly Node[] }): JSX.Element {
  const F = W.facts;
  const { bundle_sequence: sequence, cp_posture: posture, cp_offline_since: since, last_hash_submit_at: submitted } = health;
  const isShared = health.mode === 'distributed';
  return (
    <section class="card" aria-label={W.around}>
      <header>
        <h2>{W.around}</h2>
      </header>
      <div class="pad">
        <dl class="kv">
          <dt>{F.store}</dt>
          <dd>{isShared ? W.shared : W.alone}</dd>
          <dt>{F.policy}</dt>
          <dd>{`${health.bundle_id} ${health.bundle_version}${sequence === undefined ? '' : ` (${W.sequence(sequence)})`}`}</dd>
          <dt>{F.controlPlane}</dt>
          <dd>
            {W.controlPlane[health.cp_status]}
            {since !== undefined && ` ${W.offlineSince(ago(since))}`}
            {posture !== undefined && posture !== 'normal' && ` ${W.postures[posture]}`}
          </dd>
          {submitted !== undefined && (
            <>
              <dt>{F.hashes}</dt>
              <dd title={longTime(submitted)}>{ago(submitted)}</dd>
            </>
          )}
          {!health.ready && (
            <>
              <dt>{F.notReady}</dt>
              <dd>{health.not_ready.map((reason) => reason.replaceAll('_', ' ')).join(', ')}</dd>
            </>
          )}
          {health.warnings.length > 0 && (
            <>
              <dt>{F.warnings}</dt>
              <dd>
                {health.warnings.map(({ code, message }) => (
                  <div key={code}>{message}</div>
                ))}
              </dd>
            </>
          )}
        </dl>
        {nodes.some(isSilent) && (
          <>
            <p class="note">{W.forget}</p>
            <pre class="command">{W.forgetCommand(nodes.find(isSilent)?.node_id ?? '')}</pre>
          </>
        )}
      </div>
    </section>
  );
}
