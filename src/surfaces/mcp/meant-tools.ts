/* What an assistant is told that has called what there is not: the tools that it may have meant, and the list that has the ids. */
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { nearestName } from '../../base/lib/nearest.ts';
import { shorten } from '../../base/lib/shorten.ts';
import type { Tool } from '../../operations/tools.ts';

/** Letters of a thing by which tools are found, and how many are named. */
const SHORTEST_THING = 3;
const OFFERED = 8;

function listsFirst(a: string, b: string): number {
  return Number(b.startsWith('list_')) - Number(a.startsWith('list_'));
}

/** Tools for the same thing, or the nearest name, are what a model may call instead. */
export function noSuchTool(name: string, known: Iterable<string>): string {
  const names = [...known];
  const thing = name.slice(name.indexOf('_') + 1).replace(/(?<=...)(?:ies|[ys])$/, '');
  const alike = thing.length < SHORTEST_THING ? [] : names.filter((one) => one.includes(`_${thing}`)).toSorted(listsFirst);
  const nearest = nearestName(name, names);
  const offered = alike.length > 0 ? alike : nearest === undefined ? [] : [nearest];
  const hint = offered.length === 0 ? 'tools/list has them all' : `did you mean ${offered.slice(0, OFFERED).join(', ')}?`;
  return `There is no tool ${shorten(name, 128)}; ${hint}`;
}

const ID = /^(.+)_(?:id|hash)$/;

/** Of something that there is not: also which list has the ids, where there is one (`list_workloads` for `workload_id`). */
export function tellingIds(error: GatewayError, tool: Tool, known: Iterable<string>): GatewayError {
  const { required } = tool.inputSchema;
  const [first] = Array.isArray(required) ? required.map(String) : [];
  const [, thing] = ID.exec(first ?? '') ?? [];
  if (error.code !== 'not_found' || thing === undefined) return error;
  const [list] = [...known].filter((name) => name.startsWith('list_') && name.includes(`_${thing}`)).toSorted(shorterFirst);
  return list === undefined ? error : new GatewayError('not_found', `${error.message} ${list} has the ids.`);
}

function shorterFirst(a: string, b: string): number {
  return a.length - b.length;
}
