import type { ErrorDetail } from '../base/lib/gateway-error.ts';
import { shownText } from '../base/lib/shown-text.ts';
import type { Mismatch } from '../decide/policy/suite-case.ts';
import type { Paint } from './render-problem.ts';
import { type CaseResult, nameOf, type SuiteReport } from './run-suite.ts';

/** What failed in a suite and how, then one line of counts, then the rules that no case was decided by. */
export function renderSuite(report: SuiteReport, paint: Paint): string {
  const failed = report.results.filter(({ mismatches }) => mismatches.length > 0);
  const { rules, neverMatched } = report.coverage;
  const passed = report.results.length - failed.length;
  const verdict = failed.length === 0 ? paint.green(`${passed} passed`) : `${passed} passed, ${paint.red(`${failed.length} failed`)}`;
  const coverage = rules === 0 ? '' : `; ${rules - neverMatched.length} of ${rules} rules matched`;
  const unused = neverMatched.map(
    (rule) => `  ${paint.yellow('never matched')} ${seen(nameOf(rule))}  ${paint.dim(seen(`${rule.file}:${rule.line}`))}\n`,
  );
  return `${failed.map((result) => renderFailure(report.file, result, paint)).join('')}${paint.bold(seen(report.file))} ${verdict}${coverage}\n${unused.join('')}`;
}

function renderFailure(file: string, { name, line, mismatches, matched }: CaseResult, paint: Paint): string {
  const lines = [`${paint.red('FAIL')} ${paint.bold(seen(`${file}:${line}`))} ${seen(name)}`];
  for (const mismatch of mismatches) lines.push(...renderMismatch(mismatch, paint));
  if (matched.length > 0) {
    lines.push('  matched rules:');
    for (const rule of matched)
      lines.push(`    ${seen(nameOf(rule))} ${rule.decision ?? '(effects only)'}  ${paint.dim(seen(`${rule.file}:${rule.line}`))}`);
  } else if (!mismatches.some(({ member }) => member === 'errors')) lines.push('  no rule matched');
  return `${lines.join('\n')}\n\n`;
}

function renderMismatch({ member, expected, actual }: Mismatch, paint: Paint): readonly string[] {
  const mistakes = member === 'errors' && Array.isArray(expected) && expected.length === 0 && Array.isArray(actual);
  if (mistakes) return ['  the policy does not load:', ...actual.map((detail: ErrorDetail) => `    ${mistakeLine(detail)}`)];
  if (isListOfMaps(expected) || isListOfMaps(actual)) return [`  ${member}`, ...itemDiff(expected, actual, paint)];
  return [`  ${member}`, `    ${paint.green(`expected ${shown(expected)}`)}`, `    ${paint.red(`got      ${shown(actual)}`)}`];
}

function isListOfMaps(value: unknown): value is readonly unknown[] {
  return Array.isArray(value) && value.some((item) => typeof item === 'object');
}

/** Long lists: the items that only one side has. */
function itemDiff(expected: unknown, actual: unknown, paint: Paint): readonly string[] {
  const items = (value: unknown) => (Array.isArray(value) ? value.map(sortedMembers) : [shown(value)]);
  const [wanted, got] = [items(expected), items(actual)];
  const missing = wanted.filter((item) => !got.includes(item)).map((item) => paint.green(`    expected ${item}`));
  const extra = got.filter((item) => !wanted.includes(item)).map((item) => paint.red(`    got      ${item}`));
  const found = [...missing, ...extra];
  return found.length > 0 ? found : [`    the same items in another order: ${got.join(', ')}`];
}

function sortedMembers(value: unknown): string {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return shown(value);
  return shown(Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))));
}

function mistakeLine({ file, line, column, message, hint }: ErrorDetail): string {
  const where = [file, line, column].filter((part) => part !== undefined).join(':');
  return seen(`${where}: ${message}${hint === undefined ? '' : ` (${hint})`}`);
}

/** Names that others gave, on a terminal. */
export function seen(text: string): string {
  return shownText(text, 'terminal');
}

/** One line, as YAML accepts it; texts bare where that is plain. */
export function shown(value: unknown): string {
  if (value === undefined) return 'null';
  if (typeof value === 'string') return /^[A-Za-z_][\w./@:-]*$/.test(value) ? value : seen(JSON.stringify(value));
  if (Array.isArray(value)) return `[${value.map(shown).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return String(value);
  return `{${Object.entries(value)
    .map(([name, member]) => `${seen(name)}: ${shown(member)}`)
    .join(', ')}}`;
}

/** The results in the XML form that CI servers read (JUnit). */
export function junitXml(reports: readonly SuiteReport[]): string {
  const suites = reports.map(({ file, results }) => {
    const cases = results.map(({ name, line, mismatches }) => {
      const head = `    <testcase classname="${escaped(file)}" name="${escaped(name)}" file="${escaped(file)}" line="${line}"`;
      if (mismatches.length === 0) return `${head}/>\n`;
      const text = mismatches
        .map(({ member, expected, actual }) => `${member}: expected ${shown(expected)}, got ${shown(actual)}`)
        .join('\n');
      const [first = ''] = text.split('\n', 1);
      return `${head}>\n      <failure message="${escaped(first)}">${escaped(text)}</failure>\n    </testcase>\n`;
    });
    return `  <testsuite name="${escaped(file)}" ${counts(results)}>\n${cases.join('')}  </testsuite>\n`;
  });
  const all = reports.flatMap(({ results }) => results);
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="gw policy test" ${counts(all)}>\n${suites.join('')}</testsuites>\n`;
}

function counts(results: readonly CaseResult[]): string {
  return `tests="${results.length}" failures="${results.filter(({ mismatches }) => mismatches.length > 0).length}" errors="0"`;
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&apos;', '\n': '&#10;' };

/** Characters that XML 1.0 has no place for become U+FFFD. */
function escaped(text: string): string {
  return text
    .toWellFormed()
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd')
    .replace(/[&<>"'\n]/g, (character) => ENTITIES[character] ?? character);
}
