/*
 * What an assistant is told that has called what there is not: the tools that it may have meant, and the list that has
 * the ids.
 */
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { nearestName } from '../../base/lib/mistakes.ts';
import { shorten } from '../../base/lib/text.ts';
import type { Tool } from '../../operations/tools.ts';

/** Letters of a thing by which tools are found, and how many are named. */
const SHORTEST_THING = 3;
const OFFERED = 8;

/**
 * What a model wants whose tool has another name, by the name that it guessed: the tools for it, and how they are
 * asked.
 */
const WAYS: readonly (readonly [guess: RegExp, tools: readonly string[], how: string])[] = [
  [
    /^(?:pause|suspend|block|freeze|ban|stop|disable)_(?!.*(?:provider|connector|alert|export))/,
    ['put_policy_rule'],
    'A rule {when: {field: workload.id, equals: X}, effect: {decision: deny}} stops its calls, delete_policy_rule lets them pass again.',
  ],
  [/^(?:resume|unpause|unblock|unsuspend)_/, ['list_policy_rules', 'delete_policy_rule'], 'They find and take away the rule that refuses.'],
  [
    /unpriced|(?:no|without)_price/,
    ['list_records', 'get_cost_report'],
    'Calls without a price have cost_doubt=default_rate; by=model says of which models.',
  ],
  [/forecast|predict|projection/, ['get_cost_report', 'list_budget_limits'], 'Their answers have forecast.'],
  [
    /^(?:undo|revert|rollback|restore)/,
    ['list_audit'],
    'It has what was there before each change; put_policy_rule puts a previous_rule back.',
  ],
  [/^(?:list|get|show)_(?:recent_)?(?:changes?|history|activity|logs?)$/, ['list_audit'], 'It has who changed what, before and after.'],
  [
    /_(?:user|caller|developer|person|people)s?$/,
    ['get_cost_report', 'list_records'],
    'Callers are in no register: by=caller, and the filter caller_id.',
  ],
];
/** What the update of a thing does as well. */
const UPDATES = /^(?:rename|archive|unarchive|edit|modify|change)_/;

function listsFirst(a: string, b: string): number {
  return Number(b.startsWith('list_')) - Number(a.startsWith('list_'));
}

/** Tools for the same thing, or the nearest name, are what a model may call instead. */
export function noSuchTool(name: string, known: Iterable<string>): string {
  const names = [...known];
  const way = wayOf(name, names);
  if (way !== undefined) return `There is no tool ${shorten(name, 128)}; ${way}`;
  const thing = name.slice(name.indexOf('_') + 1).replace(/(?<=...)(?:ies|[ys])$/, '');
  const alike = thing.length < SHORTEST_THING ? [] : names.filter((one) => one.includes(`_${thing}`)).toSorted(listsFirst);
  const nearest = nearestName(name, names);
  const offered = alike.length > 0 ? alike : nearest === undefined ? [] : [nearest];
  const hint = offered.length === 0 ? 'tools/list has them all' : `did you mean ${offered.slice(0, OFFERED).join(', ')}?`;
  return `There is no tool ${shorten(name, 128)}; ${hint}`;
}

function wayOf(name: string, names: readonly string[]): string | undefined {
  const asked = name.toLowerCase();
  const update = UPDATES.test(asked) ? asked.replace(UPDATES, 'update_').replace(/s$/, '') : undefined;
  if (update !== undefined && names.includes(update)) return `did you mean ${update}?`;
  const found = WAYS.find(([guess, tools]) => guess.test(asked) && tools.every((tool) => names.includes(tool)));
  return found === undefined ? undefined : `did you mean ${found[1].join(' or ')}? ${found[2]}`;
}

const ID = /^(.+)_(?:id|hash)$/;

/**
 * An error with what an assistant needs to do better: which list has the ids (`list_workloads` for `workload_id`) of
 * something that there is not, or that is left out, and what makes or changes a thing that is not there, or is.
 */
export function tellingWays(error: GatewayError, tool: Tool, known: Iterable<string>): GatewayError {
  const names = [...known];
  const { required } = tool.inputSchema;
  const [first = ''] = Array.isArray(required) ? required.map(String) : [];
  switch (error.code) {
    case 'not_found':
      return saying(error, [hasIds(listOf(ID.exec(first)?.[1] ?? first, names))]);
    case 'precondition_failed':
      return saying(error, otherWay(tool.name, names));
    case 'invalid_request':
      return withLists(error, `${/^create_(.+)$/.exec(tool.name)?.[1]}_id`, names);
    default:
      return error;
  }
}

/** What makes a thing that is not there, or changes one that is. */
function otherWay(name: string, names: readonly string[]): readonly (string | undefined)[] {
  const [verb = '', ...words] = name.split('_');
  const thing = words.join('_');
  const [makes, changes] = [`create_${thing}`, `update_${thing}`];
  if (verb === 'create') return [names.includes(changes) ? `${changes} changes it.` : undefined];
  if (verb !== 'update') return [];
  return [names.includes(makes) ? `${makes} makes one.` : undefined, hasIds(listOf(thing, names))];
}

/** Of each id that is wrong or left out, which list has it. @param made the id of what is made: no list has that */
function withLists(error: GatewayError, made: string, names: readonly string[]): GatewayError {
  const details = error.details?.map((detail) => {
    const list = detail.path === made ? undefined : listOf(ID.exec(detail.path)?.[1] ?? '', names);
    return list === undefined ? detail : { ...detail, message: `${detail.message}; ${list} has the ids` };
  });
  return details === undefined ? error : new GatewayError(error.code, error.message, { details });
}

function listOf(thing: string, names: readonly string[]): string | undefined {
  return thing === ''
    ? undefined
    : names.filter((name) => name.startsWith('list_') && name.includes(`_${thing}`)).toSorted(shorterFirst)[0];
}

function hasIds(list: string | undefined): string | undefined {
  return list === undefined ? undefined : `${list} has the ids.`;
}

function saying(error: GatewayError, more: readonly (string | undefined)[]): GatewayError {
  const said = more.filter((one) => one !== undefined);
  return said.length === 0
    ? error
    : new GatewayError(error.code, [error.message, ...said].join(' '), error.details === undefined ? {} : { details: error.details });
}

function shorterFirst(a: string, b: string): number {
  return a.length - b.length;
}
