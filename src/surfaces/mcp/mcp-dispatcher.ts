import { isJsonObject, type JsonObject } from '../../base/json/json-object.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Logger } from '../../base/lib/log.ts';
import { shownJson } from '../../base/lib/shown-text.ts';
import { shorten } from '../../base/lib/text.ts';
import type { Asker, Tool, ToolSet } from '../../operations/tools.ts';
import { errorText, RPC, RpcError, type RpcRequest, resultText } from './json-rpc.ts';
import { type McpRevision, negotiated, STATELESS } from './mcp-revision.ts';
import { noSuchTool, tellingWays } from './meant-tools.ts';
import { toolAnswer, toolFailure } from './tool-answer.ts';

/** How this server presents itself. */
export interface McpServerFacts {
  readonly name: string;
  readonly title: string;
  readonly version: string;
  /** For the assistant: what this is, and what it has to know of all tools. */
  readonly instructions: string;
}

export interface DispatcherOptions {
  readonly toolSet: ToolSet;
  readonly server: McpServerFacts;
  readonly log: Logger;
}

interface Context {
  readonly revision: McpRevision;
  readonly asker: Asker;
}

/** Members of a result as text, without its braces: what never changes is written out once. */
type Method = (params: JsonObject, context: Context) => string | Promise<string>;

/**
 * Nothing that is listed changes while the program runs; a client that outlives it should not believe the old list for
 * long.
 */
const LISTED = '"ttlMs":300000,"cacheScope":"public"';
/** A resource is a snapshot of what one org has now. */
const READ = '"ttlMs":0,"cacheScope":"private"';
/** No notification is ever sent, so none is promised: neither changed lists, nor subscriptions, nor log messages. */
const CAPABILITIES = { tools: {}, resources: {} };

/**
 * The Model Context Protocol without its transports: one request in, one answer out as text (ADR 15). It holds nothing
 * of a client: the revision that was agreed on, and who asks, come with each request.
 */
