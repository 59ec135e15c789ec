import { readFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import { type Config, ConfigError, loadConfig } from '../../base/config/config.ts';
import { bracketHost } from '../../base/lib/host.ts';
import { type CliIo, UsageError } from '../command.ts';
import type { Document } from './input.ts';
import { UnreadablePath } from './policy-target.ts';

const TIMEOUT_MS = 10_000;
const MAX_RECORD = 16 * 1024 * 1024;
const RECORD_ID = /^[\x21-\x7e]{1,128}$/;

/**
 * A record of a running gateway.
 * @param url of the gateway; default: where a gateway with the same settings listens
 * @throws UnreadablePath when it does not answer or has no such record
 */
export async function fetchRecord(id: string, url: string | undefined, io: CliIo): Promise<Document> {
  if (!RECORD_ID.test(id)) throw new UsageError('--record takes the id of a record, as X-GW-Record-ID names it');
  const config = settings(io);
  const base = parseUrl(url ?? `http://${bracketHost(reachable(config.host))}:${config.port}`);
  const target = new URL(`/v1/records/${encodeURIComponent(id)}`, base);
  const { status, text } = await get(target, await adminToken(config));
  if (status === 200) return { name: `record ${id}`, text };
  if (status === 401)
    throw new UnreadablePath(`${base.origin} does not accept the admin token; set GW_ADMIN_TOKEN or GW_DATA_DIR to those of the gateway`);
  throw new UnreadablePath(status === 404 ? `${base.origin} has no record ${id}` : `${base.origin} answered ${status}`);
}

function settings(io: CliIo): Config {
  try {
    return loadConfig(io.env).config;
  } catch (error) {
    if (error instanceof ConfigError) throw new UsageError(error.message, { cause: error });
    throw error;
  }
}

/** An address that means "all of mine" to bind is no address to connect to. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}

function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol))
    throw new UsageError('--url takes the address of a gateway, such as http://127.0.0.1:7080');
  return url;
}

/** The configured token, else the one that the gateway made on its first start. */
async function adminToken({ adminToken: configured, dataDir }: Config): Promise<string> {
  if (configured !== undefined) return configured;
  const file = join(dataDir, 'admin-token');
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    throw new UnreadablePath(`there is no admin token: ${file} cannot be read, and GW_ADMIN_TOKEN is not set`, { cause: error });
  }
}

function get(url: URL, token: string): Promise<{ readonly status: number; readonly text: string }> {
  const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => reject(new UnreadablePath(`${url.origin} cannot be asked: ${error.message}`, { cause: error }));
    const call = send(url, { headers: { 'GW-Admin-Token': token }, timeout: TIMEOUT_MS, agent: false }, (answer) => {
      const chunks: Buffer[] = [];
      let size = 0;
      answer.on('error', fail);
      answer.on('data', (chunk: Buffer) => {
        size += chunk.length;
        if (size > MAX_RECORD) call.destroy(new Error('the answer is too long for a record'));
        else chunks.push(chunk);
      });
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString('utf8') }));
    });
    call.on('timeout', () => call.destroy(new Error(`no answer in ${TIMEOUT_MS / 1000} s`)));
    call.on('error', fail);
    call.end();
  });
}
