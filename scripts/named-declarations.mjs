/*
 * The declarations of a TypeScript module, and the names that each of them uses. Syntax alone: a name is one of the
 * module's own declarations, or what an import brings.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import ts from 'typescript';

/** The unit that stands for what a module does when it is imported. */
export const BODY = 'import';

/** What one declaration uses. */
class Unit {
  names = new Set();
  /** Modules that are imported with it, for what they do then. */
  modules = [];
  /** Modules of `import()`, of which it may use everything. */
  dynamic = [];
  /** What the rule found in it first. */
  found;
}

/**
 * A module: its declarations by name (`units`), names from elsewhere with their module (`imports`), and modules of
 * `export *` (`all`).
 */
class Module {
  imports = new Map();
  units = new Map();
  all = [];
  #folder;
  #rule;

  constructor(file, rule) {
    this.#folder = dirname(file);
    this.#rule = rule;
    const body = this.#unit(BODY);
    const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true);
    for (const statement of source.statements) this.#declare(statement, body);
  }

  #unit(name) {
    const unit = this.units.get(name) ?? new Unit();
    this.units.set(name, unit);
    return unit;
  }

  #declare(statement, body) {
    if (ts.isImportDeclaration(statement)) this.#import(statement, body);
    else if (ts.isExportDeclaration(statement)) this.#export(statement, body);
    else if (ts.isFunctionDeclaration(statement) || ts.isClassDeclaration(statement))
      this.#visit(statement, this.#unit(statement.name?.text ?? 'default'));
    else if (ts.isVariableStatement(statement)) for (const one of statement.declarationList.declarations) this.#declareVariable(one, body);
    else if (!ts.isInterfaceDeclaration(statement) && !ts.isTypeAliasDeclaration(statement)) this.#visit(statement, body);
  }

  /** Of a function only a call does something. */
  #declareVariable(declaration, body) {
    for (const name of boundNames(declaration.name)) this.#visit(declaration, this.#unit(name));
    const { initializer } = declaration;
    if (initializer && !ts.isArrowFunction(initializer) && !ts.isFunctionExpression(initializer)) this.#visit(declaration, body);
  }

  #import({ importClause: clause, moduleSpecifier }, body) {
    if (clause?.isTypeOnly) return;
    const from = this.#path(moduleSpecifier);
    body.modules.push(from);
    if (clause?.name) this.imports.set(clause.name.text, [from, 'default']);
    const bindings = clause?.namedBindings;
    if (bindings && ts.isNamespaceImport(bindings)) this.imports.set(bindings.name.text, [from, '*']);
    for (const { name, own } of valuesOf(bindings)) this.imports.set(name, [from, own]);
  }

  #export({ exportClause: clause, moduleSpecifier, isTypeOnly }, body) {
    if (isTypeOnly) return;
    const from = moduleSpecifier && this.#path(moduleSpecifier);
    if (from !== undefined) body.modules.push(from);
    if (clause === undefined) this.all.push(from);
    for (const { name, own } of valuesOf(clause)) {
      if (from !== undefined) this.imports.set(name, [from, own]);
      else if (own !== name) this.#unit(name).names.add(own);
    }
  }

  #path({ text }) {
    return text.startsWith('.') ? join(this.#folder, text) : text;
  }

  #visit(node, unit) {
    if (ts.isTypeNode(node)) return;
    const { found, passOver = [] } = this.#rule(node);
    unit.found ??= found;
    if (ts.isIdentifier(node)) unit.names.add(node.text);
    const dynamic = importedBy(node);
    if (dynamic) unit.dynamic.push(this.#path(dynamic));
    const member = nameOfMember(node);
    ts.forEachChild(node, (child) => {
      if (!passOver.includes(child) && child !== member) this.#visit(child, unit);
    });
  }
}

/**
 * Reads a module.
 * @param rule asked of each node of the syntax: `found`, a text, when it is what is looked for, and `passOver`,
 * children of it that are not looked at
 */
export function readModule(file, rule) {
  return new Module(file, rule);
}

/** What a clause in braces names that is no type: by which name here, and by which there. */
function valuesOf(clause) {
  const values = (clause?.elements ?? []).filter(({ isTypeOnly }) => !isTypeOnly);
  return values.map(({ name, propertyName }) => ({ name: name.text, own: (propertyName ?? name).text }));
}

/** The name in a node that is that of a member, and of no declaration. */
function nameOfMember(node) {
  if (ts.isPropertyAccessExpression(node)) return node.name;
  if (ts.isBindingElement(node)) return node.propertyName;
  const isMember = ts.isClassElement(node) || (ts.isObjectLiteralElement(node) && !ts.isShorthandPropertyAssignment(node));
  return isMember && node.name && ts.isIdentifier(node.name) ? node.name : undefined;
}

/** The text of an `import()`. */
function importedBy(node) {
  if (!ts.isCallExpression(node) || node.expression.kind !== ts.SyntaxKind.ImportKeyword) return undefined;
  return node.arguments[0] && ts.isStringLiteral(node.arguments[0]) ? node.arguments[0] : undefined;
}

function boundNames(name) {
  if (ts.isIdentifier(name)) return [name.text];
  return name.elements.flatMap((element) => (ts.isOmittedExpression(element) ? [] : boundNames(element.name)));
}