export class McpDispatcher {
  readonly #toolSet: ToolSet;
  readonly #server: McpServerFacts;
  readonly #log: Logger;
  readonly #tools: ReadonlyMap<string, Tool>;
  readonly #uris: ReadonlySet<string>;
  /** Lists by the name of the revision, and by whether they are for who may read. */
  readonly #lists = new Map<string, { readonly tools: string; readonly resources: string }>();
  readonly #serverInfo: JsonObject;
  readonly #methods: Readonly<Record<string, Method>> = {
    'tools/list': (params, { revision, asker }) => uncut(params, `"tools":${this.#listsOf(revision, asker).tools}`, { revision, asker }),
    'tools/call': (params, context) => this.#call(params, context),
    'resources/list': (params, { revision, asker }) =>
      uncut(params, `"resources":${this.#listsOf(revision, asker).resources}`, { revision, asker }),
    'resources/templates/list': (params, context) => uncut(params, '"resourceTemplates":[]', context),
    'resources/read': (params, context) => this.#read(params, context),
  };
  /**
   * Of revisions with sessions alone, and of those without. Prompts are not promised, but older clients ask without
   * looking.
   */
  readonly #ofSessions: Readonly<Record<string, Method>> = {
    ping: () => '',
    'prompts/list': (params, context) => uncut(params, '"prompts":[]', context),
  };
  readonly #stateless: Readonly<Record<string, Method>> = { 'server/discover': () => this.#discover() };

  constructor({ toolSet, server, log }: DispatcherOptions) {
    this.#toolSet = toolSet;
    this.#server = server;
    this.#log = log;
    this.#tools = new Map(toolSet.tools.map((tool) => [tool.name, tool]));
    this.#uris = new Set(toolSet.resources.map(({ uri }) => uri));
    this.#serverInfo = { name: server.name, title: server.title, version: server.version };
  }

  /**
   * The first request of a session.
   * @returns the answer, and what was agreed on; without the latter nothing was
   */
  initialize({ id, params }: RpcRequest): { readonly text: string; readonly revision?: McpRevision } {
    const { protocolVersion, capabilities, clientInfo } = params;
    if (typeof protocolVersion !== 'string' || !isJsonObject(capabilities) || !isJsonObject(clientInfo)) {
      const message = 'initialize takes protocolVersion (text), capabilities and clientInfo (objects).';
      return { text: errorText(id, new RpcError(RPC.invalidParams, message)) };
    }
    const revision = negotiated(protocolVersion);
    const { title, ...untitled } = this.#serverInfo;
    const result = {
      protocolVersion: revision.name,
      capabilities: CAPABILITIES,
      serverInfo: revision.structured ? { ...untitled, title } : untitled,
      instructions: this.#server.instructions,
    };
    return { text: resultText(id, JSON.stringify(result)), revision };
  }

  /** Answers any other request; never rejects. `failed` is the code of a failure of the protocol. */
  async answer(request: RpcRequest, revision: McpRevision, asker: Asker): Promise<{ readonly text: string; readonly failed?: number }> {
    const { id, method, params } = request;
    try {
      const members = await this.#method(method, revision)(params, { revision, asker });
      return { text: resultText(id, `{${this.#completed(members, revision)}}`) };
    } catch (error) {
      const known = error instanceof RpcError ? error : this.#unexpected(error, method);
      return { text: errorText(id, known), failed: known.code };
    }
  }

  #method(name: string, { stateless }: McpRevision): Method {
    const own = stateless ? this.#stateless : this.#ofSessions;
    const table = [this.#methods, own].find((methods) => Object.hasOwn(methods, name));
    const method = table?.[name];
    if (method === undefined) throw new RpcError(RPC.methodNotFound, `There is no method ${shorten(name, 64)} here.`);
    return method;
  }

  #completed(members: string, { stateless }: McpRevision): string {
    if (!stateless) return members;
    const meta = JSON.stringify({ 'io.modelcontextprotocol/serverInfo': this.#serverInfo });
    return `${members},"resultType":"complete","_meta":${meta}`;
  }

  #discover(): string {
    const supportedVersions = STATELESS.map(({ name }) => name);
    const { instructions } = this.#server;
    return `${JSON.stringify({ supportedVersions, capabilities: CAPABILITIES, instructions }).slice(1, -1)},${LISTED}`;
  }

  /** Who may not read sees the tools that he may use; everybody else sees all, and is told of a scope that he lacks. */
  #listsOf(revision: McpRevision, { principal }: Asker): { readonly tools: string; readonly resources: string } {
    const isReader = mayRead(principal);
    const name = isReader ? revision.name : `${revision.name} of approvers`;
    const known = this.#lists.get(name);
    if (known !== undefined) return known;
    const tools = this.#toolSet.tools.filter(({ scope }) => isReader || principal.scopes.includes(scope));
    const resources = isReader ? this.#toolSet.resources : [];
    const made = {
      tools: JSON.stringify(tools.map((tool) => shownTool(tool, revision))),
      resources: JSON.stringify(
        resources.map(({ uri, name, title, description }) => ({
          uri,
          name,
          ...(revision.structured ? { title } : {}),
          description,
          mimeType: 'application/json',
        })),
      ),
    };
    this.#lists.set(name, made);
    return made;
  }

  async #call({ name, arguments: args = {} }: JsonObject, { revision, asker }: Context): Promise<string> {
    if (typeof name !== 'string') throw new RpcError(RPC.invalidParams, 'tools/call takes the name of a tool.');
    const tool = this.#tools.get(name);
    if (tool === undefined) throw new RpcError(RPC.invalidParams, noSuchTool(name, this.#tools.keys()));
    if (!isJsonObject(args)) throw new RpcError(RPC.invalidParams, 'arguments is an object.');
    try {
      return toolAnswer(await this.#toolSet.call(name, args, asker), revision);
    } catch (error) {
      // Nobody waits for it any more.
      if (error instanceof RpcError || (error instanceof GatewayError && error.code === 'client_gone')) throw error;
      if (error instanceof GatewayError) return toolFailure(tellingWays(error, tool, this.#tools.keys()), revision);
      this.#log.error({ err: error, tool: name }, 'a tool failed unexpectedly');
      return toolFailure(new GatewayError('internal', 'The gateway failed to do this; its log has the details.'), revision);
    }
  }

  async #read({ uri }: JsonObject, { revision, asker }: Context): Promise<string> {
    if (typeof uri !== 'string') throw new RpcError(RPC.invalidParams, 'resources/read takes the URI of a resource.');
    if (!this.#uris.has(uri)) {
      const shown = shorten(uri, 256);
      throw new RpcError(revision.resourceNotFound, `There is no resource ${shown}; resources/list has them all.`, { uri: shown });
    }
    const text = shownJson(JSON.stringify(await this.#toolSet.read(uri, asker)));
    const contents = JSON.stringify([{ uri, mimeType: 'application/json', text }]);
    return `"contents":${contents}${revision.stateless ? `,${READ}` : ''}`;
  }

  #unexpected(error: unknown, method: string): RpcError {
    if (error instanceof GatewayError) return new RpcError(RPC.internal, error.message, error.toBody());
    this.#log.error({ err: error, method }, 'an MCP request failed unexpectedly');
    return new RpcError(RPC.internal, 'The gateway failed to handle this request; its log has the details.');
  }
}

/** A list that always comes whole: nobody was given a cursor for it. */
function uncut({ cursor }: JsonObject, members: string, { revision, asker }: Context): string {
  if (cursor !== undefined) throw new RpcError(RPC.invalidParams, 'This list comes whole: there is no such cursor.');
  if (!revision.stateless) return members;
  return `${members},${mayRead(asker.principal) ? LISTED : READ}`;
}

function mayRead({ scopes }: Asker['principal']): boolean {
  return scopes.includes('read');
}

/**
 * A tool as it is listed. A model reads the list at every turn, so it has no more than is needed to call (decision
 * 10.15): no schema of answers, and of the hints those that say something else than their absence does. 2025-03-26
 * knows a title among the annotations alone, later revisions beside the name.
 */
function shownTool({ name, title, description, inputSchema, annotations }: Tool, { structured }: McpRevision): JsonObject {
  const hints = saidHints(annotations);
  return structured
    ? { name, ...(saysMore(title, name) ? { title } : {}), description, inputSchema, annotations: hints }
    : { name, description, inputSchema, annotations: { ...(saysMore(title, name) ? { title } : {}), ...hints } };
}

/** What a hint means that is left out, as the protocol says. */
const HINTS_LEFT_OUT = { readOnlyHint: false, destructiveHint: true, idempotentHint: false } as const;

/** That a tool reaches nobody outside of the gateway is not said: left out, clients are the more careful. */
function saidHints({ readOnlyHint, destructiveHint, idempotentHint }: Tool['annotations']): Partial<Tool['annotations']> {
  // Of a tool that reads, the two about changes mean nothing.
  const hints = readOnlyHint ? { readOnlyHint } : { destructiveHint, idempotentHint };
  return Object.fromEntries(Object.entries(hints).filter(([name, value]) => HINTS_LEFT_OUT[name as keyof typeof HINTS_LEFT_OUT] !== value));
}

/** A title that only says the name in words is none: clients show the name then. */
function saysMore(title: string, name: string): boolean {
  return (
    title
      .toLowerCase()
      .replace(/ (?:a|an|the) /g, ' ')
      .replaceAll(' ', '_') !== name
  );
}
