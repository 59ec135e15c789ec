/*
 * Which test files read the real clock, and by what: `Date.now()`, `new Date()` and `systemClock`, a command of `gw`,
 * or a process, whatever program it is; also one that gives a gateway a `certificateClock`, since a TLS library that
 * asks the machine judges what comes of it. Found in the source, from declaration to declaration across files, so that
 * one which imports a helper and does not call it is none. `--check` holds scripts/real-clock.json against it, of the
 * files that follow alone where there are any; without it the file says what leads each there.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import ts from 'typescript';
import { BODY, readModule } from './named-declarations.mjs';
import { filesBelow, projectRoot } from './setup.mjs';

const CLOCK = 'src/base/lib/clock.ts';
/**
 * What stands for the real clock in these files is none of a test's business: the time of lines of the log, the clock
 * that certificates are made by and the TLS library judges them by, and programs that are asked whether they are there.
 */
const OF_NO_TEST = ['src/base/lib/log.ts', 'test/support/certificate-clock.ts', 'test/support/peers.ts'];

/**
 * Every test file that reads the real clock, with the declarations that lead there.
 * @param root the project's folder
 * @param files the test files that are asked about
 */
export function realClockReaders(root = projectRoot, files = filesBelow(join(root, 'test')).filter((file) => file.endsWith('.test.ts'))) {
  const graph = new Graph(root);
  const found = files.map((file) => [relative(root, file).replaceAll('\\', '/'), graph.wayFrom(file)]);
  return new Map(found.filter(([, way]) => way !== undefined).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** What is wrong with a list of them, a sentence each. @param listed paths from the project's folder */
export function flawsOfList(readers, listed) {
  return [
    ...[...readers].flatMap(([file, way]) =>
      listed.includes(file)
        ? []
        : [`${file} reads the real clock (${way.join(' > ')}): give it another clock, or list it in scripts/real-clock.json`],
    ),
    ...listed.flatMap((file) => (readers.has(file) ? [] : [`${file} is listed and does not read the real clock`])),
    ...listed.flatMap((file, at) => (listed.indexOf(file) < at ? [`${file} is listed twice`] : [])),
  ];
}

/** Declarations of modules, and which of them use which. */
class Graph {
  #root;
  #modules = new Map();
  #steps = new Map();

  constructor(root) {
    this.#root = root;
  }

  /**
   * The shortest way from what a file does when it is imported to what reads the clock: names of declarations, last the
   * reading itself.
   */
  wayFrom(file) {
    const seen = new Set();
    const queue = [{ at: file, name: BODY, way: [] }];
    for (const { at, name, way } of queue) {
      const key = `${at}#${name}`;
      if (seen.has(key)) continue;
      seen.add(key);
      const { found, further } = this.#step(key, at, name);
      const until = name === BODY || name === '*' ? way : [...way, name];
      if (found !== undefined) return found === name ? until : [...until, found];
      for (const [from, one] of further) queue.push({ at: from, name: one, way: until });
    }
    return undefined;
  }

  #step(key, file, name) {
    const step = this.#steps.get(key) ?? this.#look(file, name);
    this.#steps.set(key, step);
    return step;
  }

  /** What a declaration reads, and those that it uses; by the name alone where it stands in another package. */
  #look(file, name) {
    const inside = file.startsWith(this.#root) && file.endsWith('.ts') && existsSync(file);
    const path = relative(this.#root, file).replaceAll('\\', '/');
    if (!inside) return { found: file === 'node:child_process' && name !== BODY ? 'a process' : undefined, further: [] };
    if (path === CLOCK) return { found: name === 'systemClock' ? name : undefined, further: [] };
    return OF_NO_TEST.includes(path) ? { further: [] } : this.#lookInto(file, name);
  }

  #lookInto(file, name) {
    const { imports, units, all } = this.#moduleOf(file);
    if (name === '*') return { further: [...units.keys()].map((one) => [file, one]) };
    const unit = units.get(name);
    const named = (one) => (units.has(one) ? [[file, one]] : imports.has(one) ? [imports.get(one)] : []);
    if (unit === undefined) return { further: [...named(name), ...all.map((from) => [from, name])] };
    const modules = [...unit.modules.map((from) => [from, BODY]), ...unit.dynamic.map((from) => [from, '*'])];
    return { found: unit.found, further: [...[...unit.names].flatMap(named), ...modules] };
  }

  #moduleOf(file) {
    const isSource = relative(this.#root, file).startsWith('src');
    const module =
      this.#modules.get(file) ?? readModule(file, (node) => ({ found: readingOf(node), passOver: passedOver(node, isSource) }));
    this.#modules.set(file, module);
    return module;
  }
}

/** How an expression reads the clock by itself. */
function readingOf(node) {
  if (ts.isPropertyAccessExpression(node) && node.getText() === 'Date.now') return 'Date.now';
  if (ts.isNewExpression(node) && node.expression.getText() === 'Date' && !node.arguments?.length) return 'new Date()';
  if (ts.isCallExpression(node) && node.expression.getText() === 'Date') return 'Date()';
  return givesCertificateClock(node) ? 'certificateClock' : undefined;
}

function givesCertificateClock(node) {
  const isGiven =
    ts.isPropertyAssignment(node) || (ts.isShorthandPropertyAssignment(node) && node.getSourceFile().fileName.endsWith('.test.ts'));
  return isGiven && node.name.getText() === 'certificateClock';
}

/**
 * `systemClock` where it is none of a test's: of what is not the time of day, and as the default of a source, to which
 * tests give another clock.
 */
function passedOver(node, isSource) {
  if (ts.isPropertyAccessExpression(node)) return node.name.text === 'now' ? [] : [node.expression].filter(isSystemClock);
  if (!isSource) return [];
  if (ts.isParameter(node) || ts.isBindingElement(node)) return [node.initializer].filter(isSystemClock);
  const isOr = ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.QuestionQuestionToken;
  return isOr ? [node.right].filter(isSystemClock) : [];
}

function isSystemClock(node) {
  return node !== undefined && ts.isIdentifier(node) && node.text === 'systemClock';
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [option, ...only] = process.argv.slice(2);
  const readers = realClockReaders(projectRoot, only.length > 0 ? only.map((file) => join(projectRoot, file)) : undefined);
  if (option !== '--check') for (const [file, way] of readers) process.stdout.write(`${file}: ${way.join(' > ')}\n`);
  else {
    const { everyMoment, oneMoment, never } = JSON.parse(readFileSync(join(projectRoot, 'scripts', 'real-clock.json'), 'utf8'));
    const listed = [...everyMoment, ...oneMoment, ...Object.keys(never)];
    const flaws = flawsOfList(readers, only.length > 0 ? listed.filter((file) => only.includes(file)) : listed);
    for (const flaw of flaws) process.stdout.write(`${flaw}\n`);
    process.exitCode = flaws.length > 0 ? 1 : 0;
  }
}
