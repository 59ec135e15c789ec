import t from 'tap';
import { REMEDIES } from '../../src/base/model/remedies.ts';
import { operationCommands } from '../../src/cli/management/operation-commands.ts';
import { TOOLS } from '../../src/operations/tool-table.ts';

t.test('each tool and command that a remedy names is there', (t) => {
  const commands = new Set(operationCommands().map(({ name }) => name));
  const tools = new Set(TOOLS.tools.map(({ name }) => name));
  for (const [code, text] of Object.entries(REMEDIES)) {
    for (const [, command = ''] of text.matchAll(/`gw ([a-z -]+)`/g)) t.ok(commands.has(command), `${code}: gw ${command}`);
    for (const [, tool = ''] of text.matchAll(/\b([a-z]+(?:_[a-z]+)+) or `gw /g)) t.ok(tools.has(tool), `${code}: ${tool}`);
  }
  t.end();
});
