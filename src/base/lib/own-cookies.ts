/*
 * The cookies of people who have signed in to the console. They are told by their names, wherever a request or an
 * answer carries them: none of them leaves for an upstream, and no upstream sets one (decision 10.19).
 */

const NAME = 'gw-console-';
const OWN = /^(?:__Host-)?gw-console-\d{1,5}$/;

/** By what a cookie of the console is called over TLS, and over plain HTTP on the machine itself. */
export type OwnCookieName = `__Host-gw-console-${number}` | `gw-console-${number}`;

/**
 * The name of the cookie at one port. Browsers keep cookies by host alone, so that two gateways of one host would take
 * each other's without the port.
 * @param port that the browser has called @param secure over TLS
 */
export function ownCookieName(port: number, secure: true): `__Host-gw-console-${number}`;
export function ownCookieName(port: number, secure: false): `gw-console-${number}`;
export function ownCookieName(port: number, secure: boolean): OwnCookieName;
export function ownCookieName(port: number, secure: boolean): OwnCookieName {
  return secure ? `__Host-${NAME}${port}` : `${NAME}${port}`;
}

/**
 * A `Cookie` field without those of the console; of nearly all fields it is the field itself.
 * @returns undefined when nothing is left of it
 */
export function withoutOwnCookies(field: string): string | undefined {
  if (!field.includes(NAME)) return field;
  const others = field.split(';').filter((pair) => !OWN.test(nameIn(pair)));
  const left = others.join(';').trim();
  return left === '' ? undefined : left;
}

/** Whether a `Set-Cookie` field sets one of them. */
export function setsOwnCookie(field: string): boolean {
  return field.includes(NAME) && OWN.test(nameIn(field.split(';', 1)[0] ?? ''));
}

function nameIn(pair: string): string {
  const equals = pair.indexOf('=');
  return (equals < 0 ? pair : pair.slice(0, equals)).trim();
}
