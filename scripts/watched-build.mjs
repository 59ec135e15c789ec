/*
 * Compiles a project as its sources change, for `npm run dev` and `npm test -- --watch`. It keeps the compiler's notes
 * that `npm run build` keeps.
 */
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from './setup.mjs';

/**
 * Compiles, and again after each change, until it is closed.
 * @param stops whether an error in this file (its path from the root) keeps the build as it was; an error elsewhere is
 * shown alone
 * @param onBuilt is given the files that were written with another content, after the first compilation too, and
 * whether errors kept the build as it was
 * @returns a function that ends it
 */
export async function watchBuild({ root = projectRoot, stops = () => true, onBuilt, write }) {
  const { default: ts } = await import('typescript');
  const shown = {
    getCurrentDirectory: () => root,
    getNewLine: () => '\n',
    getCanonicalFileName: (name) => name,
  };
  const told = (diagnostics) =>
    process.stdout.isTTY ? ts.formatDiagnosticsWithColorAndContext(diagnostics, shown) : ts.formatDiagnostics(diagnostics, shown);
  const host = ts.createWatchCompilerHost(
    join(root, 'tsconfig.json'),
    {},
    ts.sys,
    ts.createEmitAndSemanticDiagnosticsBuilderProgram,
    (diagnostic) => write(told([diagnostic])),
    () => undefined,
  );
  host.afterProgramCreate = (program) => {
    const errors = [
      ...program.getConfigFileParsingDiagnostics(),
      ...program.getOptionsDiagnostics(),
      ...program.getSyntacticDiagnostics(),
      ...program.getGlobalDiagnostics(),
      ...program.getSemanticDiagnostics(),
    ];
    if (errors.length > 0) write(told(errors));
    const isKept = errors.some(({ file }) => file === undefined || stops(file.fileName.slice(root.length + 1)));
    onBuilt({ files: isKept ? [] : emitted(program, root, ts), isKept });
  };
  const watch = ts.createWatchProgram(host);
  return () => watch.close();
}

function emitted(program, root, ts) {
  const files = [];
  program.emit(undefined, (file, text, mark) => {
    const isCode = file.endsWith('.js');
    if (isCode && existsSync(file) && readFileSync(file, 'utf8') === text) return;
    if (isCode) files.push(file);
    ts.sys.writeFile(file, text, mark);
  });
  // By its stamp `npm run build` would believe that build/ is that of other sources.
  if (files.length > 0) rmSync(join(root, 'build', '.stamp'), { force: true });
  return files;
}
