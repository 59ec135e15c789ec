import type { Row } from './row-reader.ts';

/** Bits of a whole number that are safe to shift. */
const MAX_NAMES = 31;
const LAST_PART = /[^/:]*$/;

interface CallLook {
  /** Id of a dialect. */
  readonly like: string;
  /** The end of a path; undefined: any path. */
  readonly path: RegExp | undefined;
  /** Bits of the members that the body has; 0: whatever it has. */
  readonly members: number;
}

/** What the names of the first level of a body tell of a call. `seen`: the bits of those that it has. */
export interface BodyLooks {
  readonly bits: ReadonlyMap<string, number>;
  /** Dialect of the format that the path is for. */
  readonly byPath: (seen: number) => string | undefined;
  /**
   * Of a format that shows itself whatever the path is; only when the whole body is seen, and the path told nothing.
   */
  readonly anywhere: (seen: number) => string | undefined;
}

interface Reader {
  /** Whether there is a provider, or a dialect, of that id. */
  readonly isProvider: (id: string) => boolean;
  readonly isDialect: (id: string) => boolean;
}

const HOST_MEMBERS = ['like', 'patterns', 'parts'];
const CALL_MEMBERS = ['like', 'path', 'socket', 'body'];

/**
 * What hosts and calls look like at hosts that no row has: data for discovery (decision 12.3), which decides nothing.
 */
export class Lookalikes {
  readonly #patterns: { readonly regex: RegExp; readonly like: string }[] = [];
  readonly #parts = new Map<string, string>();
  /** By the last part of the path. */
  readonly #byEnd = new Map<string, CallLook[]>();
  readonly #sockets: CallLook[] = [];
  readonly #anywhere: CallLook[] = [];
  readonly #bits = new Map<string, number>();

  /** Reads `lookalikes` of providers.yaml; undefined: there are none. */
  static read(row: Row | undefined, reader: Reader): Lookalikes {
    const looks = new Lookalikes();
    for (const host of row?.rows('hosts', HOST_MEMBERS) ?? []) looks.#addHost(host, reader);
    for (const call of row?.rows('calls', CALL_MEMBERS) ?? []) looks.#addCall(call, reader);
    return looks;
  }

  /** The provider that a host looks like by its name alone. @param host canonical */
  byName(host: string): string | undefined {
    for (const { regex, like } of this.#patterns) if (regex.test(host)) return like;
    if (this.#parts.size === 0) return undefined;
    for (const part of host.split(/[.-]/)) {
      const like = this.#parts.get(part);
      if (like !== undefined) return like;
    }
    return undefined;
  }

  /**
   * Looks at one request.
   * @param path a query is ignored
   * @returns what it looks like, what will tell so from its body, or undefined when it is no call of this kind
   */
  look(method: string, path: string, upgrade: boolean): string | BodyLooks | undefined {
    const query = path.indexOf('?');
    const sent = query === -1 ? path : path.slice(0, query);
    const plain = sent.includes('%') ? sent.replace(/%3a/gi, ':') : sent;
    if (upgrade) return this.#sockets.find((look) => look.path?.test(plain))?.like;
    if (method !== 'POST') return undefined;
    const meant = (this.#byEnd.get(endOf(plain)) ?? []).filter((look) => look.path?.test(plain));
    const told = meant.find((look) => look.members === 0);
    return told === undefined
      ? { bits: this.#bits, byPath: (seen) => found(meant, seen), anywhere: (seen) => found(this.#anywhere, seen) }
      : told.like;
  }

  #addHost(row: Row, { isProvider }: Reader): void {
    const like = row.need('like');
    if (!isProvider(like)) row.problem('like', `"${like}" is no provider`);
    for (const pattern of row.texts('patterns')) {
      if (/^[a-z0-9.*-]+$/.test(pattern)) this.#patterns.push({ regex: anyText(pattern), like });
      else row.problem('patterns', `"${pattern}" is no host with stars`);
    }
    for (const part of row.texts('parts')) {
      if (/^[a-z0-9]+$/.test(part)) this.#parts.set(part, like);
      else row.problem('parts', `"${part}" is no part of a host`);
    }
  }

  #addCall(row: Row, { isDialect }: Reader): void {
    const like = row.need('like');
    if (!isDialect(like)) row.problem('like', `"${like}" is no dialect`);
    const socket = row.text('socket');
    const path = socket ?? row.text('path');
    if (path !== undefined && !/^[/:][A-Za-z0-9_./:*-]*[A-Za-z0-9_]$/.test(path)) row.problem('path', 'must be the end of a path');
    const look: CallLook = { like, path: path === undefined ? undefined : endsWith(path), members: this.#membersOf(row) };
    if (path === undefined && look.members === 0) row.problem('body', 'is needed where any path is meant');
    if (socket !== undefined) this.#sockets.push(look);
    else if (path === undefined) this.#anywhere.push(look);
    else this.#byEnd.set(endOf(path), [...(this.#byEnd.get(endOf(path)) ?? []), look]);
  }

  #membersOf(row: Row): number {
    let members = 0;
    for (const name of row.texts('body')) {
      const bit = this.#bits.get(name) ?? 1 << this.#bits.size;
      this.#bits.set(name, bit);
      if (this.#bits.size > MAX_NAMES) row.problem('body', `may name ${MAX_NAMES} members in all`);
      members |= bit;
    }
    return members;
  }
}

function found(looks: readonly CallLook[], seen: number): string | undefined {
  return looks.find(({ members }) => (seen & members) === members)?.like;
}

/** A star stands for any text. */
function anyText(pattern: string): RegExp {
  return new RegExp(`^${pattern.replaceAll('.', '\\.').replaceAll('*', '.*')}$`);
}

/** A star stands for one segment; a slash at the end of the path counts for nothing. */
function endsWith(path: string): RegExp {
  return new RegExp(`${path.replaceAll('.', '\\.').replaceAll('*', '[^/]+')}/?$`);
}

function endOf(path: string): string {
  return LAST_PART.exec(path.endsWith('/') ? path.slice(0, -1) : path)?.[0] ?? '';
}
