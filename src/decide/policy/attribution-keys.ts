import type { YamlNode } from '../../base/lib/yaml.ts';
import type { Attribution } from '../../base/model/action-request.ts';
import type { Problems, SourcePlace } from './problems.ts';

/**
 * One attribution value by its flat name: `customer_id`, `account_id`, `project_id` or `labels.<key>` (specification,
 * "Policy bundle").
 */
export interface AttributionKey {
  readonly name: string;
  /** An empty text is no value. */
  readonly get: (attribution: Attribution | undefined) => string | undefined;
}

const IDS = ['customer_id', 'account_id', 'project_id'] as const;
const LABELS = 'labels.';
const MAX_NAME = 256;

/** The key of a name, or undefined when there is none. */
export function attributionKey(name: string): AttributionKey | undefined {
  const id = IDS.find((known) => known === name);
  if (id !== undefined) return { name, get: (attribution) => attribution?.[id] || undefined };
  if (!name.startsWith(LABELS) || name.length === LABELS.length || name.length > MAX_NAME) return undefined;
  const label = name.slice(LABELS.length);
  return {
    name,
    get: (attribution) => {
      const labels = attribution?.labels;
      return (labels !== undefined && Object.hasOwn(labels, label) ? labels[label] : undefined) || undefined;
    },
  };
}

/** The key that a bundle names, or a problem. */
export function readAttributionKey(name: string, node: YamlNode, place: SourcePlace, problems: Problems): AttributionKey | undefined {
  const key = attributionKey(name);
  if (key !== undefined) return key;
  if (name === 'labels') problems.add(place, node, 'unknown_key', 'labels are named one by one', 'write labels.<key>');
  else
    problems.unknown(place, node, 'unknown_key', 'attribution key', name, [
      ...IDS,
      ...IDS.map((id) => `attribution.${id}`),
      'labels.<key>',
    ]);
  return undefined;
}

/** The values of an attribution by their keys. */
export function attributionEntries(attribution: Attribution): readonly (readonly [AttributionKey, string])[] {
  const names = [...IDS, ...Object.keys(attribution.labels ?? {}).map((label) => `${LABELS}${label}`)];
  return names.flatMap((name) => {
    const key = attributionKey(name);
    const value = key?.get(attribution);
    return key === undefined || value === undefined ? [] : [[key, value] as const];
  });
}

/** Builds an attribution from flat names and values; the first value of a name counts. */
export function attributionFrom(values: Iterable<readonly [AttributionKey, string]>): Attribution {
  const flat: Record<string, string> = {};
  const labels = new Map<string, string>();
  for (const [{ name }, value] of values) {
    if (name.startsWith(LABELS)) {
      const label = name.slice(LABELS.length);
      if (!labels.has(label)) labels.set(label, value);
    } else if (!Object.hasOwn(flat, name)) flat[name] = value;
  }
  return labels.size === 0 ? flat : { ...flat, labels: Object.fromEntries(labels) };
}
