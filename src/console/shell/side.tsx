import type { JSX } from 'preact';
import { hrefOf, place } from '../kit/place.ts';
import { may, session } from '../kit/session.ts';
import { waiting } from '../kit/waiting.ts';
import { WORDS } from '../words.ts';
import { Brand } from './brand.tsx';

/** Pages that are told in the order of what they answer: first what concerns everybody. */
const LINKS = [
  { page: '', name: WORDS.nav.now },
  { page: 'calls', name: WORDS.nav.calls },
  { page: 'approvals', name: WORDS.nav.approvals },
  { page: 'spend', name: WORDS.nav.spend },
  { page: 'domains', name: WORDS.nav.domains },
] as const;
const RUN = [{ page: 'keys', name: WORDS.nav.keys }] as const;

export function Side(): JSX.Element {
  const reads = may('read');
  const page = reads ? place.value.page : 'approvals';
  return (
    <div class="side">
      <nav aria-label={WORDS.nav.label}>
        <Brand version={session.value?.gateway.version} />
        {LINKS.filter(({ page }) => reads || page === 'approvals').map((link) => (
          <a class="nav" key={link.page} href={hrefOf(link.page)} aria-current={link.page === page ? 'page' : undefined}>
            {link.name}
            {link.page === 'approvals' && waiting.value !== '' && <span class="n">{waiting.value}</span>}
          </a>
        ))}
        {reads && <div class="nav-h">{WORDS.nav.run}</div>}
        {(reads ? RUN : []).map((link) => (
          <a class="nav minor" key={link.page} href={hrefOf(link.page)} aria-current={link.page === page ? 'page' : undefined}>
            {link.name}
          </a>
        ))}
      </nav>
    </div>
  );
}
