import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { request as httpsRequest } from 'node:https';

export type Fields = Readonly<Record<string, string>>;

export interface Said {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Record<string, unknown>;
  readonly code: string | undefined;
}

export interface Sent {
  readonly headers?: Fields;
  readonly body?: unknown;
  /** By TLS, under this CA. */
  readonly ca?: string;
}

/** One request with exactly these fields: no client of this machine adds what browsers say of themselves. */
export function askAs(port: number, method: string, path: string, { headers = {}, body, ca }: Sent = {}): Promise<Said> {
  const text = body === undefined ? undefined : JSON.stringify(body);
  const sent = {
    host: '127.0.0.1',
    port,
    method,
    path,
    agent: false,
    headers: { ...(text && { 'content-type': 'application/json' }), ...headers },
  };
  return new Promise((resolve, reject) => {
    const call = ca === undefined ? httpRequest(sent) : httpsRequest({ ...sent, ca, servername: 'gw.example' });
    call.on('response', (answer) => {
      let said = '';
      answer.setEncoding('utf8').on('data', (part: string) => (said += part));
      answer.on('end', () => {
        const json = said === '' ? {} : (JSON.parse(said) as Record<string, unknown>);
        const { code } = (json['error'] ?? {}) as { code?: string };
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: json, code });
      });
    });
    call.on('error', reject).end(text);
  });
}

export const OWN_PAGE = { 'sec-fetch-site': 'same-origin', 'gw-console': '1' } as const;
export const SIGN_IN = '/v1/console/sessions';
export const SESSION = '/v1/console/session';

/** What a browser keeps of an answer, as it sends it back. */
export function cookieOf({ headers }: Said): string {
  return headers['set-cookie']?.[0]?.split(';', 1)[0] ?? '';
}

export class Browser {
  readonly port: number;
  readonly #more: Fields;
  cookie = '';
  session: Record<string, unknown> = {};

  constructor(port: number, more: Fields = {}) {
    this.port = port;
    this.#more = more;
  }

  async signIn(body: { secret?: string; code?: string }): Promise<Said> {
    const said = await askAs(this.port, 'POST', SIGN_IN, { headers: { ...OWN_PAGE, 'user-agent': 'Firefox', ...this.#more }, body });
    if (said.status === 201) {
      this.cookie = cookieOf(said);
      this.session = said.body['session'] as Record<string, unknown>;
    }
    return said;
  }

  ask(method: string, path: string, { headers = {}, body }: Sent = {}): Promise<Said> {
    return askAs(this.port, method, path, { headers: { cookie: this.cookie, ...OWN_PAGE, ...this.#more, ...headers }, body });
  }

  /** The same browser at another node, as if one name stood for both. */
  at(port: number): Browser {
    const other = new Browser(port, this.#more);
    other.cookie = this.cookie.replace(/^gw-console-\d+/, `gw-console-${port}`);
    other.session = this.session;
    return other;
  }
}
