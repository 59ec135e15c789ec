import { randomUUID } from 'node:crypto';

const IDS = new WeakMap<readonly string[], string>();

/**
 * The id by which a request is found again that leaves no record: in the header of its answer and in the log. It is made when somebody asks for it first.
 * @param rawHeaders those of the request: what is told of it in several places has this in common
 */
export function requestIdOf(rawHeaders: readonly string[]): string {
  let id = IDS.get(rawHeaders);
  if (id === undefined) {
    id = randomUUID();
    IDS.set(rawHeaders, id);
  }
  return id;
}

export const REQUEST_ID_HEADER = 'X-GW-Request-ID';
