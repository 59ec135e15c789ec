import { looseReading, modelInPath, otherReading } from './reading.ts';
import type { Row } from './row-reader.ts';
import type { Dialect, ErrorShape, ModelNames, Operation } from './types.ts';

const METHODS = ['any', 'get', 'post', 'put', 'patch', 'delete'];
const ACTION_TYPES = ['ai.infer', 'ai.embed', 'ai.moderate', 'http.request'];
/** Members of an operation row. */
export const OPERATION_MEMBERS: readonly string[] = [...METHODS, 'type', 'detail', 'dialect', 'multipart', 'websocket', 'understood'];

/** What nobody describes: metadata, management, a plain HTTP call to any host. */
export const HTTP_REQUEST: Operation = Object.freeze({
  actionType: 'http.request',
  detailType: undefined,
  dialect: undefined,
  multipart: false,
  websocket: false,
  known: true,
  modelNames: 'exact',
});

/** Methods whose requests have no body that a provider reads. */
const BODILESS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'DELETE', 'CONNECT']);

interface Pattern {
  /** Upper case, `*` for every method. */
  readonly method: string;
  readonly regex: RegExp;
  readonly operation: Operation;
}

interface OperationRow {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

/** Checks one row; undefined when it has a problem. */
export function readOperation(row: Row, dialects: ReadonlyMap<string, Dialect>): OperationRow | undefined {
  const named = METHODS.filter((name) => row.has(name));
  const [method] = named;
  const type = row.need('type');
  const dialectId = row.text('dialect');
  const dialect = dialectId === undefined ? undefined : dialects.get(dialectId);
  if (method === undefined || named.length > 1) row.problem('path', `needs exactly one of ${METHODS.join(', ')}`);
  if (!ACTION_TYPES.includes(type)) row.problem('type', `must be one of ${ACTION_TYPES.join(', ')}`);
  if (dialectId !== undefined && dialect === undefined) row.problem('dialect', `"${dialectId}" is no dialect`);
  const path = method === undefined ? '' : row.need(method);
  if (!/^(?:\{base\}|)(?:\/|$)/.test(path) || (/\*/.test(path) && !/^[^*]*\/\*\*$/.test(path))) {
    row.problem('path', 'must begin with / or {base} and may hold a star only as /** at its end');
    return undefined;
  }
  const operation = Object.freeze({
    actionType: type,
    detailType: row.text('detail'),
    dialect,
    multipart: row.flag('multipart', false),
    websocket: row.flag('websocket', false),
    known: row.flag('understood', true),
    modelNames: 'exact',
  });
  return { method: method === 'any' ? '*' : (method ?? '').toUpperCase(), path, operation };
}

interface TableOptions {
  readonly ignoreCase: boolean;
  readonly modelNames: ModelNames;
  readonly shared: boolean;
  /** Each ends with `/**`. */
  readonly planPaths: readonly string[];
  /** Reads the answer of a POST that no row names. */
  readonly unknownAnswer: Dialect | undefined;
}

/** The path of calls on a shared host. */
interface CallPath {
  /** In any case. */
  readonly regex: RegExp;
  /** What every spelling of it holds, in lower case. */
  readonly words: readonly string[];
}

const NO_CALL = HTTP_REQUEST.actionType;

/**
 * Answers what a method and a path mean for one provider. Literal paths are one look-up, patterns a short list of
 * precompiled expressions; the first row wins, so a provider's own rows stand before the sets that it uses.
 */
export class OperationTable {
  /** By method, then by path. */
  readonly #literals = new Map<string, Map<string, Operation>>();
  readonly #sockets = new Map<string, Operation>();
  readonly #patterns: Pattern[] = [];
  readonly #socketPatterns: Pattern[] = [];
  readonly #ignoreCase: boolean;
  /** Of a shared host: the paths of its calls; undefined: the host is not shared. */
  readonly #callPaths: CallPath[] | undefined;
  readonly #planPaths: readonly RegExp[];
  /** What no row names: without a body, with one, and a POST, which fails towards inspection. */
  readonly #plainRequest: Operation;
  readonly #rest: Operation;
  readonly #unknownRequest: Operation;
  readonly #unknownPost: Operation;
  readonly #unknownPlanPost: Operation;

  constructor(given: readonly OperationRow[], bases: readonly string[], options: TableOptions) {
    const { ignoreCase, modelNames, shared, planPaths, unknownAnswer } = options;
    this.#ignoreCase = ignoreCase;
    this.#callPaths = shared ? [] : undefined;
    this.#planPaths = planPaths.map((path) => compilePath(path, ignoreCase));
    const own = { modelNames };
    this.#plainRequest = Object.freeze({ ...HTTP_REQUEST, ...own });
    this.#rest = Object.freeze({ ...this.#plainRequest, rest: true });
    this.#unknownRequest = Object.freeze({ ...this.#plainRequest, known: false });
    this.#unknownPost = Object.freeze({ ...this.#unknownRequest, actionType: 'ai.infer', answerDialect: unknownAnswer });
    this.#unknownPlanPost = Object.freeze({ ...this.#unknownPost, plan: true });
    const rows = modelNames === 'exact' ? given : given.map((row) => ({ ...row, operation: Object.freeze({ ...row.operation, ...own }) }));
    for (const row of rows) {
      const paths = row.path.startsWith('{base}') ? bases.map((base) => base + row.path.slice('{base}'.length)) : [row.path];
      for (const path of paths) this.#add(row, path);
    }
  }

