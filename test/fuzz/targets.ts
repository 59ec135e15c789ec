import { BODY_TARGETS } from './body-targets.ts';
import { DELEGATION_TARGETS } from './delegation-targets.ts';
import { FACE_TARGETS } from './face-targets.ts';
import { HEAD_TARGETS } from './head-targets.ts';
import { HTTP2_TARGETS } from './http2-targets.ts';
import { LEDGER_TARGETS } from './ledger-targets.ts';
import { MCP_TARGETS } from './mcp-targets.ts';
import { PIECE_TARGETS } from './piece-targets.ts';
import { PIPELINED_TARGETS } from './pipelined-targets.ts';
import { POLICY_TARGETS } from './policy-targets.ts';
import { PROTOCOL_TARGETS } from './protocol-targets.ts';
import { SHARE_TARGETS } from './share-targets.ts';
import { SOCKET_TARGETS } from './socket-targets.ts';
import { STREAM_TARGETS } from './stream-targets.ts';
import type { FuzzTarget } from './target.ts';
import { UPSTREAM_TARGETS } from './upstream-targets.ts';

/** Every parser that reads what strangers send, and every face that shows it. */
export const FUZZ_TARGETS: readonly FuzzTarget[] = [
  ...HEAD_TARGETS,
  ...HTTP2_TARGETS,
  ...PIPELINED_TARGETS,
  ...BODY_TARGETS,
  ...STREAM_TARGETS,
  ...POLICY_TARGETS,
  ...UPSTREAM_TARGETS,
  ...SOCKET_TARGETS,
  ...PIECE_TARGETS,
  ...DELEGATION_TARGETS,
  ...LEDGER_TARGETS,
  ...SHARE_TARGETS,
  ...PROTOCOL_TARGETS,
  ...MCP_TARGETS,
  ...FACE_TARGETS,
];
