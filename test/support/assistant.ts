/** What a tool answered; `failed`: as an error, which counts as a call all the same. */
export interface ToolSaid {
  readonly answer: Readonly<Record<string, unknown>>;
  readonly failed: boolean;
}

/** An assistant with one key: it reads the list of tools, and calls them by name. */
export class Assistant {
  readonly #url: string;
  readonly #key: string;
  /** How many calls of tools it has made. */
  calls = 0;

  constructor(url: string, key: string) {
    this.#url = url;
    this.#key = key;
  }

  /** Each tool with the names of its arguments. */
  async tools(): Promise<ReadonlyMap<string, readonly string[]>> {
    const { tools } = (await this.#ask('tools/list', {})) as { tools: { name: string; inputSchema: { properties?: object } }[] };
    return new Map(tools.map(({ name, inputSchema }) => [name, Object.keys(inputSchema.properties ?? {})]));
  }

  async call(name: string, args: Readonly<Record<string, unknown>>): Promise<ToolSaid> {
    this.calls += 1;
    const { content, isError = false } = (await this.#ask('tools/call', { name, arguments: args })) as {
      content: readonly { text: string }[];
      isError?: boolean;
    };
    return { answer: JSON.parse(content[0]?.text ?? '{}') as ToolSaid['answer'], failed: isError };
  }

  async #ask(method: string, params: Readonly<Record<string, unknown>>): Promise<unknown> {
    const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };
    const response = await fetch(`${this.#url}/mcp`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${this.#key}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': method,
        ...(typeof params['name'] === 'string' ? { 'mcp-name': params['name'] } : {}),
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } }),
    });
    const { result, error } = (await response.json()) as { result?: unknown; error?: { message: string } };
    if (error !== undefined) throw new Error(`${method}: ${error.message}`);
    return result;
  }
}

/**
 * Whether a value has what a pattern says: members of objects, items of lists in any order, `/…/` as a part of a text.
 * An empty list is an empty list.
 */
export function fits(value: unknown, pattern: unknown): boolean {
  if (typeof pattern === 'string' && pattern.startsWith('/'))
    return typeof value === 'string' && new RegExp(pattern.slice(1, -1)).test(value);
  if (Array.isArray(pattern)) {
    if (!Array.isArray(value) || (pattern.length === 0 && value.length > 0)) return false;
    return pattern.every((one) => value.some((item) => fits(item, one)));
  }
  if (typeof pattern !== 'object' || pattern === null) return value === pattern;
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(pattern).every(([name, part]) => fits((value as Record<string, unknown>)[name], part));
}
