/*
 * What a module imports, as its text says it: TypeScript or compiled, types included. Names that are computed are not
 * seen.
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

const IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*['"](\.{1,2}\/[^'"]+)['"]/g;

/** Reads each file once; make another when files have changed. */
export class Imports {
  #direct = new Map();

  /** The files that a file imports itself. */
  of(file) {
    const known = this.#direct.get(file);
    if (known !== undefined) return known;
    const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
    const found = [...new Set([...text.matchAll(IMPORT)].map(([, path]) => resolve(dirname(file), path)))].filter((path) =>
      existsSync(path),
    );
    this.#direct.set(file, found);
    return found;
  }

  /** The file and all that it leads to. */
  below(file) {
    const reached = new Set([file]);
    for (const one of reached) for (const further of this.of(one)) reached.add(further);
    return reached;
  }

  /** The shortest way from a file back to itself, the file at both ends; undefined: there is none. */
  circle(file) {
    const from = new Map();
    const queue = [file];
    for (const one of queue) {
      for (const further of this.of(one)) {
        if (further === file) return [...this.#wayTo(one, from), file];
        if (from.has(further)) continue;
        from.set(further, one);
        queue.push(further);
      }
    }
    return undefined;
  }

  #wayTo(last, from) {
    const way = [];
    for (let at = last; at !== undefined; at = from.get(at)) way.unshift(at);
    return way;
  }
}
