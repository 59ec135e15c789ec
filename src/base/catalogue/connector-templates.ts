import type { OperationTable } from './operations.ts';
import { type ProviderContext, pathsByType, readOperations } from './read-providers.ts';
import type { Row, RowProblems } from './row-reader.ts';
import type { Dialect, ErrorShape, Provider } from './types.ts';

const MEMBERS = ['dialect', 'base', 'default_path', 'bases', 'version_header', 'use', 'operations', 'paths_ignore_case', 'model_names'];

/** What the connectors of one dialect have in common that orgs make themselves. Paths stand below the base URL. */
export interface ConnectorTemplate {
  readonly dialect: string;
  /** Path that a base URL without one stands for; empty: the root. */
  readonly base: string;
  readonly defaultPath: string;
  readonly defaultPaths: ReadonlyMap<string, string>;
  readonly operations: OperationTable;
  readonly versionHeader: Provider['versionHeader'];
  readonly errorShape: ErrorShape;
}

export type ConnectorTemplates = ReadonlyMap<string, ConnectorTemplate>;

/** Reads the rows of `custom_connectors`. */
export function readConnectorTemplates(file: Row, context: ProviderContext, problems: RowProblems): ConnectorTemplates {
  const sets = file.row('operation_sets');
  const templates = new Map<string, ConnectorTemplate>();
  for (const row of file.rows('custom_connectors', MEMBERS)) {
    const operations = readOperations(row, context, sets);
    const defaultPath = row.need('default_path');
    const usual = operations.find('POST', defaultPath, false).dialect;
    const dialect = row.need('dialect');
    const base = row.text('base') ?? '';
    if (usual === undefined) row.problem('default_path', 'must be a POST path that one of the operations gives a dialect');
    if (!/^(?:\/[a-z0-9]+)*$/.test(base)) row.problem('base', 'must be a path without a slash at its end');
    if (templates.has(dialect)) problems.add(row.path, `the dialect ${dialect} stands twice`);
    templates.set(dialect, templateOf(row, { dialect, base, defaultPath, operations, usual }));
  }
  return templates;
}

interface Read extends Pick<ConnectorTemplate, 'dialect' | 'base' | 'defaultPath' | 'operations'> {
  readonly usual: Dialect | undefined;
}

function templateOf(row: Row, { usual, ...read }: Read): ConnectorTemplate {
  const version = row.row('version_header', ['name', 'fallback']);
  return Object.freeze({
    ...read,
    defaultPaths: usual ? pathsByType(read.operations, usual) : new Map<string, string>(),
    versionHeader: version && { name: version.need('name'), fallback: version.need('fallback') },
    errorShape: usual?.errorShape ?? 'openai',
  });
}
