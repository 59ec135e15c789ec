import { Fragment, type JSX } from 'preact';
import { hrefOf, place } from '../kit/place.ts';
import { session } from '../kit/session.ts';
import { waiting } from '../kit/waiting.ts';
import { WORDS } from '../words.ts';
import { Brand } from './brand.tsx';
import { pageAt, pagesToSee } from './page-table.tsx';

export function Side(): JSX.Element {
  const shown = pageAt(place.value.page)?.segment;
  const rows = pagesToSee();
  const groups = new Set(rows.map(({ group }) => group));
  return (
    <div class="side">
      <nav aria-label={WORDS.nav.label}>
        <Brand version={session.value?.gateway.version} />
        {[...groups].map((group) => (
          <Fragment key={group ?? ''}>
            {group !== undefined && <div class="nav-h">{group}</div>}
            {rows
              .filter((row) => row.group === group)
              .map(({ segment, title }) => (
                <a
                  class={group === undefined ? 'nav' : 'nav minor'}
                  key={segment}
                  href={hrefOf(segment)}
                  aria-current={segment === shown ? 'page' : undefined}
                >
                  {title}
                  {segment === 'approvals' && waiting.value !== '' && <span class="n">{waiting.value}</span>}
                </a>
              ))}
          </Fragment>
        ))}
      </nav>
    </div>
  );
}
