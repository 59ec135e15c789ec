/*
 * Names that nothing can have, in every place where an operation takes text: the answer says that there is no such
 * thing, or what is wrong with the name. It never says that the gateway failed.
 */
import t from 'tap';
import { isJsonObject } from '../../src/base/json/json-object.ts';
import { exampleOf } from '../../src/operations/management/operation-example.ts';
import { ANY_SERVICES, planOf, requestOf, takenNames } from '../../src/operations/operation-request.ts';
import { OPERATIONS } from '../../src/operations/operation-table.ts';
import { exampleOrg } from '../support/example-org.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';

/** What keys of the store cannot hold, what paths mean, what JavaScript's objects have, and what is too long. */
const ODD = ['…', 'a\u0000b', 'ü/é', '..', '__proto__', 'constructor', '\ud800', 'x'.repeat(3000)];
type Json = Readonly<Record<string, unknown>>;

/** The value once for each text in it, with that text replaced. */
function replaced(value: unknown, odd: string): readonly unknown[] {
  if (typeof value === 'string') return [odd];
  if (Array.isArray(value)) {
    const items = value as readonly unknown[];
    return items.flatMap((item, at) => replaced(item, odd).map((other) => items.with(at, other)));
  }
  if (!isJsonObject(value)) return [];
  return Object.entries(value).flatMap(([name, member]) => [
    ...replaced(member, odd).map((other) => ({ ...value, [name]: other })),
    // As a name as well: labels, headers and models are maps.
    Object.fromEntries(Object.entries(value).map(([one, its]) => [one === name ? odd : one, its])),
  ]);
}

/** Arguments of an operation: those of its example, and text for every name that it takes in its path and its query. */
function argumentsOf(operation: (typeof OPERATIONS)[number]): Json {
  const { query } = operation.inputs(ANY_SERVICES);
  const named = [...takenNames(operation).path, ...Object.keys(query?.shape ?? {})];
  return { ...Object.fromEntries(named.map((name) => [name, 'some'])), ...exampleOf(operation.id)?.args };
}

/** What a client can put into a path at all. */
function isSent(value: unknown): boolean {
  return typeof value === 'string' && value.isWellFormed();
}

t.test('no name makes the gateway fail', async (t) => {
  const { gw, send } = await exampleOrg(t);
  const byAdmin = async (method: string, path: string, body: unknown) => {
    const headers = { 'gw-admin-token': ADMIN_TOKEN, 'content-type': 'application/json' };
    const response = await fetch(gw.url + path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
    return { status: response.status, body: await response.text() };
  };
  let asked = 0;
  for (const operation of OPERATIONS) {
    const { id } = operation;
    const names = takenNames(operation);
    const failed: string[] = [];
    for (const odd of ODD) {
      for (const args of replaced(argumentsOf(operation), odd)) {
        if (!isJsonObject(args) || names.path.some((name) => !isSent(args[name]))) continue;
        const known =
          names.body === undefined
            ? Object.entries(args).filter(([name]) => names.query.has(name) || names.path.includes(name))
            : Object.entries(args);
        const { method, path, body } = requestOf(planOf(operation, names, Object.fromEntries(known)));
        const answer = id.startsWith('mgmt.') ? await send('own', method, path, body) : await byAdmin(method, path, body);
        asked += 1;
        if (answer.status >= 500) failed.push(`${method} ${path.slice(0, 200)} ${JSON.stringify(body)?.slice(0, 300)}: ${answer.status}`);
      }
    }
    t.strictSame(failed, [], id);
  }
  t.ok(asked > 1000, `${asked} requests`);
});
