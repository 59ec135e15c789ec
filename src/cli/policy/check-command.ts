import type { ErrorDetail } from '../../base/lib/gateway-error.ts';
import { checkPolicy, textsOf } from '../../policy-tools/check.ts';
import { paintFor } from '../../policy-tools/paint.ts';
import { renderProblem, type Severity } from '../../policy-tools/render-problem.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK } from '../command.ts';
import { printJsonDocument } from '../print-json.ts';
import { terminalText } from '../terminal-text.ts';
import { policySettings, readOptions } from './options.ts';
import { openable, type PolicyTarget, policyOptions, readTarget } from './policy-target.ts';

/** Shows every mistake and every doubtful place of bundles, as the gateway would judge them. */
export const check: Command = {
  name: 'policy check',
  usage: '[PATH…] [--strict] [--json] [--tier starter|pro|enterprise]',
  summary:
    'Shows every error and warning of policies (default GW_POLICIES_DIR) at once; exit code 1 for errors, with --strict for warnings too.',
  run: checkPaths,
};

interface Found {
  readonly severity: Severity;
  readonly problem: ErrorDetail;
  readonly text: string | undefined;
}

interface Judged {
  readonly target: PolicyTarget;
  readonly found: readonly Found[];
  readonly rules: number;
}

async function checkPaths(args: readonly string[], io: CliIo): Promise<number> {
  const { values, paths } = readOptions(args, { strict: 'boolean', json: 'boolean', tier: 'string' });
  const { dir, tier } = policySettings(io, values.tier);
  const options = policyOptions();
  const judged: Judged[] = [];
  for (const path of paths.length === 0 ? [dir] : paths) {
    const target = await readTarget(path, tier);
    const texts = textsOf(target.input);
    const { policy, errors, warnings } = checkPolicy(target.input, options);
    const asFound = (severity: Severity) => (problem: ErrorDetail) => {
      const file = problem.file ?? target.path;
      return { severity, problem: { ...problem, file: openable(file, target) }, text: texts.get(file) };
    };
    judged.push({ target, found: [...errors.map(asFound('error')), ...warnings.map(asFound('warning'))], rules: policy?.ruleCount ?? 0 });
  }
  const all = judged.flatMap(({ found }) => found);
  const errors = all.filter(({ severity }) => severity === 'error').length;
  const ok = errors === 0 && (values.strict !== true || all.length === 0);
  if (values.json === true) {
    const problems = all.map(({ severity, problem }) => ({ severity, ...problem }));
    printJsonDocument({ ok, errors, warnings: all.length - errors, problems }, io);
  } else show(judged, io);
  return ok ? EXIT_OK : EXIT_NO;
}

function show(judged: readonly Judged[], io: CliIo): void {
  const paint = paintFor(io.colours);
  for (const { target, found, rules } of judged) {
    for (const { severity, problem, text } of found) io.stdout(`${renderProblem(problem, severity, text, paint)}\n`);
    const errors = found.filter(({ severity }) => severity === 'error').length;
    const warnings = counted(found.length - errors, 'warning');
    const verdict =
      errors > 0 ? paint.red(`does not load: ${counted(errors, 'error')}`) : `${paint.green('loads')}: ${counted(rules, 'rule')}`;
    io.stdout(`${paint.bold(terminalText(target.path))} ${verdict}${found.length > errors ? `, ${paint.yellow(warnings)}` : ''}\n`);
  }
}

/** `1 rule`, `2 rules`. */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
