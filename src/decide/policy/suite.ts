import { readAmount } from '../../base/lib/amounts.ts';
import type { ErrorDetail } from '../../base/lib/gateway-error.ts';
import { parseYaml, toPlain, type YamlEntry, type YamlMap, type YamlNode, yamlMember } from '../../base/lib/yaml.ts';
import { PLAN_TIERS, type PlanTier } from '../../base/model/org.ts';
import type { PolicyText } from './bundle.ts';
import type { Facts } from './facts.ts';
import { type CallMeaning, costOfCall, describedCall, giveFacts, settleFacts } from './given-facts.ts';
import type { CallCost } from './judge-caps.ts';
import { Problems, SourcePlace } from './problems.ts';
import type { Mutation } from './verdict.ts';

/*
 * Suites of test cases as data: this policy, this request, that decision. Read here; a case is run in suite-case.ts.
 * Whoever has the files resolves the paths that a suite names.
 */

export const SUITE_SCHEMA = 'gw.policy_tests.v1';

/** Texts of a policy; what a case states replaces what its suite states. */
export interface GivenPolicy {
  readonly bundle?: string;
  /** By the names that the bundle's `files` uses. */
  readonly files?: Readonly<Record<string, string>>;
  readonly addons?: readonly string[];
  readonly org?: string;
  readonly node?: string;
  readonly tier?: PlanTier;
  /** As `PUT /v1/admin/policies` would load it: no files, no add-ons. */
  readonly put?: boolean;
}

export interface SuiteCase {
  readonly name: string;
  readonly line: number;
  readonly policy: GivenPolicy;
  readonly facts: Facts;
  /** What the call may cost once it is mutated so; what caps are held against. */
  readonly costAfter: (mutations: readonly Mutation[]) => CallCost;
  /** What its project has spent this month, pico-dollars. */
  readonly spentPico: bigint;
  /**
   * Rules that decide `rate_limit` and whose bucket is empty: `id` or `layer/id`. Undefined: all buckets have tokens.
   */
  readonly rateLimited: readonly string[] | undefined;
  /** Members of the verdict that must be so; `effects` member by member. Others are not looked at. */
  readonly expect: Readonly<Record<string, unknown>> | undefined;
  /** The bundle must not load, with exactly these mistakes; members that are not named are not looked at. */
  readonly errors: readonly Readonly<Record<string, unknown>>[] | undefined;
  /**
   * False: effects that nothing enforces yet are refused, as the gateway does. Undefined: whoever runs the suite says.
   */
  readonly unsupported: boolean | undefined;
}

export interface Suite {
  /**
   * Path of a policies folder or a bundle, relative to the suite: decides the cases that have no bundle of their own.
   */
  readonly policies: string | undefined;
  /** Paths of rule files, relative to the suite, that count as add-ons of an otherwise empty bundle. */
  readonly ruleFiles: readonly string[];
  readonly cases: readonly SuiteCase[];
}

export type SuiteResult =
  | { readonly suite: Suite; readonly errors?: undefined }
  | { readonly suite?: undefined; readonly errors: readonly ErrorDetail[] };

/** Members of the verdict that a case may expect. */
export const EXPECTABLE = ['decision', 'reason', 'reason_codes', 'matched', 'stopped_at', 'effects', 'overridden', 'model'] as const;

export interface SuiteOptions {
  /**
   * Gives connector and estimate to cases that do not state them. Default: those of the plain call, whatever the case
   * describes.
   */
  readonly meaning?: CallMeaning;
}

/** Reads a suite, or reports every mistake in it at once. Never throws on any text. */
export function readSuite({ text, file }: PolicyText, options: SuiteOptions = {}): SuiteResult {
  const { root, errors } = parseYaml(text, file);
  if (errors.length > 0) return { errors };
  const problems = new Problems();
  const suite = new SuiteReader(problems, file, options).read(root);
  return problems.found ? { errors: problems.sorted() } : { suite };
}

