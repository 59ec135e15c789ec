import type { PolicyChange, PolicyDiff, Side } from './diff.ts';
import type { Paint } from './paint.ts';
import { seen, shown } from './render-suite.ts';

/** Counts, each kind of change with a few records that show it, and what could not be said. */
export function renderDiff(diff: PolicyDiff, paint: Paint): string {
  const lines: string[] = [];
  for (const { change, records, examples } of diff.groups) {
    lines.push(`${paint.bold(`${records} x ${seen(change)}`)}`);
    for (const example of examples) lines.push(...exampleLines(example, paint));
    if (records > examples.length) lines.push(paint.dim(`    and ${records - examples.length} more`));
    lines.push('');
  }
  const { records, changed, unchanged, cannot_say: open, not_decided: notDecided, not_reproduced: notReproduced } = diff;
  const total = `${records} ${records === 1 ? 'record' : 'records'}: ${changed} would change, ${unchanged} would not`;
  lines.push(changed === 0 ? paint.green(total) : paint.yellow(total));
  if (open.records > 0) {
    const fields = Object.entries(open.fields).map(([field, count]) => `${seen(field)} (${count})`);
    lines.push(`${open.records} cannot be judged: rules read what these records do not hold: ${fields.join(', ')}`);
  }
  if (notDecided > 0) lines.push(`${notDecided} were answered before policy was asked`);
  if (notReproduced > 0)
    lines.push(`${notReproduced} were decided otherwise than the old policy decides now: budgets and rate limits are not replayed`);
  return `${lines.join('\n')}\n`;
}

function exampleLines({ record_id: id, old: before, new: after }: PolicyChange, paint: Paint): readonly string[] {
  return [`    ${seen(id)}`, `      ${paint.red(`- ${sideText(before)}`)}`, `      ${paint.green(`+ ${sideText(after)}`)}`];
}

function sideText({ decision, reason_codes: codes, matched, effects }: Side): string {
  const stated = Object.entries(effects).filter(
    ([, value]: [string, unknown]) => JSON.stringify(value) !== '[]' && JSON.stringify(value) !== '{}',
  );
  const parts = [
    seen(decision),
    codes.length === 0 ? '' : shown(codes),
    matched.length === 0 ? 'by no rule' : `by ${matched.map(seen).join(', ')}`,
  ];
  return [...parts, ...stated.map(([name, value]) => `${name}: ${shown(value)}`)].filter((part) => part !== '').join('  ');
}
