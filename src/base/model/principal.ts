/**
 * What may be asked. `none`: anyone who reaches the port. `caller`: what concerns one call, for whoever made it. `org`:
 * what concerns one org, which its API keys may ask too (decision 3.6). `read`, `write`: what a management key may do
 * in its org (specification, "Authentication" 4). `review`, `decide`: to see what waits for a person, and to decide it,
 * which `read` and `write` imply, and `approve` opens alone (decision 10.1). `mcp`: to speak MCP at all; what each tool
 * needs is judged with it. `sign_in`: to begin a session of a browser, and `session`: what each session may ask about
 * itself (decision 10.19).
 */
export type Scope =
  | 'none'
  | 'caller'
  | 'admin'
  | 'metrics'
  | 'org'
  | 'read'
  | 'write'
  | 'review'
  | 'decide'
  | 'mcp'
  | 'sign_in'
  | 'session';

/** For what a key was made with the admin token: a program that acts for who has that token (decision 10.14). */
export interface AdminSession {
  /** `gw`, `gw-mcp`. */
  readonly program: string;
  /** Whom the program says that it works for: a hint, which nobody has proven. */
  readonly user?: string;
}

/** In which a program says so that asks with the admin token itself. */
export const ADMIN_PROGRAM_HEADER = 'gw-admin-program';
export const ADMIN_USER_HEADER = 'gw-admin-user';

/** Who asks one of the gateway's own routes, after what was shown has been judged. */
export interface Principal {
  /**
   * `anyone` has shown nothing, because nothing was needed. `node`: a gateway, at its control plane, or at itself for
   * what its settings say. `user`: a person who was proven in this request. `session`: a person who has signed in
   * before, by a browser's cookie.
   */
  readonly kind: 'anyone' | 'admin' | 'metrics' | 'workload' | 'api_key' | 'management_key' | 'mcp_key' | 'node' | 'user' | 'session';
  /** Names this one among others of its kind; never a secret. Of a session: the session. */
  readonly id: string;
  /** For people; absent: the id is. */
  readonly name?: string;
  /** Of a session: the id of the person who has signed in, or of the key that has. */
  readonly userId?: string;
  /** Of a person: the groups of which it was proven that the person is a member. */
  readonly groups?: readonly string[];
  /** Of a key that another key has made: the first one of these. Whoever makes keys is one person with all of them. */
  readonly madeBy?: string;
  /** The one org that it may ask about; undefined: all. */
  readonly orgId?: string;
  readonly scopes: readonly Scope[];
  /**
   * Who holds a key that the admin token has made for one session is the admin token; so is who has signed in with it.
   */
  readonly session?: AdminSession;
}

/**
 * How somebody is named where it is told who did something: in the audit trail, at an approval. Never what he says of
 * himself alone.
 */
export interface NamedPrincipal {
  readonly kind: Principal['kind'];
  readonly id: string;
  /** Of the key, or of the person. */
  readonly name?: string;
  /** Of a session: the person who had signed in. */
  readonly user_id?: string;
  /** Of a session of the admin token: the program, and whom it says that it works for. */
  readonly program?: string;
  readonly user?: string;
}

/** What is kept of who has done something. */
export function namedPrincipal({
  kind,
  id,
  name,
  userId,
  session,
}: Pick<Principal, 'kind' | 'id' | 'name' | 'userId' | 'session'>): NamedPrincipal {
  if (session !== undefined) return { kind: 'admin', id: 'admin', ...session };
  return { kind, id, ...(name === undefined ? {} : { name }), ...(userId === undefined ? {} : { user_id: userId }) };
}

/**
 * The same in one word, for people. The admin token is nobody's name: where its holder says who he is, that stands for
 * it (decision 9.1).
 * @param given what he has said
 */
export function principalWord({ kind, id, name, user_id: userId }: NamedPrincipal, given?: string): string {
  return (kind === 'admin' ? given : undefined) ?? name ?? userId ?? id;
}

/**
 * The same for people, with what proves it: the words of the audit trail and of everything that somebody has decided.
 * @param note for whom that is, as was said; undefined: nothing was
 */
export function principalText({ kind, id, name, user_id: userId, program, user }: NamedPrincipal, note?: string): string {
  const isNamed = kind === 'admin' && note !== undefined;
  const beside = [
    isNamed ? 'with the admin token' : undefined,
    program === undefined ? undefined : `${program}${user === undefined ? '' : ` for ${user}`}`,
    name === undefined || userId === undefined ? undefined : `user ${userId}`,
    name === undefined && userId === undefined ? undefined : `${kind.replaceAll('_', ' ')} ${id}`,
    isNamed || note === undefined ? undefined : `for ${note}`,
  ].filter((text) => text !== undefined);
  return `${isNamed ? note : (name ?? userId ?? id)}${beside.length === 0 ? '' : ` (${beside.join(', ')})`}`;
}
