import type { FunctionComponent } from 'preact';
import { may } from '../kit/session.ts';
import { ApprovalsPage } from '../pages/approvals-page.tsx';
import { AuditPage } from '../pages/audit-page.tsx';
import { CallsPage } from '../pages/calls-page.tsx';
import { DomainsPage } from '../pages/domains-page.tsx';
import { KeysPage } from '../pages/keys-page.tsx';
import { LimitsPage } from '../pages/limits-page.tsx';
import { NodesPage } from '../pages/nodes-page.tsx';
import { NowPage } from '../pages/now-page.tsx';
import { ProvidersPage } from '../pages/providers-page.tsx';
import { QuarantinePage } from '../pages/quarantine-page.tsx';
import { SpendPage } from '../pages/spend-page.tsx';
import { WORDS } from '../words.ts';

/** A page: another one is another row. */
export interface PageRow {
  /** Its segment of the address. */
  readonly segment: string;
  readonly title: string;
  /** Behind `g`. */
  readonly key: string;
  /** What those pages are for that are looked at less often. */
  readonly group?: string;
  /** What somebody must be allowed who sees it. */
  readonly needs: 'read' | 'review';
  readonly page: FunctionComponent;
}

const { nav: W } = WORDS;
/** In the order of what they answer: first what concerns everybody. */
const PAGES: readonly PageRow[] = [
  { segment: '', title: W.now, key: 'n', needs: 'read', page: NowPage },
  { segment: 'calls', title: W.calls, key: 'c', needs: 'read', page: CallsPage },
  { segment: 'approvals', title: W.approvals, key: 'a', needs: 'review', page: ApprovalsPage },
  { segment: 'spend', title: W.spend, key: 's', needs: 'read', page: SpendPage },
  { segment: 'domains', title: W.domains, key: 'd', needs: 'read', page: DomainsPage },
  { segment: 'limits', title: W.limits, key: 'l', group: W.govern, needs: 'read', page: LimitsPage },
  { segment: 'quarantine', title: W.quarantine, key: 'q', group: W.govern, needs: 'review', page: QuarantinePage },
  { segment: 'providers', title: W.providers, key: 'v', group: W.govern, needs: 'read', page: ProvidersPage },
  { segment: 'nodes', title: W.nodes, key: 'o', group: W.run, needs: 'read', page: NodesPage },
  { segment: 'keys', title: W.keys, key: 'k', group: W.run, needs: 'read', page: KeysPage },
  { segment: 'audit', title: W.audit, key: 'u', group: W.run, needs: 'read', page: AuditPage },
];

/** The pages that who has signed in may see. */
export function pagesToSee(): readonly PageRow[] {
  return PAGES.filter(({ needs }) => may(needs));
}

/** The page of a segment; who may not see the first page begins with the first that he may see. */
export function pageAt(segment: string): PageRow | undefined {
  const rows = pagesToSee();
  return rows.find((row) => row.segment === segment) ?? (segment === '' ? rows[0] : undefined);
}
