import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { chownSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { openPgPools } from '../../../src/storage/postgres/pg-pools.ts';
import { until } from '../../contract/store-under-test.ts';
import { requirePeer } from '../../support/peers.ts';
import { type HasTeardown, tempDir } from '../../support/temp-dir.ts';
import { closeServer, listenOnFreePort, trackSockets } from '../../support/tls-upstream.ts';
import type { TestDatabase } from './pg-rig.ts';

/** PostgreSQL refuses to run as root: then this user that owns nothing runs it. */
const NOBODY = 65_534;
const asNobody = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};

/** Who is asked for a password. Everybody else is let in. */
export const CHECKED_USER = 'checked';
const ACCESS = `host all ${CHECKED_USER} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n`;

const SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  fsync: 'off',
  full_page_writes: 'off',
  shared_buffers: '48MB',
  max_connections: '80',
  max_wal_size: '256MB',
  log_min_messages: 'fatal',
  lc_messages: 'C',
  timezone: 'Asia/Kolkata',
};

/** A server of a test file, in a folder of its own. It can be killed and started again. */
export class PostgresServer {
  readonly port: number;
  readonly #folder: string;
  #process: ChildProcess | undefined;
  #databases = 0;

  private constructor(folder: string, port: number) {
    this.#folder = folder;
    this.port = port;
  }

  static async start(t: HasTeardown): Promise<PostgresServer> {
    const folder = tempDir(t);
    if (asNobody.uid !== undefined) chownSync(folder, asNobody.uid, asNobody.gid);
    const data = join(folder, 'data');
    const made = spawnSync(
      program('initdb'),
      ['-D', data, '-U', 'postgres', '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync'],
      {
        ...asNobody,
        cwd: folder,
        encoding: 'utf8',
      },
    );
    if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
    writeFileSync(join(data, 'pg_hba.conf'), ACCESS);
    const server = new PostgresServer(data, await freePort());
    t.teardown(() => server.stop('SIGQUIT'));
    await server.run();
    return server;
  }

  /** Starts it, and waits until it lets somebody in. */
  async run(): Promise<void> {
    const settings = Object.entries({ ...SETTINGS, port: `${this.port}` }).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    await until(async () => {
      // What its last process has left behind may keep the first ones from starting.
      if (this.#process === undefined || this.#process.exitCode !== null)
        this.#process = spawn(program('postgres'), ['-D', this.#folder, ...settings], { ...asNobody, cwd: this.#folder, stdio: 'ignore' });
      return this.#answers();
    });
  }

  async stop(signal: NodeJS.Signals): Promise<void> {
    const running = this.#process;
    if (running === undefined || running.exitCode !== null || running.signalCode !== null) return;
    const ended = new Promise((resolve) => running.once('exit', resolve));
    running.kill(signal);
    await ended;
    this.#process = undefined;
  }

  url(database: string, user = 'postgres', port = this.port): string {
    return `postgres://${user}@127.0.0.1:${port}/${database}`;
  }

  /** Runs statements as the superuser. */
  async sql(text: string, database = 'postgres'): Promise<readonly Readonly<Record<string, unknown>>[]> {
    const client = new pg.Client({ connectionString: this.url(database) });
    client.on('error', () => undefined);
    await client.connect();
    try {
      const answer: unknown = await client.query(text);
      return ((Array.isArray(answer) ? answer.at(-1) : answer) as { rows: readonly Readonly<Record<string, unknown>>[] }).rows;
    } finally {
      await client.end();
    }
  }

  /** The name of a new database. */
  async createDatabase(options = ''): Promise<string> {
    this.#databases += 1;
    const name = `test_${this.#databases}`;
    await this.sql(`CREATE DATABASE ${name} TEMPLATE template0 ${options}`);
    return name;
  }

  /** A new database for stores. */
  async database(): Promise<TestDatabase & { readonly name: string }> {
    return this.named(await this.createDatabase());
  }

  /** One that is there. */
  named(name: string): TestDatabase & { readonly name: string } {
    return {
      name,
      openPools: () => openPgPools(this.url(name)),
      quiet: () => until(async () => (await this.backends(name)) === 0),
    };
  }

  /** How many connections a database has, those that do nothing aside. */
  async backends(database: string): Promise<number> {
    const [row] = await this.sql(`SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = '${database}' AND state <> 'idle'`);
    return Number(row?.['n']);
  }

  async #answers(): Promise<boolean> {
    return this.sql('SELECT 1').then(
      () => true,
      () => false,
    );
  }
}

function program(name: string): string {
  return join(dirname(requirePeer('postgresql')), name);
}

async function freePort(): Promise<number> {
  const server = createServer();
  const sockets = trackSockets(server);
  const port = await listenOnFreePort(server);
  await closeServer(server, sockets);
  return port;
}
