import type { ErrorDetail } from '../../base/lib/gateway-error.ts';
import { Mistakes, nearestName } from '../../base/lib/mistakes.ts';
import { inFewWords, type YamlEntry, type YamlMap, type YamlNode, type YamlScalar } from '../../base/lib/yaml.ts';

/** Where in a bundle something stands: file, dotted path, and the rule around it when there is one. */
export class SourcePlace {
  readonly file: string;
  readonly path: string;
  readonly ruleId: string | undefined;

  constructor(file: string, path: string, ruleId?: string) {
    this.file = file;
    this.path = path;
    this.ruleId = ruleId;
  }

  /** A member or, for a number, an item of this place. */
  at(member: string | number): SourcePlace {
    const path = typeof member === 'number' ? `${this.path}[${member}]` : this.path === '' ? member : `${this.path}.${member}`;
    return new SourcePlace(this.file, path, this.ruleId);
  }

  inRule(ruleId: string): SourcePlace {
    return new SourcePlace(this.file, this.path, ruleId);
  }
}

/** In the order in which they stand in the texts, the texts in the order in which they first come. */
export function sortByPlace(details: readonly ErrorDetail[]): readonly ErrorDetail[] {
  const files = [...new Set(details.map((detail) => detail.file))];
  const rank = ({ file }: ErrorDetail) => files.indexOf(file);
  return details.toSorted((a, b) => rank(a) - rank(b) || (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0));
}

/** Collects all mistakes of a bundle, so that they are reported at once (policy.md 17). */
export class Problems {
  readonly #mistakes = new Mistakes();

  get found(): boolean {
    return this.#mistakes.found;
  }

  /**
   * In the order in which they stand in the texts, the texts in the order in which they were read. The first fifty, and
   * how many more there are.
   */
  sorted(): readonly ErrorDetail[] {
    return this.#mistakes.all(sortByPlace);
  }

  add(place: SourcePlace, node: YamlNode | undefined, code: ProblemCode, message: string, hint?: string): void {
    if (this.#mistakes.full) {
      this.#mistakes.count();
      return;
    }
    this.#mistakes.add({
      path: inFewWords(place.path),
      message: inFewWords(message),
      file: place.file,
      ...(node === undefined ? {} : { line: node.line, column: node.column }),
      ...(place.ruleId === undefined ? {} : { rule_id: place.ruleId }),
      code,
      hint: hint ?? HINTS[code],
    });
  }

  /** Takes over what another reader found. */
  addAll(details: readonly ErrorDetail[]): void {
    this.#mistakes.addAll(details);
  }

  /** An unknown name, with the nearest known one as hint, or all of them when none is near and they are few. */
  unknown(place: SourcePlace, node: YamlNode, code: ProblemCode, what: string, name: string, known: readonly string[]): void {
    if (this.#mistakes.full) {
      this.#mistakes.count();
      return;
    }
    if (name === '<<') {
      this.add(
        place,
        node,
        code,
        `unknown ${what} "<<"`,
        'merge keys are not part of YAML 1.2: write the members out, or the whole value as an alias',
      );
      return;
    }
    // A name of two letters is near to too many others.
    const nearest = name.length > 2 ? nearestName(name, known) : undefined;
    const few = known.length <= 12 ? `one of ${known.join(', ')}` : undefined;
    this.add(place, node, code, `unknown ${what} "${name}"`, nearest === undefined ? few : `did you mean "${nearest}"?`);
  }

  /** The node as a map, or a problem. */
  map(node: YamlNode, place: SourcePlace, what: string): YamlMap | undefined {
    if (node.kind === 'map') return node;
    this.add(place, node, 'bad_type', `${what} must be a map`, 'write key: value, each on a line of its own and indented, or {key: value}');
    return undefined;
  }

  /** The items of a list, or a problem. */
  items(node: YamlNode, place: SourcePlace, what: string): readonly YamlNode[] | undefined {
    if (node.kind === 'seq') return node.items;
    const hint =
      node.kind === 'scalar' && node.value !== null ? `write [${node.source}]` : 'begin each item with "- ", or write [item, item]';
    this.add(place, node, 'bad_type', `${what} must be a list`, hint);
    return undefined;
  }

  /** A scalar that is not null, or a problem. */
  scalar(node: YamlNode, place: SourcePlace, what: string): YamlScalar | undefined {
    if (node.kind === 'scalar' && node.value !== null) return node;
    this.add(
      place,
      node,
      'bad_type',
      `${what} must be a single value`,
      'write one value behind the colon, not a list or a map, and not nothing',
    );
    return undefined;
  }

  /** The source text of a scalar (policy.md 17), not empty and at most `max` characters. */
  text(node: YamlNode, place: SourcePlace, what: string, max: number): string | undefined {
    const scalar = this.scalar(node, place, what);
    if (scalar === undefined) return undefined;
    if (scalar.source.length > 0 && scalar.source.length <= max) return scalar.source;
    this.add(place, node, 'bad_value', `${what} must have 1 to ${max} characters`);
    return undefined;
  }

  boolean(node: YamlNode, place: SourcePlace, what: string): boolean | undefined {
    if (node.kind === 'scalar' && typeof node.value === 'boolean') return node.value;
    const quoted = node.kind === 'scalar' && node.quoted;
    const hint = quoted ? 'write it without quotes' : 'write true or false (yes, no, on and off are texts in YAML 1.2)';
    this.add(place, node, 'bad_type', `${what} must be true or false`, hint);
    return undefined;
  }

  /** Each entry of a map is handed to the reader of its name; other names are problems. */
  members(
    map: YamlMap,
    place: SourcePlace,
    readers: Readonly<Record<string, (entry: YamlEntry, place: SourcePlace) => void>>,
    code: ProblemCode,
    what: string,
  ): void {
    for (const entry of map.entries) {
      const name = entry.key.source;
      if (Object.hasOwn(readers, name)) readers[name]?.(entry, place.at(name));
      else this.unknown(place.at(name), entry.key, code, what, name, Object.keys(readers));
    }
  }
}

