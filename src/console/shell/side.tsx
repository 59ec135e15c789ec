import { Fragment, type JSX } from 'preact';
import { hrefOf, place } from '../kit/place.ts';
import { session } from '../kit/session.ts';
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
/** What is looked at less often, by what it is for. */
const GROUPS = [
  {
    name: WORDS.nav.govern,
    links: [
      { page: 'limits', name: WORDS.nav.limits },
      { page: 'quarantine', name: WORDS.nav.quarantine },
      { page: 'providers', name: WORDS.nav.providers },
    ],
  },
  {
    name: WORDS.nav.run,
    links: [
      { page: 'nodes', name: WORDS.nav.nodes },
      { page: 'keys', name: WORDS.nav.keys },
      { page: 'audit', name: WORDS.nav.audit },
    ],
  },
] as const;

export function Side(): JSX.Element {
  const { page } = place.value;
  return (
    <div class="side">
      <nav aria-label={WORDS.nav.label}>
        <Brand version={session.value?.gateway.version} />
        {LINKS.map((link) => (
          <a class="nav" key={link.page} href={hrefOf(link.page)} aria-current={link.page === page ? 'page' : undefined}>
            {link.name}
            {link.page === 'approvals' && waiting.value > 0 && <span class="n">{waiting.value}</span>}
          </a>
        ))}
        {GROUPS.map(({ name, links }) => (
          <Fragment key={name}>
            <div class="nav-h">{name}</div>
            {links.map((link) => (
              <a class="nav minor" key={link.page} href={hrefOf(link.page)} aria-current={link.page === page ? 'page' : undefined}>
                {link.name}
              </a>
            ))}
          </Fragment>
        ))}
      </nav>
    </div>
  );
}
