import { sha256Hex } from '../../base/lib/sha256.ts';
import type { YamlMap, YamlNode } from '../../base/lib/yaml.ts';

/** Says nothing of what a rule does. */
const DESCRIPTION = 'description';

/** SHA-256 of what a rule says: neither the order of its members nor how they are written changes it, and its description is left out (decision 9.1). */
export function contentHashOf({ entries, ...map }: YamlMap): string {
  return sha256Hex(JSON.stringify(plain({ ...map, entries: entries.filter(({ key }) => key.source !== DESCRIPTION) })));
}

/** Maps as sorted pairs, so that they are no lists of the same texts. */
function plain(node: YamlNode): unknown {
  switch (node.kind) {
    case 'scalar':
      return node.source;
    case 'seq':
      return node.items.map(plain);
    case 'map':
      return { of: node.entries.map(({ key, value }) => [key.source, plain(value)] as const).sort(([a], [b]) => (a < b ? -1 : 1)) };
  }
}
