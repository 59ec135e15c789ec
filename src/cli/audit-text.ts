import { cellWidth, cutToCells } from '../base/lib/cell-width.ts';
import type { AuditChange, AuditEntry } from '../base/model/audit-entry.ts';
import { principalText } from '../base/model/principal.ts';
import { tellsMore } from '../base/model/told-changes.ts';
import { cellText, terminalText } from './terminal-text.ts';

/** Things that people call otherwise than the store. */
const CALLED: Readonly<Record<string, string>> = { delegation_revoked: 'revocation of delegation' };
/** A member whose value is a secret, or may be one. */
const HIDDEN = '(not shown)';
const NONE = '(none)';
/** A stranger's id says nothing where there is a name. */
const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;
/** Of a rule that is new, or gone. */
const WHOLE = 'rule';

/**
 * An entry for a person: what was asked and when; then, where one member has changed and it fits, one sentence, else
 * who it was and a line for each member: `+` is new, `-` is gone.
 * @param columns cells of a line; undefined: as many as it takes
 */
export function auditEntryText(entry: AuditEntry, columns: number | undefined): string {
  const { at, operation, object } = entry;
  const head = [at, operation, ...(object === undefined ? [] : [object])].map(cellText).join('  ');
  const lines = [head, ...(sentence(entry, columns) ?? details(entry))];
  return `${lines.map((line) => (columns === undefined ? line : cutToCells(line, columns))).join('\n')}\n`;
}

/** Undefined: it does not say all, or does not fit. */
function sentence(entry: AuditEntry, columns: number | undefined): readonly string[] | undefined {
  const { principal, from, org_id: orgId, more_changes: more } = entry;
  const [change, another] = entry.changes.filter((one) => tellsMore(one, entry) && one.before !== one.after);
  if (change === undefined || another !== undefined || more !== undefined) return undefined;
  const done = doneTo(change, entry);
  if (done === undefined) return undefined;
  const of = orgId === undefined ? '' : ` of ${orgId}`;
  const { name, kind, id } = principal;
  const line = `  ${terminalText(`${name ?? whoText(entry)} ${done.verb} ${done.what}${of}${done.how}`)}`;
  if (columns !== undefined && cellWidth(line) > columns) return undefined;
  return [line, ...done.rule, `  from ${terminalText(`${from}${name === undefined ? '' : ` by ${kind.replaceAll('_', ' ')} ${id}`}`)}`];
}

interface Done {
  readonly verb: string;
  readonly what: string;
  readonly how: string;
  /** What a rule says that is new, or gone. */
  readonly rule: readonly string[];
}

function doneTo(change: AuditChange, { object, object_name: name }: AuditEntry): Done | undefined {
  const { entity, rule, member, before, after } = change;
  if (rule !== undefined) {
    const what = `rule ${ruleName(rule)}`;
    if (member !== WHOLE) return { verb: 'changed', what, how: `: ${valuesText(change, member)}`, rule: [] };
    const said = changeText(change).replace(`rule ${ruleName(rule)}: `, '');
    return { verb: before === null ? 'added' : after === null ? 'removed' : 'changed', what, how: '', rule: [`  ${terminalText(said)}`] };
  }
  const callName = object !== undefined && UUID.test(object) ? (name ?? object) : object;
  // What is new or gone alone does not say whether the thing is.
  if (before === null || after === null || object === undefined) return undefined;
  return {
    verb: 'changed',
    what: `${CALLED[entity] ?? entity.replaceAll('_', ' ')} ${callName}`,
    how: `: ${valuesText(change, member)}`,
    rule: [],
  };
}

/** `targets/no.gpt4`, and at which level where that is not the org's. */
function ruleName(rule: string): string {
  return rule.replace(/@org$/, '');
}

function details(entry: AuditEntry): readonly string[] {
  const { object_name: name, from, changes, more_changes: more } = entry;
  return [
    ...(name === undefined ? [] : [`  ${terminalText(name)}`]),
    `  by ${terminalText(whoText(entry))} from ${terminalText(from)}`,
    ...changeLines(changes.filter((change) => tellsMore(change, entry))),
    ...(isAsBefore(entry) ? ['    no rule is another: the policy is as before'] : []),
    ...(more === undefined ? [] : [`  and ${more} more changes, of which the entry keeps no more`]),
  ];
}

/** Who it was; nobody knows a node by its id alone. At a control plane, which gateway has handed it on as well. */
function whoText({ principal, node_id: node }: AuditEntry): string {
  if (principal.kind === 'node') return `node ${principal.id} (the gateway itself)`;
  return `${principalText(principal)}${node === undefined ? '' : ` at node ${node}`}`;
}

/** Whether a policy was read again and was what it was, down to its hash. */
function isAsBefore({ changes, more_changes: more }: AuditEntry): boolean {
  return more === undefined && changes.length > 0 && changes.every(({ entity, before, after }) => entity === 'policy' && before === after);
}

/** The parts of a secret are one line: nobody can tell them apart. */
function changeLines(changes: readonly AuditChange[]): readonly string[] {
  const whole = (change: AuditChange): AuditChange =>
    change.before_value === undefined && change.after_value === undefined
      ? { ...change, member: change.member.split('.')[0] ?? change.member }
      : change;
  return [...new Set(changes.map((change) => `  ${terminalText(changeText(change.rule === undefined ? whole(change) : change))}`))];
}

function changeText(change: AuditChange): string {
  const { rule, member, before, after } = change;
  const [was, is] = shownValues(change);
  const name = [
    ...(rule === undefined ? [] : [`rule ${ruleName(rule)}`]),
    ...(rule !== undefined && member === WHOLE ? [] : [member]),
  ].join(': ');
  if (before === after) return `  ${name}: ${is} (as before)`;
  if (member !== WHOLE && rule !== undefined) return `  rule ${ruleName(rule)}: ${valuesText(change, member)}`;
  if (before === null) return `+ ${name}: ${is}`;
  return after === null ? `- ${name}: ${was}` : `  ${name}: ${was} → ${is}`;
}

/** A member that was not there, or is there no more, is said so. */
function valuesText(change: AuditChange, member: string): string {
  const [was, is] = shownValues(change);
  return `${member} ${change.before === null ? NONE : was} → ${change.after === null ? NONE : is}`;
}

/** Before and after. */
function shownValues({ before_value: was = HIDDEN, after_value: is = HIDDEN }: AuditChange): readonly [string, string] {
  return [was === 'null' ? NONE : was, is === 'null' ? NONE : is];
}
