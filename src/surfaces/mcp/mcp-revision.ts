/** One revision of the protocol, and in what it differs from the others for a server that only answers. */
export interface McpRevision {
  readonly name: string;
  /** False: a session begins with `initialize`. True: each request says by itself what it needs to say (`_meta`). */
  readonly stateless: boolean;
  /** Several messages may come as one array (JSON-RPC batch). */
  readonly batches: boolean;
  /** Tools and resources have a `title` of their own, tools an `outputSchema`, and answers `structuredContent`. */
  readonly structured: boolean;
  /** Code of the error for a resource that there is not. */
  readonly resourceNotFound: number;
}

const NOT_FOUND = -32_002;
const INVALID_PARAMS = -32_602;

/** What is spoken, the newest first (decision 10.7). */
export const REVISIONS: readonly McpRevision[] = [
  { name: '2026-07-28', stateless: true, batches: false, structured: true, resourceNotFound: INVALID_PARAMS },
  { name: '2025-11-25', stateless: false, batches: false, structured: true, resourceNotFound: NOT_FOUND },
  { name: '2025-06-18', stateless: false, batches: false, structured: true, resourceNotFound: NOT_FOUND },
  { name: '2025-03-26', stateless: false, batches: true, structured: false, resourceNotFound: NOT_FOUND },
];

/** Those whose requests stand for themselves. */
export const STATELESS: readonly McpRevision[] = REVISIONS.filter(({ stateless }) => stateless);

const [NEWEST_WITH_SESSIONS] = REVISIONS.filter(({ stateless }) => !stateless);

/** The revision with this name; undefined: not spoken. */
export function revisionOf(name: unknown): McpRevision | undefined {
  return REVISIONS.find((revision) => revision.name === name);
}

/** What `initialize` agrees on: what the client asks for where it is spoken, else the newest that has sessions. */
export function negotiated(asked: unknown): McpRevision {
  const revision = revisionOf(asked);
  if (revision !== undefined && !revision.stateless) return revision;
  if (NEWEST_WITH_SESSIONS === undefined) throw new TypeError('no revision has sessions');
  return NEWEST_WITH_SESSIONS;
}
