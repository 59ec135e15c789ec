import type { JSX } from 'preact';
import { go, hrefWith } from '../kit/place.ts';
import { choosesOrg, session, shownOrg } from '../kit/session.ts';
import { WORDS } from '../words.ts';

const W = WORDS.head;

/** Whose numbers are shown. Whoever sees every org names another here; who sees one is led back to it. */
export function OrgField(): JSX.Element {
  const own = session.value?.org_id ?? '';
  const shown = shownOrg() ?? '';
  const choose = (event: SubmitEvent): void => {
    event.preventDefault();
    const field = new FormData(event.currentTarget as HTMLFormElement).get('org');
    lookAt(String(field).trim(), own);
  };
  const title = W.account(session.value?.name ?? W.adminToken);
  if (choosesOrg())
    return (
      <form class="org" onSubmit={choose} title={title}>
        <label>
          <span class="hide-s">{W.org} </span>
          <input
            aria-label={W.org}
            class="field"
            name="org"
            key={shown}
            defaultValue={shown}
            spellcheck={false}
            autocomplete="off"
            autocapitalize="off"
            onChange={(event) => lookAt(event.currentTarget.value.trim(), own)}
          />
        </label>
      </form>
    );
  return (
    <span class={shown === own ? 'sec org hide-s' : 'sec org'} title={title}>
      {shown === own ? own : <a href={hrefOfOrg(undefined)}>{W.ownOrg(own)}</a>}
    </span>
  );
}

function lookAt(org: string, own: string): void {
  go(hrefOfOrg(org === own || org === '' ? undefined : org));
}

/** The same page of another org: what was open there, and where its list was, are the other's. */
function hrefOfOrg(org: string | undefined): string {
  return hrefWith({ org, cursor: undefined, at: undefined, call: undefined, approval: undefined });
}
