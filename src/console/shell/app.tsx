import type { FunctionComponent, JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useKeys } from '../kit/keyboard.ts';
import { go, hrefOf, place } from '../kit/place.ts';
import { session } from '../kit/session.ts';
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
import { Empty } from '../pieces/states.tsx';
import { WORDS } from '../words.ts';
import { Head } from './head.tsx';
import { Help } from './help.tsx';
import { Side } from './side.tsx';
import { SignIn } from './sign-in.tsx';

/** Each page, by its segment of the address. */
const PAGES: Readonly<Record<string, { readonly title: string; readonly page: FunctionComponent }>> = {
  '': { title: WORDS.nav.now, page: NowPage },
  calls: { title: WORDS.nav.calls, page: CallsPage },
  approvals: { title: WORDS.nav.approvals, page: ApprovalsPage },
  spend: { title: WORDS.nav.spend, page: SpendPage },
  domains: { title: WORDS.nav.domains, page: DomainsPage },
  limits: { title: WORDS.nav.limits, page: LimitsPage },
  quarantine: { title: WORDS.nav.quarantine, page: QuarantinePage },
  providers: { title: WORDS.nav.providers, page: ProvidersPage },
  nodes: { title: WORDS.nav.nodes, page: NodesPage },
  keys: { title: WORDS.nav.keys, page: KeysPage },
  audit: { title: WORDS.nav.audit, page: AuditPage },
};

export function App(): JSX.Element | null {
  const who = session.value;
  if (who === undefined) return null;
  return who === null ? <SignIn /> : <Frame />;
}

function Frame(): JSX.Element {
  const [helps, setHelps] = useState(false);
  const { page: name } = place.value;
  const found = PAGES[name];
  useEffect(() => {
    document.title = `${found?.title ?? WORDS.product} · ${WORDS.product}`;
  }, [found]);
  useKeys({
    'g n': () => go(hrefOf('')),
    'g c': () => go(hrefOf('calls')),
    'g a': () => go(hrefOf('approvals')),
    'g s': () => go(hrefOf('spend')),
    'g d': () => go(hrefOf('domains')),
    'g l': () => go(hrefOf('limits')),
    'g q': () => go(hrefOf('quarantine')),
    'g v': () => go(hrefOf('providers')),
    'g o': () => go(hrefOf('nodes')),
    'g k': () => go(hrefOf('keys')),
    'g u': () => go(hrefOf('audit')),
    '?': () => setHelps(true),
  });
  const Page = found?.page;
  return (
    <>
      <a class="skip" href="#main">
        {WORDS.skip}
      </a>
      <div class="app">
        <Side />
        <Head />
        <main class="main" id="main" tabIndex={-1}>
          {Page === undefined ? <Empty title={WORDS.nav.notFound} /> : <Page />}
        </main>
      </div>
      {helps && <Help close={() => setHelps(false)} />}
    </>
  );
}
