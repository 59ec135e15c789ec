import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { CLIENT_VARIABLES } from '../../src/cli/clients/client-variables.ts';
import { VARIABLE_FORMATS } from '../../src/cli/clients/variable-formats.ts';
import { allCommands } from '../../src/cli/run.ts';
import { CODING_AGENTS } from '../support/coding-agents.ts';
import { TOOL_PROGRAMS } from '../support/tool-programs.ts';

const FOLDER = join(packageRoot(), 'docs', 'guides', 'clients');
const pages = new Map(readdirSync(FOLDER).map((name) => [name, readFileSync(join(FOLDER, name), 'utf8')]));

/** Of provider SDKs and of the clients themselves: they are set beside those of `gw env`. */
const OTHERS = /^(?:ANTHROPIC|OPENAI|COPILOT|GOOGLE|GEMINI)_/;

t.test('what pages tell people to set is what gw env sets, or a base URL', async (t) => {
  const ours = new Set(CLIENT_VARIABLES.map(([name]) => name));
  for (const [page, text] of pages)
    for (const [line] of text.matchAll(/^export .*$/gm))
      for (const [, name = ''] of line.matchAll(/(?:^export|\s)\s*([A-Z_]+)=/g))
        t.ok(ours.has(name) || OTHERS.test(name), `${page}: ${name}`);
});

t.test('the commands of pages exist, with their options', async (t) => {
  const commands = await allCommands();
  for (const [page, text] of pages) {
    for (const [, call = ''] of text.matchAll(/\bgw ((?:run|env|logs|start|workloads)\b[^`|>\n]*)/g)) {
      const [name = '', ...rest] = (call.split(' -- ')[0] ?? '').replace(/[")]/g, '').split(' ');
      const options = rest.filter((word) => word.startsWith('--') && word !== '--').map((word) => word.replace(/[")].*/, ''));
      const usages = commands.filter((command) => command.name === name || command.name.startsWith(`${name} `)).map(({ usage }) => usage);
      t.ok(usages.length > 0, `${page}: gw ${name}`);
      for (const option of options)
        t.ok(
          usages.some((usage) => usage.includes(option)),
          `${page}: gw ${name} ${option}`,
        );
      const shell = /--shell (\S+)/.exec(call)?.[1];
      if (shell !== undefined) t.ok(Object.hasOwn(VARIABLE_FORMATS, shell), `${page}: --shell ${shell}`);
    }
  }
});

t.test('each agent is run in its test as its page says, and each program is the one that its page shows', async (t) => {
  const gateway = 'http://127.0.0.1:7080';
  for (const { page, peer, baseUrl } of CODING_AGENTS) {
    const text = pages.get(page) ?? '';
    t.ok(text.includes(`gw run -- ${peer}`), page);
    for (const [name, value] of Object.entries(baseUrl?.env ?? {}))
      t.ok(text.includes(`export ${name}=${value.replace('GATEWAY', gateway)}`), `${page}: ${name}`);
    for (const file of Object.values(baseUrl?.files ?? {}))
      t.ok(text.includes(file.trim().replace('GATEWAY', gateway)), `${page}: ${file}`);
  }
  for (const name of ['go', 'java'] as const) t.ok(pages.get(`${name}.md`)?.includes(TOOL_PROGRAMS[name]), name);
});

t.test('every page says how it is seen to work, and how it is undone', async (t) => {
  for (const [page, text] of pages) {
    if (page === 'README.md') continue;
    for (const heading of ['## See that it works', '## Traps', '## Undo']) t.ok(text.includes(heading), `${page}: ${heading}`);
    t.ok(pages.get('README.md')?.includes(`(${page})`), page);
  }
});
