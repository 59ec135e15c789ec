/*
 * The benchmark's upstream, alone in its process: real TLS, http/1.1, a 1 KB chat answer or a stream of 50 events. It
 * prints one JSON line with its port and the file of its root certificate, and ends with its standard input.
 */

import { writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { testCa } from '../test/support/certificates.ts';

const EVENTS = 50;
const answer = JSON.stringify({
  id: 'chatcmpl-bench',
  object: 'chat.completion',
  model: 'gpt-4o-mini',
  choices: [{ index: 0, message: { role: 'assistant', content: 'x'.repeat(780) }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 200, completion_tokens: 180, total_tokens: 380 },
});

function event(content: string, usage?: object): string {
  const choices = usage ? [] : [{ index: 0, delta: { content }, finish_reason: null }];
  return `data: ${JSON.stringify({ id: 'chatcmpl-bench', object: 'chat.completion.chunk', model: 'gpt-4o-mini', choices, usage: usage ?? null })}\n\n`;
}

const events = Array.from({ length: EVENTS }, (_, at) => Buffer.from(event(`token ${at} `)));
const tail = Buffer.from(`${event('', { prompt_tokens: 200, completion_tokens: EVENTS, total_tokens: 200 + EVENTS })}data: [DONE]\n\n`);

const ca = testCa();
const leaf = ca.leaf({ hosts: ['api.openai.com', 'localhost', '127.0.0.1'] });
const server = createServer({ cert: leaf.certPem, key: leaf.keyPem, ALPNProtocols: ['http/1.1'] }, (request, response) => {
  let body = '';
  request.setEncoding('latin1');
  request.on('data', (chunk: string) => {
    body += chunk;
  });
  request.on('end', () => {
    if (!body.includes('"stream":true')) {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(answer) });
      response.end(answer);
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    let at = 0;
    // One event per turn of the event loop, so that events travel one by one as a model sends them.
    const next = () => {
      const chunk = events[at];
      at += 1;
      if (chunk === undefined) {
        response.end(tail);
        return;
      }
      response.write(chunk);
      setImmediate(next);
    };
    next();
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => {
  const dir = process.argv[2] ?? '.';
  const caFile = join(dir, 'upstream-ca.pem');
  writeFileSync(caFile, ca.certPem);
  process.stdout.write(`${JSON.stringify({ port: (server.address() as AddressInfo).port, caFile })}\n`);
});
process.stdin.on('end', () => process.exit(0)).resume();
