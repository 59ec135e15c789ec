import { type ParsedYaml, parseYaml, type YamlEntry, type YamlMap, type YamlNode } from '../../base/lib/yaml.ts';
import { DECISIONS, type Decision } from '../../base/model/reason-codes.ts';
import { isLayer, STANDARD_LAYERS } from './layers.ts';
import { type Problems, SourcePlace } from './problems.ts';

/*
 * From text to a bundle's shape: header, layers and their rules as positioned nodes. What a rule means is read
 * elsewhere.
 */

export const BUNDLE_SCHEMA = 'gw.policy_bundle.v1';
export const RULE_FILE_SCHEMA = 'gw.rule_file.v1';

/** A text of a bundle, and the name by which its mistakes are reported. */
export interface PolicyText {
  readonly text: string;
  readonly file: string;
  /** The gateway itself has written it: its rules allow, and make no layer an allow-list (policy.md 3). */
  readonly ownRules?: true;
}

/** Makes a tree of a text, as `parseYaml` does. */
export type ParseText = (text: string, file: string) => ParsedYaml;

export const MERGE_STRATEGIES = ['first_match', 'strict'] as const;
export type MergeStrategy = (typeof MERGE_STRATEGIES)[number];

/** Members of the header that were stated. A later level replaces them one by one (policy.md 9). */
export interface BundleHeader {
  bundle_id?: string;
  version?: string;
  stop_on?: readonly Decision[];
  merge_strategy?: MergeStrategy;
}

/** One rule as it stands in a file. */
export interface RuleNode {
  readonly layer: string;
  readonly node: YamlNode;
  readonly place: SourcePlace;
}

/** A layer that is present, if only by an empty list. */
export interface LayerNode {
  readonly layer: string;
  readonly node: YamlNode;
  readonly place: SourcePlace;
  readonly rules: readonly RuleNode[];
}

export interface BundleShape {
  readonly header: BundleHeader;
  /** Undefined when the bundle has no `inline_rules`. */
  readonly inline: readonly LayerNode[] | undefined;
  /** Undefined when the bundle has no `files`. */
  readonly files: FileList | undefined;
}

export interface FileList {
  readonly node: YamlNode;
  readonly place: SourcePlace;
  readonly names: readonly { readonly name: string; readonly node: YamlNode; readonly place: SourcePlace }[];
}

const MAX_FILE_NAME = 256;

/** Reads a bundle or an overlay; undefined when it cannot be read at all. */
export function readBundle({ text, file }: PolicyText, problems: Problems, parse: ParseText): BundleShape | undefined {
  const place = new SourcePlace(file, '');
  const map = readDocument(parse(text, file), place, BUNDLE_SCHEMA, problems);
  if (map === undefined) return undefined;
  const header: BundleHeader = {};
  let inline: readonly LayerNode[] | undefined;
  let files: FileList | undefined;
  problems.members(
    map,
    place,
    {
      schema: () => undefined,
      description: ({ value }, at) => void problems.scalar(value, at, 'description'),
      bundle_id: ({ value }, at) => setText(header, 'bundle_id', value, at, problems),
      version: ({ value }, at) => setText(header, 'version', value, at, problems),
      evaluation: ({ value }, at) => readEvaluation(value, at, header, problems),
      inline_rules: ({ value }, at) => {
        inline = readInlineRules(value, at, problems);
      },
      files: ({ value }, at) => {
        files = { node: value, place: at, names: readFileNames(value, at, problems) };
      },
    },
    'unknown_key',
    'key of a bundle',
  );
  return { header, inline, files };
}

/** Reads a rule file (an add-on, or one that a bundle names under `files`); undefined when it cannot be read. */
export function readRuleFile({ text, file }: PolicyText, problems: Problems, parse: ParseText): LayerNode | undefined {
  const place = new SourcePlace(file, '');
  const map = readDocument(parse(text, file), place, RULE_FILE_SCHEMA, problems);
  if (map === undefined) return undefined;
  let layer: string | undefined;
  let rules: YamlEntry | undefined;
  problems.members(
    map,
    place,
    {
      schema: () => undefined,
      description: ({ value }, at) => void problems.scalar(value, at, 'description'),
      layer: ({ value }, at) => {
        layer = readLayerName(value, at, problems);
      },
      rules: (entry) => {
        rules = entry;
      },
    },
    'unknown_key',
    'key of a rule file',
  );
  for (const key of ['layer', 'rules']) {
    if (!map.entries.some((entry) => entry.key.source === key)) problems.add(place, map, 'missing_key', `a rule file needs ${key}`);
  }
  if (layer === undefined || rules === undefined) return undefined;
  return readLayer(layer, rules.value, place.at('rules'), problems);
}

/** The names under `files` of a bundle that parses, so that whoever holds the folder knows what to read; else none. */
export function ruleFileNames({ text, file }: PolicyText): readonly string[] {
  return mayNameFiles(text) ? ruleFileNamesIn(parseYaml(text, file)) : [];
}

/** Most large bundles name no files, and are read once more where they are compiled. */
export function mayNameFiles(bundle: string): boolean {
  return bundle.includes('files');
}

/** As {@link ruleFileNames}, of a bundle that has been parsed. */
export function ruleFileNamesIn({ root }: ParsedYaml): readonly string[] {
  const files = root.kind === 'map' ? root.entries.find((entry) => entry.key.source === 'files')?.value : undefined;
  if (files?.kind !== 'seq') return [];
  return files.items.flatMap((item) => (item.kind === 'scalar' && isFileName(item.source) ? [item.source] : []));
}

