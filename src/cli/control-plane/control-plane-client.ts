import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ControlPlaneSettings } from '../../base/config/control-plane-settings.ts';
import { loadControlPlaneSettings } from '../../base/config/load-control-plane-settings.ts';
import { originOf, reachableHost } from '../../base/config/own-origin.ts';
import { ConfigError } from '../../base/config/settings-reader.ts';
import { parseSafeJsonText } from '../../base/json/safe-json.ts';
import { ADMIN_TOKEN_HEADER } from '../../control-plane/admin/admin-authenticator.ts';
import type { AdminOperation } from '../../control-plane/admin/admin-operation.ts';
import { ADMIN_OPERATIONS } from '../../control-plane/admin/admin-operation-table.ts';
import { planOf, requestOf, takenNames } from '../../operations/operation-request.ts';
import { type CliIo, GatewayRefusal, Unusable, UsageError } from '../command.ts';
import { errorOf, sendToGateway } from '../gateway-client.ts';

/** Where a control plane is asked, and with what. */
export interface ControlPlaneAccess {
  readonly url?: string | undefined;
  readonly token?: string | undefined;
}

/** Options of every command that asks a control plane. */
export const CONTROL_PLANE_ASKING = {
  options: { json: { type: 'boolean' }, url: { type: 'string' }, token: { type: 'string' } },
  usage: '[--json] [--url http://HOST:PORT] [--token TOKEN]',
} as const;

/** The operation that is called so. @throws TypeError when there is none: a mistake in a command */
export function adminOperationOf(id: string): AdminOperation {
  const found = ADMIN_OPERATIONS.find((operation) => operation.id === id);
  if (found === undefined) throw new TypeError(`no operation of the control plane is called ${id}`);
  return found;
}

/** The settings of a control plane that is started like this command. @throws UsageError that names what is wrong */
export function controlPlaneSettingsOf(io: CliIo): ControlPlaneSettings {
  try {
    return loadControlPlaneSettings(io.env).config;
  } catch (error) {
    if (error instanceof ConfigError) throw new UsageError(error.message, { cause: error });
    throw error;
  }
}

/** Asks operations of a running control plane by what they are called; never shows its token. */
export class ControlPlaneClient {
  readonly #base: URL;
  /** Undefined: there is none, and what needs none can be asked. */
  readonly #token: string | undefined;
  readonly #lacking: string;

  private constructor(base: URL, token: string | undefined, lacking: string) {
    this.#base = base;
    this.#token = token;
    this.#lacking = lacking;
  }

  /** @throws UsageError for a bad address or setting */
  static async open({ url, token }: ControlPlaneAccess, io: CliIo): Promise<ControlPlaneClient> {
    const settings = controlPlaneSettingsOf(io);
    const base = new URL(url === undefined ? originOf('http', reachableHost(settings.host), settings.httpPort) : addressIn(url));
    const file = join(settings.dataDir, 'admin-token');
    const found = token ?? settings.adminToken ?? (await tokenIn(file));
    const then =
      'run this in the folder in which the control plane was started, or set CP_DATA_DIR or CP_ADMIN_TOKEN to those of the control plane';
    return new ControlPlaneClient(base, found, `there is no admin token: ${file} cannot be read, and CP_ADMIN_TOKEN is not set; ${then}`);
  }

  get host(): string {
    return this.#base.hostname;
  }

  /**
   * The text of an answer.
   * @param args names of the path, parameters and members of the body
   * @throws Unusable when nobody answers or the token is not accepted; GatewayRefusal; GatewayError for arguments that
   * make no request
   */
  async text(operation: AdminOperation, args: Readonly<Record<string, unknown>> = {}): Promise<string> {
    if (operation.scope === 'admin' && this.#token === undefined) throw new Unusable(this.#lacking);
    const { method, path, body } = requestOf(planOf(operation, takenNames(operation), args));
    const headers = this.#token === undefined ? {} : { [ADMIN_TOKEN_HEADER]: this.#token };
    const { status, text } = await sendToGateway(this.#base, path, { method, headers, body });
    if (status >= 200 && status < 300) return text;
    if (status === 401)
      throw new Unusable(
        `${this.#base.origin} does not accept the admin token; set CP_ADMIN_TOKEN or CP_DATA_DIR to those of the control plane`,
      );
    const { code, message } = errorOf(text);
    throw new GatewayRefusal(status, code, message || `${this.#base.origin} answered ${status}`);
  }

  /** An answer that is JSON. @throws as {@link text} */
  async json(operation: AdminOperation, args: Readonly<Record<string, unknown>> = {}): Promise<unknown> {
    const text = await this.text(operation, args);
    try {
      return parseSafeJsonText(text, { malformed: 'invalid_request' }).value;
    } catch (error) {
      throw new Unusable(`what ${this.#base.origin} answers is not JSON: is it a control plane?`, { cause: error });
    }
  }
}

/** @throws UsageError */
function addressIn(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol))
    throw new UsageError('--url takes the address of the HTTP port of a control plane, such as http://127.0.0.1:7444');
  return text;
}

async function tokenIn(file: string): Promise<string | undefined> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch {
    return undefined;
  }
}
