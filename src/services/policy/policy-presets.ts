import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../base/lib/package-root.ts';
import { parseYaml, toPlain, yamlMember } from '../../base/lib/yaml.ts';

const FOLDER = 'policies/presets';
const CATALOGUE = 'catalogue.yaml';
const KIND = 'policy_preset';

/** Rules that are ready to be switched on, as the package brings them. */
export interface PolicyPreset {
  readonly id: string;
  readonly displayName: string;
  readonly description: string;
  readonly category: string;
  /** Where its rules count. */
  readonly layer: string;
  /** Name of its rule file, and what it holds. */
  readonly file: string;
  readonly text: string;
}

/**
 * The presets of the package (`policies/presets`), in the order of their catalogue; read when somebody first asks for
 * one.
 */
export class PolicyPresets {
  #all: ReadonlyMap<string, PolicyPreset> | undefined;

  list(): readonly PolicyPreset[] {
    return [...this.#loaded().values()];
  }

  get(id: string): PolicyPreset | undefined {
    return this.#loaded().get(id);
  }

  #loaded(): ReadonlyMap<string, PolicyPreset> {
    this.#all ??= new Map(readCatalogue().map((preset) => [preset.id, preset]));
    return this.#all;
  }
}

function readCatalogue(): readonly PolicyPreset[] {
  const { presets } = toPlain(parseYaml(read(CATALOGUE), CATALOGUE).root) as { readonly presets: readonly Record<string, string>[] };
  return presets.flatMap(({ id = '', kind, display_name: displayName = id, description = '', category = '', file = '' }) => {
    if (kind !== KIND) return [];
    const text = read(file);
    const layer = yamlMember(parseYaml(text, file).root, 'layer');
    return [{ id, displayName, description, category, layer: layer?.kind === 'scalar' ? layer.source : '', file, text }];
  });
}

function read(file: string): string {
  return readFileSync(join(packageRoot(), FOLDER, file), 'utf8');
}
