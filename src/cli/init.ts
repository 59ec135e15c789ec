import { cp, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { makeFolder } from '../base/lib/file-system.ts';
import { codeOf, messageOf } from '../base/lib/gateway-error.ts';
import { nearestName } from '../base/lib/mistakes.ts';
import { packageRoot } from '../base/lib/package-root.ts';
import { parseWithWords } from './checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK, Unusable, UsageError } from './command.ts';
import { asTyped, programIn, shellWord } from './program-name.ts';
import { printJsonDocument, terminalText } from './terminal-text.ts';

const OPTIONS = { preset: { type: 'string', multiple: true }, json: { type: 'boolean' } } as const;

/** The line of the shipped bundle behind which presets are named. */
const RULES_LINE = '  - rules/registered-providers.yaml\n';

const ENVIRONMENT = `# Settings of the AI Request Gateway: copy it to gateway.env, take away the # there and load it, for example with
#   set -a; . ./gateway.env; set +a; gw start
# Each is explained in docs/reference/settings.md.

#GW_PORT=7080
#GW_AMBIENT_PORT=7081

# Where records, secrets and the root certificate are kept.
#GW_DATA_DIR=./data
#GW_CA_DIR=./ca

# Whose policy decides; with the second a change counts as soon as it is saved.
#GW_POLICIES_DIR=./policies
#GW_POLICIES_WATCH=true

# Other machines may use it: then callers have to say who they are.
#GW_HOST=0.0.0.0
#GW_PROXY_AUTH=required

# The only way to the internet is another proxy.
#GW_UPSTREAM_PROXY=http://proxy.example:3128
`;

/** Makes what a gateway of one's own begins with, and touches nothing that is there. */
export const init: Command = {
  name: 'init',
  usage: '[FOLDER] [--preset NAME]... [--json]',
  summary: 'Makes policies and an example of settings in a folder (default: this one); what is there already stays as it is.',
  help: `
  --preset   a preset that the new bundle uses, such as approved-models; policies/README.md says what each does
`,
  async run(args, io) {
    const { values, words } = parseWithWords(args, OPTIONS, 1);
    const folder = resolve(words[0] ?? '.');
    const presets = await checkedPresets(values.preset ?? []);
    let done: readonly Done[];
    try {
      done = [await policies(folder, presets), await environment(folder, asTyped(ENVIRONMENT, programIn(folder, io.program)))];
    } catch (error) {
      throw new Unusable(messageOf(error), { cause: error });
    }
    if (values.json === true) printJsonDocument(done, io);
    else tell(done, presets, folder, io);
    return EXIT_OK;
  },
};

interface Done {
  readonly path: string;
  /** False: it was there and was left alone. */
  readonly made: boolean;
}

/** @throws UsageError for one that does not exist */
async function checkedPresets(names: readonly string[]): Promise<readonly string[]> {
  const known = (await readdir(join(packageRoot(), 'policies', 'presets')))
    .filter((file) => file.endsWith('.yaml') && file !== 'catalogue.yaml')
    .map((file) => file.slice(0, -'.yaml'.length));
  for (const name of names) {
    if (known.includes(name)) continue;
    const near = nearestName(name, known);
    throw new UsageError(
      `there is no preset "${terminalText(name)}"${near === undefined ? '' : `; did you mean ${near}?`} There are ${known.join(', ')}`,
    );
  }
  return [...new Set(names)];
}

async function policies(folder: string, presets: readonly string[]): Promise<Done> {
  const path = join(folder, 'policies');
  if (await isThere(path)) return { path, made: false };
  await makeFolder(folder, 0o755);
  await cp(join(packageRoot(), 'policies'), path, { recursive: true, force: false, errorOnExist: true });
  const bundle = join(path, 'bundle.yaml');
  const text = await readFile(bundle, 'utf8');
  const named = presets.map((name) => `  - presets/${name}.yaml\n`).join('');
  const active = presets.reduce((rest, name) => rest.replace(`  # - presets/${name}.yaml\n`, ''), text);
  await writeFile(bundle, active.replace(RULES_LINE, `${RULES_LINE}${named}`));
  return { path, made: true };
}

async function environment(folder: string, text: string): Promise<Done> {
  const path = join(folder, 'gateway.env.example');
  try {
    await writeFile(path, text, { flag: 'wx' });
    return { path, made: true };
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    return { path, made: false };
  }
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
    return false;
  }
}

function tell(done: readonly Done[], presets: readonly string[], folder: string, io: CliIo): void {
  for (const { path, made } of done) io.stdout(`${made ? 'made  ' : 'there '} ${terminalText(path)}\n`);
  const [policy] = done;
  if (policy?.made === false && presets.length > 0)
    io.stdout(
      `To use a preset, name it under files of ${join(policy.path, 'bundle.yaml')}:\n${presets.map((name) => `  - presets/${name}.yaml\n`).join('')}`,
    );
  const gw = programIn(folder, io.program);
  const there = folder === process.cwd() ? '' : `cd ${shellWord(folder)} && `;
  io.stdout(`Next: ${there}${gw} policy check && ${gw} start\n`);
}
