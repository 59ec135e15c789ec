import type { Principal } from '../../base/model/principal.ts';

/** One tool as clients see it. Schemas are JSON Schema objects, made once. */
export interface Tool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly scope: 'read' | 'write';
  readonly annotations: {
    readonly readOnlyHint: boolean;
    readonly destructiveHint: boolean;
    readonly idempotentHint: boolean;
    readonly openWorldHint: boolean;
  };
  readonly inputSchema: object;
  readonly outputSchema?: object;
}

/** Who asks, and from which address (without port). */
export interface Asker {
  readonly principal: Principal;
  readonly from: string;
}

/** What is offered, whoever carries it out. */
export interface ToolSet {
  readonly tools: readonly Tool[];
  /** The JSON answer. @throws GatewayError */
  call(name: string, args: unknown, asker: Asker): Promise<unknown>;
  readonly resources: readonly {
    readonly uri: string;
    readonly name: string;
    readonly title: string;
    readonly description: string;
  }[];
  /** The JSON content of one of the resources. @throws GatewayError */
  read(uri: string, asker: Asker): Promise<unknown>;
}
