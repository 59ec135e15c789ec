import { signal } from '@preact/signals';
import { type Answer, type AskRefusal, ask, askedOrg, refusalFrom, sessionOver } from './ask.ts';
import { heardTime } from './gateway-time.ts';

export type Session = NonNullable<Answer<'GET /v1/console/session'>>;

/** Who has signed in; null: nobody; undefined: it is not known yet. */
export const session = signal<Session | null | undefined>(undefined);

/** Whether somebody who has signed in may do it: what would be refused has no button. */
export function may(scope: 'read' | 'write' | 'review' | 'decide' | 'admin'): boolean {
  return session.value?.scopes.includes(scope) === true;
}

/** Why nobody is signed in who meant to be. */
export const notSignedIn = signal<AskRefusal | undefined>(undefined);

/** The org that is looked at. */
export function shownOrg(): string | undefined {
  return askedOrg() ?? session.value?.org_id;
}

/** Whether he may look at one org after the other. */
export function choosesOrg(): boolean {
  return session.value?.kind === 'admin' && session.value.gateway.org_id === null;
}

/** Asks who has signed in. A one-time code behind the `#` of the address signs in first, and is taken out of it. */
export async function findSession(): Promise<void> {
  const code = new URLSearchParams(location.hash.slice(1)).get('code');
  try {
    if (code !== null) {
      history.replaceState(null, '', location.pathname + location.search);
      await ask('POST /v1/console/sessions', { body: { code } });
    }
    await readSession();
  } catch (error) {
    const refusal = refusalFrom(error);
    // Of a session that is over the sign-in tells by itself.
    if (code !== null || refusal.status !== 401) notSignedIn.value = refusal;
    session.value = null;
  }
}

/** @throws AskRefusal */
export async function signIn(secret: string): Promise<void> {
  await ask('POST /v1/console/sessions', { body: { secret } });
  await readSession();
  notSignedIn.value = undefined;
}

/** @throws AskRefusal: he is signed in as before, and has to be told */
export async function signOut(): Promise<void> {
  try {
    await ask('DELETE /v1/console/session');
  } catch (error) {
    if (refusalFrom(error).status !== 401) throw error;
  }
  sessionOver.value = 0;
  session.value = null;
}

/** What another tab of this browser has changed: a cookie is of all of them. */
export async function seeOtherTabs(): Promise<void> {
  if (document.hidden || session.value === undefined || session.value === null) return;
  // Whether it answers is told by the page, which asks for more than this.
  await readSession().catch(() => undefined);
}

async function readSession(): Promise<void> {
  const found = (await ask('GET /v1/console/session')) ?? null;
  if (found !== null) heardTime(found.gateway.time);
  session.value = found;
}
