/* Cookies of the gateway's own (RFC 6265): what a browser keeps for it and sends back. */

interface CookieFacts {
  readonly value: string;
  /** Seconds; absent: until the browser is closed. */
  readonly maxAgeSeconds?: number;
  /** `lax`: also sent when a person follows a link from another site to here. */
  readonly sameSite: 'strict' | 'lax';
}

/** A cookie that is set; `maxAgeSeconds` 0 takes it away. No script reads it. */
export type Cookie = CookieFacts &
  (
    | {
        /** Begins with `__Host-`: then no other host of the domain can set it. It is sent by TLS alone. */
        readonly name: `__Host-${string}`;
        readonly plain?: undefined;
      }
    | {
        /** Has the port in it, which browsers do not keep apart. */
        readonly name: `gw-console-${number}`;
        /** Also sent by plain HTTP: for what never leaves the machine. */
        readonly plain: true;
      }
  );

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const VALUE = /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*$/;

/**
 * The value of `Set-Cookie`.
 * @throws TypeError for a name or a value that would say something else: a mistake in the program
 */
export function cookieText({ name, value, maxAgeSeconds, sameSite, plain }: Cookie): string {
  if (!TOKEN.test(name) || !VALUE.test(value)) throw new TypeError('a cookie has a name or a value that no cookie can have');
  const age = maxAgeSeconds === undefined ? '' : `; Max-Age=${maxAgeSeconds}`;
  return `${name}=${value}; Path=/;${plain === true ? '' : ' Secure;'} HttpOnly; SameSite=${sameSite === 'strict' ? 'Strict' : 'Lax'}${age}`;
}

/**
 * The value of a cookie that a request has sent.
 * @param field `Cookie`, as it came
 * @returns undefined when it was not sent, or twice: then nobody knows which of them is ours
 */
export function cookieIn(field: string | undefined, name: string): string | undefined {
  let found: string | undefined;
  for (const pair of field?.split(';') ?? []) {
    const equals = pair.indexOf('=');
    if (equals < 0 || pair.slice(0, equals).trim() !== name) continue;
    if (found !== undefined) return undefined;
    found = pair.slice(equals + 1).trim();
  }
  return found;
}
