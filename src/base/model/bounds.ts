import type { Bounds } from './bound.ts';
import { CONTROL_PLANE_BOUNDS } from './control-plane-bounds.ts';
import { CONTROL_BOUNDS, ENTITY_BOUNDS } from './org-bounds.ts';
import { CONNECTION_BOUNDS, OUTBOUND_BOUNDS, STRANGER_BOUNDS } from './traffic-bounds.ts';
import { POLICY_BOUNDS, REPORT_BOUNDS } from './work-bounds.ts';

/**
 * Every bounded place, by the heading under which the guide shows it ("Who shares what" in
 * docs/guides/bodies-and-limits.md).
 */
export const BOUNDS: Readonly<Record<string, Bounds>> = {
  'Connections and answers': CONNECTION_BOUNDS,
  'Callers who have shown nothing': STRANGER_BOUNDS,
  'Policies and patterns': POLICY_BOUNDS,
  'Reports, lists and MCP': REPORT_BOUNDS,
  'Controls and events': CONTROL_BOUNDS,
  'What is laid down for an org': ENTITY_BOUNDS,
  'The control plane': CONTROL_PLANE_BOUNDS,
  'Answers that the gateway reads': OUTBOUND_BOUNDS,
};
