import { signal } from '@preact/signals';
import { type Answer, ask } from './ask.ts';

export type Session = NonNullable<Answer<'GET /v1/console/session'>>;

/** Who has signed in; null: nobody; undefined: it is not known yet. */
export const session = signal<Session | null | undefined>(undefined);

/** Whether somebody who has signed in may do it: what would be refused has no button. */
export function may(scope: 'write' | 'decide' | 'admin'): boolean {
  const scopes: readonly string[] = session.value?.scopes ?? [];
  return scopes.includes(scope) || (scope === 'decide' && (scopes.includes('write') || scopes.includes('approve')));
}

/** Asks who has signed in. A one-time code behind the `#` of the address signs in first, and is taken out of it. */
export async function findSession(): Promise<void> {
  const code = new URLSearchParams(location.hash.slice(1)).get('code');
  if (code !== null) {
    history.replaceState(null, '', location.pathname + location.search);
    await ask('POST /v1/console/sessions', { body: { code } }).catch(() => undefined);
  }
  session.value = (await ask('GET /v1/console/session').catch(() => undefined)) ?? null;
}

/** @throws Refusal */
export async function signIn(secret: string): Promise<void> {
  await ask('POST /v1/console/sessions', { body: { secret } });
  session.value = (await ask('GET /v1/console/session')) ?? null;
}

export async function signOut(): Promise<void> {
  await ask('DELETE /v1/console/session').catch(() => undefined);
  session.value = null;
}
