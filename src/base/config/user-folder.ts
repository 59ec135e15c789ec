import { isAbsolute, join, parse } from 'node:path';

const NAME = 'ai-request-gateway';
/** In the place of a folder: nothing is kept. */
export const NO_FOLDER = 'none';

/**
 * Where what belongs to a user is kept, whatever folder he works in (decision 12.15): what `GW_CONFIG_DIR` says, else a
 * folder in the place that his system has for such. Undefined where there is none, as for a service or a container
 * whose user has no home.
 * @param given the value of `GW_CONFIG_DIR`
 */
export function userFolder(
  given: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
  platform: string = process.platform,
): string | undefined {
  if (given !== undefined) return given === NO_FOLDER ? undefined : given;
  const xdg = homeIn(env['XDG_CONFIG_HOME']);
  if (xdg !== undefined) return join(xdg, NAME);
  if (platform === 'win32') return env['APPDATA'] === undefined || env['APPDATA'] === '' ? undefined : join(env['APPDATA'], NAME);
  const home = homeIn(env['HOME']);
  if (home === undefined) return undefined;
  return platform === 'darwin' ? join(home, 'Library', 'Application Support', NAME) : join(home, '.config', NAME);
}

/** The root of the file system is what services are given that have no home. */
function homeIn(path: string | undefined): string | undefined {
  return path !== undefined && isAbsolute(path) && parse(path).root !== path ? path : undefined;
}