/**
 * What the language has and nothing in this version enforces. A rule that uses one of these does not load
 * (`not_supported_yet`): nothing is silently accepted. Whoever builds the enforcement takes the line out of this list,
 * and nothing else needs to change here.
 */
export const NOT_SUPPORTED_YET: readonly UnsupportedEffect[] = [];

export type UnsupportedEffect = 'select_connector: custom';

const REFERENCE = 'docs/reference/policy-language.md lists what is known here';

/**
 * Every code that a mistake in a bundle can have, beside those of the YAML reader, with what to do when nothing more
 * exact can be said at its place: nobody is told that something is wrong without a way on.
 */
const HINTS = {
  bad_schema: 'the line schema: says what a file is: gw.policy_bundle.v1 a bundle, gw.rule_file.v1 a rule file, gw.policy_tests.v1 a suite',
  bad_type: REFERENCE,
  bad_value: REFERENCE,
  missing_key: REFERENCE,
  unknown_key: REFERENCE,
  unknown_layer: REFERENCE,
  unknown_field: REFERENCE,
  unknown_operator: REFERENCE,
  unknown_effect: REFERENCE,
  unknown_decision: REFERENCE,
  operator_not_for_field: REFERENCE,
  empty: 'leave it out, or put something into it',
  duplicate_rule: 'give one of them another id; only an overlay replaces a rule',
  not_mutable: REFERENCE,
  tier_not_allowed: 'GW_PLAN_TIER names the tier of the org; gw policy check takes it as --tier',
  patterns_too_large:
    'write shorter patterns and smaller counts, such as {0,20}; what is equal to one of some texts, or begins with one, needs no pattern (in, starts_with)',
  files_not_allowed: 'write the rules under inline_rules; files are read from the policies folder alone',
  missing_file: 'names count from the folder of the bundle',
  not_supported_yet: 'leave it out',
} as const satisfies Record<string, string>;

export type ProblemCode = keyof typeof HINTS;
