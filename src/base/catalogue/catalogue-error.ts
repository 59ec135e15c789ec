import type { ErrorDetail } from '../lib/gateway-error.ts';

/** The data about providers and prices cannot be used. Thrown at start with every mistake at once. */
export class CatalogueError extends Error {
  readonly details: readonly ErrorDetail[];

  constructor(details: readonly ErrorDetail[], options?: ErrorOptions) {
    super(`the catalogue does not load:\n${details.map(describe).join('\n')}`, options);
    this.name = 'CatalogueError';
    this.details = details;
  }
}

function describe(detail: ErrorDetail): string {
  const place = [detail.file, detail.line, detail.column].filter((part) => part !== undefined).join(':');
  return `  ${place}: ${detail.path === '' ? '' : `${detail.path} `}${detail.message}`;
}
