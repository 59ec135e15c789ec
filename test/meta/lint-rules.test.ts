import { ESLint, Linter } from 'eslint';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';

/** The syntax that is forbidden in a file of the sources, run on a text. */
async function forbidden(code: string): Promise<boolean> {
  const { rules } = (await new ESLint({ cwd: packageRoot() }).calculateConfigForFile('src/services/budgets.ts')) as Linter.Config;
  const syntax = rules?.['no-restricted-syntax'];
  return new Linter().verify(code, [{ rules: { 'no-restricted-syntax': syntax ?? 'off' } }]).length > 0;
}

t.test('money does not become a floating-point number', async (t) => {
  for (const code of [
    'Number(cost_usd)',
    'Number(record.metering.cost_usd)',
    "Number(row['limit_usd'])",
    'Number(totalPico)',
    'Number(price.in)',
    'parseFloat(text)',
    'Number.parseFloat(text)',
    'x = +costUsd',
    'spentUsd.toFixed(2)',
  ])
    t.ok(await forbidden(code), code);
  for (const code of ['Number(text)', 'Number(match[1])', 'BigInt(costPico)', 'x = -count']) t.notOk(await forbidden(code), code);
});
