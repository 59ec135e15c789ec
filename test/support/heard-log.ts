import { createLogger, type Logger } from '../../src/base/lib/log.ts';

/** What a log got. */
export interface HeardLog {
  readonly log: Logger;
  /** Level and message of each line, and the reason where it has one. */
  readonly lines: string[];
}

/** A real logger that keeps its lines for the test. */
export function heardLog(): HeardLog {
  const lines: string[] = [];
  const write = (text: string): void => {
    const { level, msg, reason } = JSON.parse(text) as { readonly level: string; readonly msg: string; readonly reason?: string };
    lines.push(`${level}: ${msg}${reason === undefined ? '' : ` | ${reason}`}`);
  };
  return { log: createLogger({ level: 'debug', format: 'json', destination: { write } }), lines };
}
