import { isFixedHeader } from '../../base/lib/header-rules.ts';
import { CONNECTION_TYPES, type ConnectionType, TRAFFIC_CLASSES } from '../../base/model/action-request.ts';
import { type Decision, permits } from '../../base/model/reason-codes.ts';
import type { Condition } from './condition.ts';
import { holdsIfKnown } from './condition-logic.ts';
import { BAREST } from './contradiction.ts';
import type { Facts } from './facts.ts';
import type { Field } from './fields.ts';

/*
 * Which fields can never be there at which door, so that whoever writes a rule is told (policy.md, "Tools around it").
 * Every layer is asked at every door; what a rule itself says of `connection_type` and `traffic_class` says which doors
 * it is for.
 */

const PROXIED: readonly ConnectionType[] = ['sdk_redirect', 'connect_proxy'];
const DIRECT: readonly ConnectionType[] = ['direct_api'];

/** How people are told of a door. */
const DOOR_NAMES: Readonly<Record<ConnectionType, string>> = {
  direct_api: 'the structured API',
  sdk_redirect: 'a base URL',
  connect_proxy: 'the proxy',
};

/** What never comes by some doors. */
interface NeverThere {
  /** The part of the name that tells of it; undefined for any other field. */
  readonly of: (name: string) => string | undefined;
  readonly doors: readonly ConnectionType[];
  readonly why: string;
  /** The field that is asked in its place, with what fills it. */
  readonly instead: (part: string) => string | undefined;
}

/** A name of a label as a header can carry it: names of headers have no case, and are read in lower case. */
const IN_HEADER = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
/** Headers of the gateway's own, and the fields that say what they hold. */
const OWN_HEADERS: Readonly<Record<string, string>> = {
  'x-gw-org-id': 'context.org_id',
  'x-gw-workload-id': 'context.workload.id',
  'x-gw-caller-id': 'context.caller_id',
  'x-gw-project-id': 'context.attribution.project_id',
  'x-gw-customer-id': 'context.attribution.customer_id',
  'x-gw-account-id': 'context.attribution.account_id',
  host: 'context.action.target_host',
};
const LABEL_HEADER = 'x-gw-label-';

const after = (root: string) => (name: string) => (name.startsWith(root) ? name.slice(root.length) : undefined);
const labelInHeader = (root: string) => (name: string) => {
  const label = after(root)(name);
  return label === undefined || IN_HEADER.test(label) ? undefined : label;
};
const inLowerCase = (root: string) => (label: string) =>
  IN_HEADER.test(label.toLowerCase()) ? `context.${root}${label.toLowerCase()}` : undefined;

/** By field and door. */
const NEVER_THERE: readonly NeverThere[] = [
  {
    of: (name) => (name === 'purpose' ? '' : undefined),
    doors: PROXIED,
    why: 'only calls of the structured API have a purpose',
    instead: () => 'context.attribution.labels.purpose (X-GW-Label-Purpose, or attribution.labels of a structured call)',
  },
  {
    of: after('delegation.'),
    doors: PROXIED,
    why: 'only calls of the structured API carry a delegation token',
    instead: () => undefined,
  },
  {
    of: labelInHeader('labels.'),
    doors: PROXIED,
    why: 'headers carry names of labels in lower case, without spaces',
    instead: inLowerCase('labels.'),
  },
  {
    of: labelInHeader('attribution.labels.'),
    doors: PROXIED,
    why: 'headers carry names of labels in lower case, without spaces, so that no caller there gives this one',
    instead: inLowerCase('attribution.labels.'),
  },
  {
    of: (name) => {
      const header = after('action.header.')(name);
      return header !== undefined && HEADER_NAME.test(header) && isFixedHeader(header) ? header : undefined;
    },
    doors: DIRECT,
    why: 'a structured call cannot set this header',
    instead: (header) =>
      header.startsWith(LABEL_HEADER) ? `context.attribution.labels.${header.slice(LABEL_HEADER.length)}` : OWN_HEADERS[header],
  },
  {
    of: (name) => {
      const header = after('action.header.')(name);
      return header === undefined || HEADER_NAME.test(header) ? undefined : header;
    },
    doors: CONNECTION_TYPES,
    why: 'no header can have this name',
    instead: () => undefined,
  },
];