type Writable<T> = { -readonly [K in keyof T]: T[K] };
type Members = Readonly<Record<string, (entry: YamlEntry, place: SourcePlace) => void>>;

class SuiteReader {
  readonly #problems: Problems;
  readonly #top: SourcePlace;
  readonly #options: SuiteOptions;

  constructor(problems: Problems, file: string, options: SuiteOptions) {
    this.#options = options;
    this.#problems = problems;
    this.#top = new SourcePlace(file, '');
  }

  read(root: YamlNode): Suite {
    const policy: Writable<GivenPolicy> = {};
    const suite = { policies: undefined as string | undefined, ruleFiles: [] as readonly string[], cases: [] as SuiteCase[] };
    const schema = yamlMember(root, 'schema');
    if (root.kind !== 'map' || schema?.kind !== 'scalar' || schema.source !== SUITE_SCHEMA) {
      this.#problems.add(this.#top, schema ?? root, 'bad_schema', `the file must begin with schema: ${SUITE_SCHEMA}`);
      return suite;
    }
    let facts: YamlEntry | undefined;
    let cases: YamlEntry | undefined;
    this.#members(root, this.#top, 'key of a suite', {
      schema: () => undefined,
      description: () => undefined,
      policies: ({ value }, at) => {
        suite.policies = this.#problems.text(value, at, 'policies', 1024);
      },
      rule_files: ({ value }, at) => {
        suite.ruleFiles = this.#texts(value, at, 'rule_files') ?? [];
      },
      facts: (entry) => {
        facts = entry;
      },
      cases: (entry) => {
        cases = entry;
      },
      ...this.#policyMembers(policy),
    });
    if (cases === undefined) this.#problems.add(this.#top, root, 'missing_key', 'a suite needs cases');
    else suite.cases.push(...this.#cases(cases.value, policy, facts));
    return suite;
  }

  #cases(node: YamlNode, policy: GivenPolicy, facts: YamlEntry | undefined): readonly SuiteCase[] {
    const place = this.#top.at('cases');
    const items = this.#problems.items(node, place, 'cases') ?? [];
    if (node.kind === 'seq' && items.length === 0) this.#problems.add(place, node, 'empty', 'the suite has no cases');
    const names = new Set<string>();
    return items.flatMap((item, i) => {
      const read = this.#case(item, place.at(i), policy, facts);
      if (read === undefined) return [];
      if (names.has(read.name)) this.#problems.add(place.at(i), item, 'bad_value', `two cases have the name "${read.name}"`);
      names.add(read.name);
      return [read];
    });
  }

  #case(node: YamlNode, place: SourcePlace, suitePolicy: GivenPolicy, suiteFacts: YamlEntry | undefined): SuiteCase | undefined {
    const map = this.#problems.map(node, place, 'a case');
    if (map === undefined) return undefined;
    const policy: Writable<GivenPolicy> = { ...suitePolicy };
    const facts = describedCall();
    if (suiteFacts !== undefined) this.#facts(facts, suiteFacts.value, this.#top.at('facts'));
    const found: { name?: string; spentPico?: bigint; rateLimited?: readonly string[]; unsupported?: boolean } = {};
    let expect: SuiteCase['expect'];
    let errors: SuiteCase['errors'];
    this.#members(map, place, 'key of a case', {
      name: ({ value }, at) => {
        const name = this.#problems.text(value, at, 'name', 256);
        if (name !== undefined) found.name = name;
      },
      description: () => undefined,
      facts: ({ value }, at) => this.#facts(facts, value, at),
      rate_limited: ({ value }, at) => {
        found.rateLimited = this.#texts(value, at, 'rate_limited') ?? [];
      },
      spent_usd: ({ value }, at) => {
        const amount = readAmount(this.#problems.scalar(value, at, 'spent_usd')?.source ?? '');
        if (amount === undefined) this.#problems.add(at, value, 'bad_value', 'spent_usd must be an amount such as "0.25"');
        else found.spentPico = amount;
      },
      unsupported: ({ value }, at) => {
        found.unsupported = this.#problems.boolean(value, at, 'unsupported') === true;
      },
      expect: ({ value }, at) => {
        expect = this.#expectation(value, at);
      },
      errors: ({ value }, at) => {
        errors = (this.#problems.items(value, at, 'errors') ?? []).map((item) => toPlain(item) as Record<string, unknown>);
      },
      ...this.#policyMembers(policy),
    });
    if (found.name === undefined) this.#problems.add(place, node, 'missing_key', 'the case has no name');
    if ((expect === undefined) === (errors === undefined)) {
      this.#problems.add(place, node, 'missing_key', 'a case needs either expect or errors');
    }
    const { meaning } = this.#options;
    const stated = settleFacts(facts, meaning);
    const costAfter: SuiteCase['costAfter'] = (mutations) => costOfCall(facts, mutations, stated, meaning);
    const { name = '', spentPico = 0n, rateLimited, unsupported } = found;
    return { name, line: node.line, policy, facts, costAfter, spentPico, rateLimited, expect, errors, unsupported };
  }

  #policyMembers(policy: Writable<GivenPolicy>): Members {
    const text =
      (name: 'bundle' | 'org' | 'node') =>
      ({ value }: YamlEntry, at: SourcePlace) => {
        const source = this.#problems.scalar(value, at, name)?.source;
        if (source !== undefined) policy[name] = source;
      };
    return {
      bundle: text('bundle'),
      org: text('org'),
      node: text('node'),
      files: ({ value }, at) => {
        const files: Record<string, string> = {};
        for (const { key, value: file } of this.#problems.map(value, at, 'files')?.entries ?? []) {
          files[key.source] = this.#problems.scalar(file, at.at(key.source), 'a rule file')?.source ?? '';
        }
        policy.files = files;
      },
      addons: ({ value }, at) => {
        policy.addons = this.#texts(value, at, 'addons') ?? [];
      },
      tier: ({ value }, at) => {
        const name = value.kind === 'scalar' ? value.source : '';
        const tier = PLAN_TIERS.find((known) => known === name);
        if (tier === undefined) this.#problems.unknown(at, value, 'bad_value', 'tier', name, PLAN_TIERS);
        else policy.tier = tier;
      },
      put: ({ value }, at) => {
        policy.put = this.#problems.boolean(value, at, 'put') === true;
      },
    };
  }

  #facts(facts: Facts, node: YamlNode, place: SourcePlace): void {
    for (const { key, value } of this.#problems.map(node, place, 'facts')?.entries ?? []) {
      const mistakes = giveFacts(facts, { [key.source]: toPlain(value) });
      for (const { message, hint } of mistakes) this.#problems.add(place.at(key.source), key, 'unknown_field', message, hint);
    }
  }

  #expectation(node: YamlNode, place: SourcePlace): SuiteCase['expect'] {
    const map = this.#problems.map(node, place, 'expect');
    if (map === undefined) return undefined;
    if (map.entries.length === 0) this.#problems.add(place, node, 'empty', 'the case expects nothing');
    const members: Members = Object.fromEntries(EXPECTABLE.map((name) => [name, () => undefined]));
    this.#members(map, place, 'member of a decision', members);
    return toPlain(map) as Record<string, unknown>;
  }

  #texts(node: YamlNode, place: SourcePlace, what: string): readonly string[] | undefined {
    return this.#problems.items(node, place, what)?.map((item, i) => this.#problems.scalar(item, place.at(i), 'a text')?.source ?? '');
  }

  #members(map: YamlMap, place: SourcePlace, what: string, readers: Members): void {
    this.#problems.members(map, place, readers, 'unknown_key', what);
  }
}
