import type { KeyScope } from '../../src/base/model/keys.ts';
import { startTestGateway, type TestGateway, type TestGatewayOptions } from './gateway.ts';
import type { HasTeardown } from './temp-dir.ts';

export interface Answer {
  readonly status: number;
  readonly body: unknown;
  readonly headers: Headers;
}

/** Asks the management API with one key. */
export type Manage = (method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>) => Promise<Answer>;

export interface Managed {
  readonly gw: TestGateway;
  /** The org `acme`, with both scopes. */
  readonly manage: Manage;
  /** With a new key of this org. */
  keyOf(org: string, scopes?: readonly KeyScope[], kind?: 'management' | 'mcp'): Promise<{ id: string; key: string }>;
  with(key: string | undefined): Manage;
}

/** A gateway with a management key. */
export async function startManaged(t: HasTeardown, options: TestGatewayOptions = {}): Promise<Managed> {
  const gw = await startTestGateway(t, options);
  return managedOf(gw);
}

/** The same on a gateway that runs. */
export async function managedOf(gw: TestGateway): Promise<Managed> {
  const keyOf: Managed['keyOf'] = async (org, scopes = ['read', 'write'], kind = 'management') => {
    const made = await gw.admin('POST', '/v1/admin/mgmt-keys', { org_id: org, name: `key of ${org}`, kind, scopes });
    if (made.status !== 201) throw new Error(made.text);
    return made.body as { id: string; key: string };
  };
  const withKey = (key: string | undefined): Manage => {
    return async (method, path, body, more = {}) => {
      const response = await fetch(`${gw.url}${path.startsWith('/') ? path : `/mgmt/v1/${path}`}`, {
        method,
        headers: {
          ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...more,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return { status: response.status, body: text === '' ? undefined : (JSON.parse(text) as unknown), headers: response.headers };
    };
  };
  return { gw, manage: withKey((await keyOf('acme')).key), keyOf, with: withKey };
}

/** The same on a gateway that runs, for another org than `acme`. */
export async function managedAs(gw: TestGateway, org: string): Promise<Managed> {
  const managed = await managedOf(gw);
  return { ...managed, manage: managed.with((await managed.keyOf(org)).key) };
}

/** The code of an error. */
export function codeIn({ body }: Answer): string | undefined {
  return (body as { error?: { code?: string } } | undefined)?.error?.code;
}
