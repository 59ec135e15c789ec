import { ESLint, Linter } from 'eslint';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';

/** The syntax that is forbidden in a file of the sources, or in another one, run on a text. */
async function forbidden(code: string, file = 'src/services/money/budgets.ts'): Promise<boolean> {
  const { rules } = (await new ESLint({ cwd: packageRoot() }).calculateConfigForFile(file)) as Linter.Config;
  const syntax = rules?.['no-restricted-syntax'];
  return new Linter().verify(code, [{ rules: { 'no-restricted-syntax': syntax ?? 'off' } }]).length > 0;
}

// Holds: no-floating-point-money
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

t.test('amounts in tests are compared whole', async (t) => {
  const file = 'test/services/money/budgets.test.ts';
  for (const code of [
    "t.match(record, { metering: { cost_usd: '0' } })",
    "t.match(await limits(), [{ spent_usd: '1' }], 'all')",
    't.match(summary, { total_cost_usd: usd })',
    't.match(record, { metering: { cost_usd: record.metering.cost_usd } })',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is code to be looked at
    't.match(record, { limit_usd: `${cap}` })',
    "t.match(metering, { ...counts, rate_in: '5', rate_audio_out: exactly('80') })",
  ])
    t.ok(await forbidden(code, file), code);
  for (const code of [
    "t.match(record, { metering: { cost_usd: exactly('0') } })",
    't.match(await limits(), [{ reserved_usd: /^0\\.03/ }])',
    "t.match(await gw.admin('POST', path, { limit_usd: '5' }), { status: 201 })",
    "t.same(body, { total_cost_usd: '0' })",
    "t.match(body, { status: '200' })",
  ])
    t.notOk(await forbidden(code, file), code);
});

t.test('a command prints JSON, and what others chose, by what shows it', async (t) => {
  const file = 'src/cli/audit.ts';
  const printed = (expression: string) => `io.stdout(\`\${${expression}}\\n\`)`;
  for (const expression of ['JSON.stringify(entry)', 'error.message', 'approval.reason'])
    t.ok(await forbidden(printed(expression), file), expression);
  for (const code of ['printJson(entry, io)', printed('terminalText(error.message)'), printed('count')])
    t.notOk(await forbidden(code, file), code);
  t.ok(await forbidden('Number(cost_usd)', file));
});

t.test('what is made for each call has no accessors of its own', async (t) => {
  const file = 'src/pipeline/answer/delivery.ts';
  t.ok(await forbidden('x = { get a() { return 1; } }', file));
  t.ok(await forbidden('x = { set a(b) {} }', file));
  t.notOk(await forbidden('class A { get a() { return 1; } }', file));
  t.notOk(await forbidden('x = { get: 1, a() { return 1; } }', file));
  t.ok(await forbidden('Number(cost_usd)', file));
});
