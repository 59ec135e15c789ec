/*
 * Only what needs types, and the names that are forbidden with a reason; everything else is Biome's (biome.json), rooms and cycles are
 * dependency-cruiser's.
 */
import tseslint from 'typescript-eslint';

const TIME = 'Time comes from the injected Clock (base/lib/clock.ts), so that tests own it.';
const CHANCE = 'Chance comes from base/lib, where it can be replaced; secrets need node:crypto anyway.';

const clockAndChance = {
  properties: [
    { object: 'Date', property: 'now', message: TIME },
    { object: 'performance', property: 'now', message: TIME },
    { object: 'Math', property: 'random', message: CHANCE },
  ],
  syntax: [
    { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: TIME },
    { selector: "CallExpression[callee.name='Date']", message: TIME },
  ],
};

const MONEY = 'Money is exact: bigint pico-dollars or decimal text (base/lib/money.ts), never a floating-point number.';
const AMOUNT = '/usd|pico|cost|price|spend|spent|rate_?(in|out)/i';

const money = [
  { selector: "CallExpression[callee.name='parseFloat']", message: MONEY },
  { selector: 'CallExpression[callee.property.name=/^(parseFloat|toFixed|toPrecision)$/]', message: MONEY },
  { selector: `CallExpression[callee.name='Number']:has(.arguments Identifier[name=${AMOUNT}])`, message: MONEY },
  { selector: `CallExpression[callee.name='Number']:has(.arguments Literal[value=${AMOUNT}])`, message: MONEY },
  { selector: `CallExpression[callee.name='Number'] > Identifier.arguments[name=${AMOUNT}]`, message: MONEY },
  { selector: `UnaryExpression[operator='+']:has(Identifier[name=${AMOUNT}])`, message: MONEY },
];

/** For what is made for each call. */
const accessors = [
  {
    selector: 'ObjectExpression > Property[kind=/^[gs]et$/]',
    message: 'V8 makes a hidden class for each such object, which holds what the accessor sees until a full collection: write a class.',
  },
];

const EXACT =
  "t.match takes a text for found wherever it stands in the other ('0' is in '0.015'): write exactly('…') for an amount or a rate.";
/** What is expected in a match, the second argument: an amount as a bare text, or one that a variable holds. */
const looseAmounts = ['Literal', 'TemplateLiteral', 'Identifier', 'MemberExpression'].map((type) => ({
  selector: `CallExpression[callee.property.name='match'] > :nth-child(2) Property[key.name=/_usd$|^rate_(in|out|cache|audio)/][value.type='${type}']:not([value.regex])`,
  message: EXACT,
}));

/** What `gw` prints goes through what shows a stranger's text (decision 12.14). */
const printing = [
  {
    selector:
      "CallExpression[callee.property.name=/^std(out|err)$/] > TemplateLiteral > CallExpression.expressions[callee.object.name='JSON'][callee.property.name='stringify']",
    message:
      'printJson, printJsonDocument or printJsonText (cli/terminal-text.ts) prints JSON: a terminal obeys some of what JSON.stringify leaves as it is.',
  },
  {
    selector:
      'CallExpression[callee.property.name=/^std(out|err)$/] > TemplateLiteral > MemberExpression.expressions[property.name=/^(message|reason|model|subject|stored|recordId)$/]',
    message: 'terminalText (cli/terminal-text.ts) shows what others chose.',
  },
];

const exit = {
  object: 'process',
  property: 'exit',
  message: 'Only main.ts and the command line end the process; everybody else lets it drain.',
};

/** Where the types come from: `npm run check -- --changed` makes a project of the files that changed. */
const project = process.env.ESLINT_PROJECT ?? './tsconfig.json';

export default tseslint.config(
  { ignores: ['node_modules/', 'build/', '.build/', '.tap/', 'coverage/', '**/*.js', '**/*.mjs', '**/*.cjs', 'src/console/'] },
  {
    files: ['src/**/*.ts', 'test/**/*.ts', 'bench/**/*.ts'],
    plugins: { '@typescript-eslint': tseslint.plugin },
    languageOptions: { parser: tseslint.parser, parserOptions: { project, tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      '@typescript-eslint/await-thenable': 'error',
      '@typescript-eslint/no-array-delete': 'error',
      '@typescript-eslint/no-deprecated': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-for-in-array': 'error',
      '@typescript-eslint/no-implied-eval': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/no-unnecessary-type-assertion': 'error',
      '@typescript-eslint/no-unsafe-argument': 'error',
      '@typescript-eslint/no-unsafe-assignment': 'error',
      '@typescript-eslint/no-unsafe-call': 'error',
      '@typescript-eslint/no-unsafe-member-access': 'error',
      '@typescript-eslint/no-unsafe-return': 'error',
      '@typescript-eslint/only-throw-error': 'error',
      '@typescript-eslint/prefer-promise-reject-errors': 'error',
      '@typescript-eslint/prefer-readonly': 'error',
      '@typescript-eslint/restrict-plus-operands': 'error',
      '@typescript-eslint/return-await': ['error', 'error-handling-correctness-only'],
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
    },
  },
  {
    files: ['src/**/*.ts'],
    rules: {
      '@typescript-eslint/explicit-module-boundary-types': 'error',
      'no-restricted-globals': ['error', { name: 'fetch', message: 'outbound/net is the only door out.' }],
      'no-restricted-properties': ['error', ...clockAndChance.properties, exit],
      'no-restricted-syntax': ['error', ...clockAndChance.syntax, ...money],
    },
  },
  {
    // The path of a request.
    files: ['src/{pipeline,inbound,outbound,decide,record,storage}/**/*.ts'],
    rules: { 'no-restricted-syntax': ['error', ...clockAndChance.syntax, ...money, ...accessors] },
  },
  { files: ['src/cli/**/*.ts'], rules: { 'no-restricted-syntax': ['error', ...clockAndChance.syntax, ...money, ...printing] } },
  { files: ['src/base/lib/**/*.ts'], rules: { 'no-restricted-properties': ['error', exit], 'no-restricted-syntax': 'off' } },
  {
    files: ['src/main.ts', 'src/mcp-main.ts', 'src/cli/**/*.ts'],
    rules: { 'no-restricted-properties': ['error', ...clockAndChance.properties] },
  },
  {
    // A test's answers come from JSON and from untyped peers; what it asserts is its own check of the shape.
    files: ['test/**/*.ts', 'bench/**/*.ts'],
    rules: {
      'no-restricted-syntax': ['error', ...looseAmounts],
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      // tap itself waits for its subtests.
      '@typescript-eslint/no-floating-promises': [
        'error',
        { allowForKnownSafePromises: [{ from: 'package', name: 'PromiseWithSubtest', package: '@tapjs/core' }] },
      ],
    },
  },
);
