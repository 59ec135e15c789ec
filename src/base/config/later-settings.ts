/** A variable that the gateway knows and that nothing in this version enforces. */
export interface LaterSetting {
  readonly variable: string;
  /** Undefined: not set by default. */
  readonly fallback: string | undefined;
  readonly help: string;
  /** Its value is never printed. */
  readonly secret?: true;
  /** Values besides the default that change nothing, since what they switch off does not exist. */
  readonly harmless?: readonly string[];
}

/**
 * Nothing fails open: each of these, set to anything but its default, stops the start with `not_supported_yet` (decisions, head). A row moves to settings.ts
 * in the change that makes something obey it.
 */
export const LATER_SETTINGS: readonly LaterSetting[] = [
  {
    variable: 'GW_CONSOLE_ENABLED',
    fallback: 'true',
    help: 'The web console, which comes later: there is nothing at `/console` yet, whatever it is set to.',
    harmless: ['false'],
  },
  { variable: 'GW_WORKERS', fallback: '1', help: 'Processes that serve the ports.' },
  { variable: 'GW_DATABASE_URL', fallback: undefined, help: 'PostgreSQL instead of the embedded store.', secret: true },
  { variable: 'GW_REDIS_URL', fallback: undefined, help: 'Counters shared between nodes.', secret: true },
];