  /**
   * @param path canonical; a query and a trailing slash are ignored, `%3A` counts as the colon that it stands for. One
   * that some servers take for the path of another row (`/v1/threads/x%2Fruns`) is what nobody understands. The rest of
   * a shared host is no call.
   */
  find(method: string, path: string, upgrade: boolean): Operation {
    const upper = method.toUpperCase();
    const plain = this.#plain(path);
    if (upgrade) {
      const socket = this.#sockets.get(plain) ?? firstMatch(this.#socketPatterns, '*', plain);
      if (socket !== undefined) return socket;
    }
    const found = this.#described(upper, plain);
    const isDoubtful = this.#meansAnother(upper, plain, found);
    if (found !== undefined && !isDoubtful) return found;
    if (this.#callPaths !== undefined && !this.isCall(upper, path)) return this.#rest;
    if (upper === 'POST') return this.#isPlanned(plain) ? this.#unknownPlanPost : this.#unknownPost;
    return BODILESS.has(upper) && !isDoubtful ? this.#plainRequest : this.#unknownRequest;
  }

  /**
   * Whether a request is a call, whatever its method, or may be one for a server that reads paths loosely. A row of a
   * shared host that says `http.request` names what is none among paths that are.
   */
  isCall(method: string, path: string): boolean {
    if (this.#callPaths === undefined) return true;
    const plain = this.#plain(path);
    const loose = looseReading(plain);
    if (loose === undefined) {
      const found = this.#described(method.toUpperCase(), plain);
      if (found?.actionType === NO_CALL) return this.#isPosted(plain);
      if (found !== undefined) return true;
    }
    return this.#callPaths.some(({ regex, words }) => {
      if (regex.test(plain)) return true;
      if (loose === undefined) return false;
      const { climbing } = loose;
      return loose.paths.some((read) => regex.test(read)) || (climbing !== undefined && words.every((word) => climbing.includes(word)));
    });
  }

  /** Whether a POST of the path is a call that is understood: some servers take the method from elsewhere. */
  #isPosted(plain: string): boolean {
    const posted = this.#described('POST', plain);
    return posted?.known === true && posted.actionType !== NO_CALL;
  }

  #isPlanned(plain: string): boolean {
    return this.#planPaths.some((pattern) => pattern.test(plain));
  }

  /** Whether the other way to read the path is that of a row, and no row that says the same. */
  #meansAnother(method: string, plain: string, found: Operation | undefined): boolean {
    const other = otherReading(plain);
    const described = other === undefined ? undefined : this.#described(method, other);
    if (other === undefined || described === found || described?.known !== true) return false;
    // Of a row that is not understood only the model is believed.
    return found === undefined || found.known || modelInPath(found, plain) !== modelInPath(described, other);
  }

  #described(method: string, plain: string): Operation | undefined {
    return this.#literals.get(method)?.get(plain) ?? firstMatch(this.#patterns, method, plain);
  }

  /**
   * The first path that a POST of this type goes to, of those that hold no parameter; undefined when there is none in
   * the family of wire formats.
   */
  usualPath(actionType: string, shape: ErrorShape): string | undefined {
    for (const [path, operation] of this.#literals.get('POST') ?? []) {
      if (operation.actionType === actionType && operation.dialect?.errorShape === shape) return path;
    }
    return undefined;
  }

  #add({ method, operation: given }: OperationRow, path: string): void {
    const operation = this.#asCall(given, path);
    const literal = !/[{*]/.test(path) && method !== '*';
    const known = this.#ignoreCase ? path.toLowerCase() : path;
    const pattern = { method: operation.websocket ? '*' : method, regex: compilePath(path, this.#ignoreCase), operation };
    if (operation.websocket) {
      if (!literal) this.#socketPatterns.push(pattern);
      else if (!this.#sockets.has(known)) this.#sockets.set(known, operation);
    } else if (!literal) this.#patterns.push(pattern);
    else {
      const paths = this.#literals.get(method) ?? new Map<string, Operation>();
      this.#literals.set(method, paths);
      if (!paths.has(known)) paths.set(known, operation);
    }
  }

  /** What the row's lists of paths make of an operation that is a call. */
  #asCall(operation: Operation, path: string): Operation {
    if (operation.actionType === NO_CALL) return operation;
    this.#callPaths?.push({ regex: compilePath(path, true), words: wordsOf(path) });
    return this.#isPlanned(path) ? Object.freeze({ ...operation, plan: true }) : operation;
  }

  #plain(path: string): string {
    const query = path.indexOf('?');
    let end = query === -1 ? path.length : query;
    while (end > 1 && path.charCodeAt(end - 1) === 0x2f) end--;
    let plain = end === path.length ? path : path.slice(0, end);
    if (plain.includes('%')) plain = plain.replace(/%3a/gi, ':');
    return this.#ignoreCase ? plain.toLowerCase() : plain;
  }
}

function firstMatch(patterns: readonly Pattern[], method: string, path: string): Operation | undefined {
  for (const pattern of patterns) {
    if ((pattern.method === '*' || pattern.method === method) && pattern.regex.test(path)) return pattern.operation;
  }
  return undefined;
}

/** The texts of a path between slashes and open parts. */
function wordsOf(path: string): readonly string[] {
  return path
    .toLowerCase()
    .split(/\/|\*|\{[a-z_]+\}/)
    .filter((word) => word !== '');
}

function compilePath(path: string, ignoreCase: boolean): RegExp {
  const below = path.endsWith('/**');
  const parts = (below ? path.slice(0, -3) : path).split(/\{[a-zA-Z_]+\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('[^/]+')}${below ? '(?:/.*)?' : ''}$`, ignoreCase ? 'is' : 's');
}
