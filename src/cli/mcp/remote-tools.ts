import type { Clock } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Tool, ToolRequest, ToolSet, ToolTable } from '../../operations/tools.ts';
import type { GatewayAddress } from '../gateway-address.ts';
import type { GatewayKey } from './gateway-key.ts';
import { askGateway } from './gateway-link.ts';

export interface RemoteToolsOptions {
  readonly table: ToolTable;
  readonly gateway: GatewayAddress;
  readonly key: GatewayKey;
  readonly clock: Pick<Clock, 'now'>;
  /**
   * Put before each title, which is what a person sees when he is asked whether a tool may be used; undefined: nothing.
   */
  readonly mark?: string;
}

/** The tools of a gateway elsewhere: each call is the request of its management API that the tool stands for. */
export function remoteTools({ table, gateway, key, clock, mark }: RemoteToolsOptions): ToolSet {
  const ask = async ({ method, path, headers, body }: ToolRequest): Promise<unknown> => {
    const once = async (secret: string): Promise<unknown> =>
      askGateway(gateway, {
        method,
        path,
        headers: { ...headers, Authorization: `Bearer ${secret}` },
        ...(body === undefined ? {} : { body }),
      });
    const secret = await key.current();
    try {
      return await once(secret);
    } catch (error) {
      // Nothing was done yet.
      if (!(error instanceof GatewayError) || error.code !== 'unauthorized' || !key.refused(secret)) throw error;
      return once(await key.current());
    }
  };
  const call = async (name: string, args: unknown): Promise<unknown> => {
    const asked = table.requestOf(name, args, () => clock.now());
    return 'answer' in asked ? asked.answer : ask(asked);
  };
  return {
    tools: mark === undefined ? table.tools : table.tools.map((tool) => marked(tool, mark)),
    call,
    resources: table.resources,
    read: (uri) => {
      const { tool, args } = table.resourceOf(uri);
      return call(tool, args);
    },
  };
}

function marked(tool: Tool, mark: string): Tool {
  return { ...tool, title: `${mark} ${tool.title}` };
}
