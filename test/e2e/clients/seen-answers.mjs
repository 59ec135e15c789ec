/*
 * Lets a client program tell what came over its wire, without touching the SDK under test: Node's own diagnostics
 * channel announces every request of fetch, whichever undici carries it
 * (https://undici.nodejs.org/#/docs/api/DiagnosticsChannel).
 */
import { subscribe } from 'node:diagnostics_channel';

let sent = 0;
let answers = [];

subscribe('undici:request:create', ({ request }) => {
  if (request.method !== 'CONNECT') sent += 1;
});
subscribe('undici:request:headers', ({ request, response }) => {
  if (request.method === 'CONNECT') return;
  const fields = response.headers.map((field) => field.toString('latin1'));
  const value = (name) => fields[fields.findIndex((field, i) => i % 2 === 0 && field.toLowerCase() === name) + 1];
  const has = fields.some((field, i) => i % 2 === 0 && field.toLowerCase() === 'x-gw-record-id');
  answers.push({ status: response.statusCode, recordId: has ? value('x-gw-record-id') : undefined });
});

/**
 * Runs one call and prints one line of JSON about it: what it gave or threw, how many requests it took, and their
 * answers.
 */
export async function report(call, run) {
  sent = 0;
  answers = [];
  const outcome = {};
  try {
    outcome.text = await run();
  } catch (error) {
    outcome.error = {
      type: error.constructor.name,
      message: error.message,
      status: error.status ?? error.statusCode,
      cause: String(error.cause ?? ''),
    };
  }
  process.stdout.write(`${JSON.stringify({ call, ...outcome, sent, answers })}\n`);
}