/** Relative, inside the folder, and a YAML file. */
function isFileName(name: string): boolean {
  if (name.length > MAX_FILE_NAME || !/\.ya?ml$/.test(name) || /[\\\0:]/.test(name)) return false;
  return name.split('/').every((part) => part !== '' && part !== '.' && part !== '..');
}

function readDocument({ root, errors }: ParsedYaml, place: SourcePlace, schema: string, problems: Problems): YamlMap | undefined {
  problems.addAll(errors);
  if (errors.length > 0) return undefined;
  if (root.kind !== 'map') {
    problems.add(place, root, 'bad_schema', `the file must begin with schema: ${schema}`);
    return undefined;
  }
  const entry = root.entries.find(({ key }) => key.source === 'schema');
  const found = entry?.value;
  if (found?.kind === 'scalar' && found.source === schema) return root;
  if (found === undefined) problems.add(place, root, 'bad_schema', `schema is missing; it must be ${schema}`);
  else problems.add(place.at('schema'), found, 'bad_schema', `schema must be ${schema}`, schemaHint(found));
  return undefined;
}

/** A sound file that stands in the wrong place. */
function schemaHint(found: YamlNode): string | undefined {
  const name = found.kind === 'scalar' ? found.source : '';
  if (name === BUNDLE_SCHEMA) return 'this file is a bundle; files: and addons/ hold rule files, which have schema, layer and rules';
  return name === RULE_FILE_SCHEMA ? 'this file is a rule file; a bundle takes it by a line under files:' : undefined;
}

function setText(header: BundleHeader, name: 'bundle_id' | 'version', node: YamlNode, place: SourcePlace, problems: Problems): void {
  const text = problems.text(node, place, name, 128);
  if (text === undefined) return;
  if (/^[\x21-\x7e]+$/.test(text)) header[name] = text;
  else problems.add(place, node, 'bad_value', `${name} must be visible ASCII characters without spaces`);
}

function readEvaluation(node: YamlNode, place: SourcePlace, header: BundleHeader, problems: Problems): void {
  const map = problems.map(node, place, 'evaluation');
  if (map === undefined) return;
  problems.members(
    map,
    place,
    {
      stop_on: ({ value }, at) => {
        const decisions = readStopOn(value, at, problems);
        if (decisions !== undefined) header.stop_on = decisions;
      },
      merge_strategy: ({ value }, at) => {
        const name = value.kind === 'scalar' ? value.source : '';
        const strategy = MERGE_STRATEGIES.find((known) => known === name);
        if (strategy === undefined) problems.unknown(at, value, 'bad_value', 'merge_strategy', name, MERGE_STRATEGIES);
        else header.merge_strategy = strategy;
      },
    },
    'unknown_key',
    'key of evaluation',
  );
}

function readStopOn(node: YamlNode, place: SourcePlace, problems: Problems): readonly Decision[] | undefined {
  const decisions: Decision[] = [];
  const items = problems.items(node, place, 'stop_on');
  items?.forEach((item, i) => {
    const name = problems.scalar(item, place.at(i), 'a decision')?.source;
    if (name === undefined) return;
    const decision = DECISIONS.find((known) => known === name);
    if (decision === undefined) problems.unknown(place.at(i), item, 'unknown_decision', 'decision', name, DECISIONS);
    else decisions.push(decision);
  });
  return items && decisions;
}

function readInlineRules(node: YamlNode, place: SourcePlace, problems: Problems): readonly LayerNode[] {
  const map = problems.map(node, place, 'inline_rules');
  const layers: LayerNode[] = [];
  for (const { key, value } of map?.entries ?? []) {
    const at = place.at(key.source);
    const layer = readLayerName(key, at, problems);
    const read = layer && readLayer(layer, value, at, problems);
    if (read) layers.push(read);
  }
  return layers;
}

/** An unknown name is a problem and is returned all the same, so that the mistakes in its rules are told too. */
function readLayerName(node: YamlNode, place: SourcePlace, problems: Problems): string | undefined {
  const name = problems.scalar(node, place, 'a layer')?.source;
  if (name !== undefined && !isLayer(name)) {
    problems.unknown(place, node, 'unknown_layer', 'layer', name, [...STANDARD_LAYERS, 'custom.<name>']);
  }
  return name;
}

/** A layer without a value is present and empty, as one with an empty list. */
function readLayer(layer: string, node: YamlNode, place: SourcePlace, problems: Problems): LayerNode | undefined {
  const empty = node.kind === 'scalar' && node.value === null && !node.quoted;
  const items = empty ? [] : problems.items(node, place, 'the rules of a layer');
  return items && { layer, node, place, rules: items.map((item, i) => ({ layer, node: item, place: place.at(i) })) };
}

function readFileNames(node: YamlNode, place: SourcePlace, problems: Problems): FileList['names'] {
  const names: { name: string; node: YamlNode; place: SourcePlace }[] = [];
  (problems.items(node, place, 'files') ?? []).forEach((item, i) => {
    const name = problems.scalar(item, place.at(i), 'a file name')?.source;
    if (name === undefined) return;
    if (!isFileName(name))
      problems.add(
        place.at(i),
        item,
        'bad_value',
        `"${name}" is not the relative name of a .yaml file inside the policies folder`,
        'write it as rules/name.yaml, without a leading / or ..',
      );
    else if (names.some((known) => known.name === name))
      problems.add(place.at(i), item, 'bad_value', `"${name}" stands twice`, 'remove one of the two');
    else names.push({ name, node: item, place: place.at(i) });
  });
  return names;
}
