import type { ErrorDetail } from '../../base/lib/gateway-error.ts';
import { checkPolicy, textsOf } from '../../policy-tools/check.ts';
import { paintFor, renderProblem, type Severity } from '../../policy-tools/render-problem.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK } from '../command.ts';
import { printJsonDocument, terminalText } from '../terminal-text.ts';
import { openable, type PolicyTarget, policyOptions, policySettings, readOptions, readTarget } from './policy-target.ts';

/** Shows every mistake and every doubtful place of bundles, as the gateway would judge them. */
export const check: Command = {
  name: 'policy check',
  usage: '[PATH…] [--strict] [--deny-all] [--json] [--tier starter|pro|enterprise]',
  summary:
    'Shows every error and warning of policies (default GW_POLICIES_DIR) at once; exit code 1 for errors, for one by which nothing can be allowed (unless --deny-all says that it is meant), with --strict for warnings too.',
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
  readonly loads: boolean;
  /** Nothing can be allowed by it, and nobody has said that this is meant. */
  readonly deniesAll: boolean;
}

async function checkPaths(args: readonly string[], io: CliIo): Promise<number> {
  const { values, paths } = readOptions(args, { strict: 'boolean', 'deny-all': 'boolean', json: 'boolean', tier: 'string' });
  const { dir, tier, approvalEnabled: asksPeople } = policySettings(io, values.tier);
  const options = { ...policyOptions(), asksPeople };
  const judged: Judged[] = [];
  for (const path of paths.length === 0 ? [dir] : paths) {
    const target = await readTarget(path, tier);
    const texts = textsOf(target.input);
    const { policy, errors, warnings, deniesAll } = checkPolicy(target.input, options);
    // Of a part nobody can say it, and who means it has said so.
    const isAccepted = target.isPart || values['deny-all'] === true;
    const refused =
      deniesAll === undefined || isAccepted ? [] : [{ ...deniesAll, hint: `${deniesAll.hint ?? ''}; if it is meant, say --deny-all` }];
    const asFound = (severity: Severity) => (problem: ErrorDetail) => {
      const file = problem.file ?? target.path;
      return { severity, problem: { ...problem, file: openable(file, target) }, text: texts.get(file) };
    };
    const found = [...[...errors, ...refused].map(asFound('error')), ...warnings.map(asFound('warning'))];
    judged.push({ target, found, rules: policy?.ruleCount ?? 0, loads: policy !== undefined, deniesAll: refused.length > 0 });
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
  for (const { target, found, rules, loads, deniesAll } of judged) {
    for (const { severity, problem, text } of found) io.stdout(`${renderProblem(problem, severity, text, paint)}\n`);
    const errors = found.filter(({ severity }) => severity === 'error').length;
    const warnings = counted(found.length - errors, 'warning');
    const loaded = `${deniesAll ? paint.red('loads and denies everything') : paint.green('loads')}: ${counted(rules, 'rule')}`;
    const verdict = loads ? loaded : paint.red(`does not load: ${counted(errors, 'error')}`);
    io.stdout(`${paint.bold(terminalText(target.path))} ${verdict}${found.length > errors ? `, ${paint.yellow(warnings)}` : ''}\n`);
  }
}

/** `1 rule`, `2 rules`. */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
