/*
 * Which test files read the real clock, and by what: `Date.now()`, `new Date()` and `systemClock`, a command of `gw`, or a process, whatever program it is;
 * also one that gives a gateway a `certificateClock`, since a TLS library that asks the machine judges what comes of it.
 * Found in the source, from declaration to declaration across files, so that one which imports a helper and does not call it is none. `--check` holds
 * scripts/real-clock.json against it; without it the file says what leads each there.
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import ts from 'typescript';
import { filesBelow, projectRoot } from './setup.mjs';

const CLOCK = 'src/base/lib/clock.ts';
/**
 * What stands for the real clock in these files is none of a test's business: the time of lines of the log, the clock that certificates are made by and the
 * TLS library judges them by, and programs that are asked whether they are there.
 */
const OF_NO_TEST = ['src/base/lib/log.ts', 'test/support/certificate-clock.ts', 'test/support/peers.ts'];
/** The part of a module that runs when it is imported. */
const BODY = 'import';

/** Every test file that reads the real clock, with the declarations that lead there. @param root the project's folder */
export function realClockReaders(root = projectRoot) {
  const graph = new Graph(root);
  const files = filesBelow(join(root, 'test')).filter((file) => file.endsWith('.test.ts'));
  const found = files.map((file) => [relative(root, file).replaceAll('\\', '/'), graph.wayFrom(file)]);
  return new Map(found.filter(([, way]) => way !== undefined).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** What is wrong with a list of them, a sentence each. @param listed paths from the project's folder */
export function flawsOfList(readers, listed) {
  return [
    ...[...readers].flatMap(([file, way]) =>
      listed.includes(file) ? [] : [`${file} reads the real clock (${way.join(' > ')}): give it another one, or list it`],
    ),
    ...listed.flatMap((file) => (readers.has(file) ? [] : [`${file} is listed and does not read the real clock`])),
    ...listed.flatMap((file, at) => (listed.indexOf(file) < at ? [`${file} is listed twice`] : [])),
  ];
}

/** Declarations of modules, and which of them name which. */
class Graph {
  #root;
  #modules = new Map();
  #units = new Map();

  constructor(root) {
    this.#root = root;
  }

  /** The shortest way from what a file does when it is imported to what reads the clock: names of declarations, last the reading itself. */
  wayFrom(file) {
    const seen = new Set();
    let layer = [{ file, name: BODY, way: [] }];
    while (layer.length > 0) {
      const next = [];
      for (const { file: at, name, way } of layer) {
        const key = `${at}#${name}`;
        if (seen.has(key)) continue;
        seen.add(key);
        const { reads, further } = this.#unit(key, at, name);
        const until = name === BODY || name === '*' ? way : [...way, name];
        if (reads !== undefined) return reads === name ? until : [...until, reads];
        next.push(...further.map(([from, one]) => ({ file: from, name: one, way: until })));
      }
      layer = next;
    }
    return undefined;
  }

  #unit(key, file, name) {
    const known = this.#units.get(key) ?? this.#look(file, name);
    this.#units.set(key, known);
    return known;
  }

  /** What a declaration reads, and those that it names; by the name alone where it stands in another package. */
  #look(file, name) {
    const nothing = { further: [] };
    if (!file.startsWith(this.#root)) return file === 'node:child_process' && name !== BODY ? { reads: 'a process', further: [] } : nothing;
    const path = relative(this.#root, file).replaceAll('\\', '/');
    if (path === CLOCK) return name === 'systemClock' ? { reads: 'systemClock', further: [] } : nothing;
    if (OF_NO_TEST.includes(path) || !file.endsWith('.ts') || !existsSync(file)) return nothing;
    const { imports, units, all } = this.#moduleOf(file);
    if (name === '*') return { further: [...units.keys()].map((one) => [file, one]) };
    const unit = units.get(name);
    const named = (one) => (units.has(one) ? [[file, one]] : imports.has(one) ? [imports.get(one)] : []);
    if (unit === undefined) return { further: [...named(name), ...all.map((from) => [from, name])] };
    return {
      reads: unit.reads,
      further: [...[...unit.names].flatMap(named), ...unit.modules.map((from) => [from, BODY]), ...unit.dynamic.map((from) => [from, '*'])],
    };
  }

  #moduleOf(file) {
    const known = this.#modules.get(file) ?? parsed(file, relative(this.#root, file).startsWith('src'));
    this.#modules.set(file, known);
    return known;
  }
}

/** What a module declares, and what each declaration names. @param isSource a default clock is no reading there: tests give another one */
function parsed(file, isSource) {
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true);
  const module = { imports: new Map(), units: new Map(), all: [] };
  const unitOf = (name) => {
    const unit = module.units.get(name) ?? { names: new Set(), modules: [], dynamic: [], reads: undefined };
    module.units.set(name, unit);
    return unit;
  };
  const body = unitOf(BODY);
  const pathOf = (specifier) => (specifier.text.startsWith('.') ? join(dirname(file), specifier.text) : specifier.text);
  const into = (unit) => (node) => visit(node, unit, { pathOf, isSource });
  for (const statement of source.statements) {
    if (ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement)) continue;
    if (ts.isImportDeclaration(statement) || ts.isExportDeclaration(statement)) link(statement, module, body, pathOf);
    else if (ts.isFunctionDeclaration(statement) || ts.isClassDeclaration(statement))
      into(unitOf(statement.name?.text ?? 'default'))(statement);
    else if (ts.isVariableStatement(statement)) {
      for (const declaration of statement.declarationList.declarations) {
        for (const name of boundNames(declaration.name)) into(unitOf(name))(declaration);
        if (!isFunction(declaration.initializer)) into(body)(declaration);
      }
    } else into(body)(statement);
  }
  return module;
}

