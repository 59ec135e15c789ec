import { readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ErrorDetail } from '../../base/lib/gateway-error.ts';
import type { PolicyText } from '../../decide/policy/bundle.ts';
import type { CallMeaning } from '../../decide/policy/given-facts.ts';
import { readSuite, type Suite, type SuiteCase } from '../../decide/policy/suite.ts';
import type { NamedPolicy } from '../../decide/policy/suite-case.ts';
import { readTarget, readUtf8, UnreadablePath, unreadable } from './policy-target.ts';

export interface LoadedSuite {
  readonly file: PolicyText;
  /** Undefined when the suite has mistakes. */
  readonly suite: Suite | undefined;
  readonly named: NamedPolicy;
  readonly errors: readonly ErrorDetail[];
}

/**
 * Reads suites and the policies that they name.
 * @param paths suites, or folders of which every YAML file is one
 * @param policies decides in the place of what the suites name
 * @throws UnreadablePath
 */
export async function loadSuites(
  paths: readonly string[],
  policies: string | undefined,
  meaning: CallMeaning,
): Promise<readonly LoadedSuite[]> {
  const loaded: LoadedSuite[] = [];
  for (const path of paths) {
    for (const file of await suiteFiles(path)) loaded.push(await loadSuite(file, policies, meaning));
  }
  return loaded;
}

async function suiteFiles(path: string): Promise<readonly string[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const names = (await readdir(path)).filter((name) => /^[^.].*\.ya?ml$/.test(name)).sort();
    if (names.length > 0) return names.map((name) => join(path, name));
  } catch (error) {
    throw unreadable(path, error);
  }
  throw unreadable(path, new Error('there is no .yaml file in this folder'));
}

async function loadSuite(path: string, policies: string | undefined, meaning: CallMeaning): Promise<LoadedSuite> {
  const file = { text: await text(path), file: path };
  const { suite, errors } = readSuite(file, { meaning });
  if (suite === undefined) return { file, suite: undefined, named: {}, errors };
  if (suite.policies === undefined && policies === undefined && suite.ruleFiles.length === 0 && suite.cases.some(namesNoPolicy)) {
    throw new UnreadablePath(`${path}: the suite does not say which policy decides its cases: add policies: or give --policies`);
  }
  const at = (relative: string) => join(dirname(path), relative);
  const own = suite.policies === undefined ? undefined : at(suite.policies);
  const target = policies ?? own;
  const named: NamedPolicy = target === undefined ? {} : { policies: (await readTarget(target, 'enterprise')).input };
  if (policies !== undefined || suite.ruleFiles.length === 0) return { file, suite, named, errors: [] };
  const addons: PolicyText[] = [];
  for (const name of suite.ruleFiles) addons.push({ text: await text(at(name)), file: at(name) });
  return { file, suite, named: { ...named, addons }, errors: [] };
}

function namesNoPolicy({ policy }: SuiteCase): boolean {
  return Object.keys(policy).length === 0;
}

async function text(path: string): Promise<string> {
  try {
    return await readUtf8(path);
  } catch (error) {
    throw unreadable(path, error);
  }
}