/** The doors by which no call ever has the field, whoever may give it. */
export function doorsWithout(name: string): readonly ConnectionType[] {
  return name.startsWith('attribution.') ? [] : NEVER_THERE.filter(({ of }) => of(name) !== undefined).flatMap(({ doors }) => doors);
}

/** Whether a call by this door is certainly without the field. */
export function isNeverThere(name: string, door: ConnectionType): boolean {
  return doorsWithout(name).includes(door);
}

export interface DoorFinding {
  /** Without `context.`. */
  readonly field: string;
  readonly message: string;
  readonly hint: string;
}

/**
 * What a rule asks for that never comes by a door for which it is, where that settles what the rule does there. One for
 * each field.
 */
export function doorFindings(condition: Condition, decision: Decision | undefined): readonly DoorFinding[] {
  const fields = fieldsIn(condition);
  const refuses = decision !== undefined && !permits(decision);
  return NEVER_THERE.flatMap((row) => {
    const field = fields.find(({ name }) => row.of(name) !== undefined);
    if (field === undefined) return [];
    const lacks = ({ name }: Field): boolean => row.of(name) !== undefined;
    const serves = CONNECTION_TYPES.filter((door) => outcomes(condition, refuses, door, () => false).some((holds) => holds !== false));
    const doors = row.doors.filter((door) => serves.includes(door));
    const never = doors.filter((door) => outcomes(condition, refuses, door, lacks).every((holds) => holds === false));
    const always = refuses ? doors.filter((door) => outcomes(condition, refuses, door, lacks).includes(true)) : [];
    const settled = never.length > 0 ? never : always;
    if (settled.length === 0) return [];
    const what = never.length === 0 ? 'refuses every call' : never.length === serves.length ? 'can never match' : 'never matches a call';
    return [findingOf(row, field, what, settled, serves)];
  });
}

function findingOf(
  { why, instead, of }: NeverThere,
  field: Field,
  what: string,
  doors: readonly ConnectionType[],
  serves: readonly ConnectionType[],
): DoorFinding {
  const by = what === 'can never match' ? '' : ` by ${doors.map((door) => `${DOOR_NAMES[door]} (${door})`).join(' or ')}`;
  const asked = instead(of(field.name) ?? '');
  const others = serves.filter((door) => !doors.includes(door));
  const narrowed = others.length === 0 ? undefined : `say which doors are meant: {field: context.connection_type, ${oneOf(others)}}`;
  const hint = [asked === undefined ? undefined : `ask for ${asked}`, narrowed].filter((part) => part !== undefined).join('; or ');
  return {
    field: field.name,
    message: `context.${field.name} is not there at every door: ${why}, so this rule ${what}${by}`,
    hint: hint === '' ? 'remove the rule' : hint,
  };
}

function oneOf(doors: readonly ConnectionType[]): string {
  return doors.length === 1 ? `equals: ${doors.join('')}` : `in: [${doors.join(', ')}]`;
}

/**
 * What the condition comes to at a door, for each class of traffic there can be, when of everything else only what is
 * missing there is known.
 */
function outcomes(
  condition: Condition,
  refuses: boolean,
  door: ConnectionType,
  isMissing: (field: Field) => boolean,
): readonly (boolean | undefined)[] {
  const classes = door === 'connect_proxy' ? TRAFFIC_CLASSES : (['developer'] as const);
  return classes.map((traffic) => {
    const facts: Facts = { ...BAREST, connection_type: door, traffic_class: traffic };
    const isKnown = (field: Field) => field.name === 'connection_type' || field.name === 'traffic_class' || isMissing(field);
    return holdsIfKnown(condition, refuses, facts, isKnown);
  });
}

function fieldsIn(condition: Condition): readonly Field[] {
  return 'parts' in condition ? condition.parts.flatMap(fieldsIn) : [condition.field];
}
