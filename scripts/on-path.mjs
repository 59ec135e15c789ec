import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Where a program is: itself where it is a path, else the first of its name in `PATH`. Undefined: nowhere. */
export function onPath(name, path = process.env.PATH ?? '') {
  const candidates = name.includes('/') ? [name] : path.split(delimiter).map((folder) => join(folder, name));
  return candidates.find(executable);
}

function executable(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
