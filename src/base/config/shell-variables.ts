/** Variables of the shell in which people and programs manage a gateway: commands and clients read them, and no gateway does, so none is a setting. */
export const SHELL_VARIABLES: Readonly<Record<string, string>> = {
  GW_MGMT_KEY: 'The management key (`mgk_…`) with which `gw` and `gw-mcp` ask.',
  GW_MCP_TOKEN: 'What clients show to a `gw-mcp` that listens, as bearer token.',
  GW_MCP_KEY: 'The MCP key (`mcpk_…`) in configurations of MCP clients.',
};
