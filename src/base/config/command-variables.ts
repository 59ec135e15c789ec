/** A variable that programs of this package read which ask a gateway. The gateway itself does not. */
export interface CommandVariable {
  readonly variable: string;
  readonly readBy: string;
  /** One line. */
  readonly help: string;
}

export const MANAGEMENT_KEY_VARIABLE = 'GW_MGMT_KEY';
export const MCP_TOKEN_VARIABLE = 'GW_MCP_TOKEN';
export const MCP_KEY_VARIABLE = 'GW_MCP_KEY';
export const WORKLOAD_TOKEN_VARIABLE = 'GW_WORKLOAD_TOKEN';

/** All of them are secrets. */
export const COMMAND_VARIABLES: readonly CommandVariable[] = [
  { variable: MANAGEMENT_KEY_VARIABLE, readBy: 'gw, gw-mcp', help: 'Management key (`mgk_…`) by which a gateway is asked.' },
  {
    variable: MCP_TOKEN_VARIABLE,
    readBy: 'gw-mcp',
    help: 'What clients of `gw-mcp --listen` show as bearer token, 16 characters or more; needed where others than this machine can reach it.',
  },
  {
    variable: WORKLOAD_TOKEN_VARIABLE,
    readBy: 'gw env, gw run',
    help: 'Token of the workload that `--workload` names (`gwt_…`, or an API key), where no `--token-file` is given.',
  },
  {
    variable: MCP_KEY_VARIABLE,
    readBy: 'clients of MCP',
    help: 'MCP key (`mcpk_…`) that clients of `/mcp` show, in the configurations of the guide (docs/guides/mcp.md).',
  },
];