/** Notes what an import or export statement makes known by which name. */
function link(statement, module, body, pathOf) {
  const clause = ts.isImportDeclaration(statement) ? statement.importClause : statement.exportClause;
  if (statement.isTypeOnly || clause?.isTypeOnly) return;
  const from = statement.moduleSpecifier && pathOf(statement.moduleSpecifier);
  if (from !== undefined) body.modules.push(from);
  if (clause === undefined) {
    if (ts.isExportDeclaration(statement)) module.all.push(from);
    return;
  }
  if (clause.name && ts.isImportClause(clause)) module.imports.set(clause.name.text, [from, 'default']);
  const bindings = ts.isImportClause(clause) ? clause.namedBindings : clause;
  if (bindings?.elements === undefined) {
    if (bindings?.name) module.imports.set(bindings.name.text, [from, '*']);
    return;
  }
  for (const { isTypeOnly, name, propertyName } of bindings.elements) {
    if (isTypeOnly) continue;
    const own = (propertyName ?? name).text;
    if (from !== undefined) module.imports.set(name.text, [from, own]);
    else if (own !== name.text) module.units.set(name.text, { names: new Set([own]), modules: [], dynamic: [], reads: undefined });
  }
}

/** Adds to a unit what an expression or statement names. */
function visit(node, unit, place) {
  const further = (one) => visit(one, unit, place);
  if (ts.isTypeNode(node)) return;
  const reads = readingOf(node);
  if (reads !== undefined) unit.reads ??= reads;
  if (ts.isIdentifier(node)) unit.names.add(node.text);
  else if (ts.isPropertyAccessExpression(node)) {
    // Only the time of day is a matter of dates.
    if (node.expression.getText() !== 'systemClock' || node.name.text === 'now') further(node.expression);
  } else if (ts.isPropertyAssignment(node)) {
    if (ts.isComputedPropertyName(node.name)) further(node.name);
    further(node.initializer);
  } else if (place.isSource && isDefaultClock(node))
    ts.forEachChild(node, (child) => (child.getText() === 'systemClock' ? undefined : further(child)));
  else {
    const dynamic = ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword ? node.arguments[0] : undefined;
    if (dynamic && ts.isStringLiteral(dynamic)) unit.dynamic.push(place.pathOf(dynamic));
    ts.forEachChild(node, further);
  }
}

/** How an expression reads the clock by itself. */
function readingOf(node) {
  if (ts.isPropertyAccessExpression(node) && node.getText() === 'Date.now') return 'Date.now';
  if (ts.isNewExpression(node) && node.expression.getText() === 'Date' && !node.arguments?.length) return 'new Date()';
  if (ts.isCallExpression(node) && node.expression.getText() === 'Date') return 'Date()';
  const isGiven =
    ts.isPropertyAssignment(node) || (ts.isShorthandPropertyAssignment(node) && node.getSourceFile().fileName.endsWith('.test.ts'));
  if (isGiven && node.name.getText() === 'certificateClock') return 'certificateClock';
  return undefined;
}

function isDefaultClock(node) {
  if (ts.isParameter(node) || ts.isBindingElement(node)) return node.initializer?.getText() === 'systemClock';
  return (
    ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.QuestionQuestionToken && node.right.getText() === 'systemClock'
  );
}

function isFunction(node) {
  return node !== undefined && (ts.isArrowFunction(node) || ts.isFunctionExpression(node));
}

function boundNames(name) {
  if (ts.isIdentifier(name)) return [name.text];
  return name.elements.flatMap((element) => (ts.isOmittedExpression(element) ? [] : boundNames(element.name)));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const readers = realClockReaders();
  if (process.argv[2] !== '--check') for (const [file, way] of readers) process.stdout.write(`${file}: ${way.join(' > ')}\n`);
  else {
    const { everyMoment, oneMoment, never } = JSON.parse(readFileSync(join(projectRoot, 'scripts', 'real-clock.json'), 'utf8'));
    const flaws = flawsOfList(readers, [...everyMoment, ...oneMoment, ...Object.keys(never)]);
    for (const flaw of flaws) process.stdout.write(`${flaw}\n`);
    process.exitCode = flaws.length > 0 ? 1 : 0;
  }
}
