import type { SqlConnection, SqlPool, SqlPools, SqlRow } from '../../../src/storage/postgres/sql.ts';

/** What a server says whose disk is full. */
function diskFull(): Error {
  return Object.assign(new Error('could not extend file: No space left on device'), { code: '53100', severity: 'ERROR' });
}

const NEVER: Promise<never> = new Promise(() => undefined);

/** Pools of one store that pass everything on until they are told to fail, or to die. */
export class FaultyPools implements SqlPools {
  readonly reads: SqlPool;
  readonly writes: SqlPool;
  /** Whatever is to be written from now on fails; what has begun to be written goes on. */
  failing = false;
  /** The process is dead: nothing is asked any more, and nobody hears an answer. */
  dead = false;
  /** How often somebody wanted to write. */
  attempts = 0;
  /** Statements that were sent, when somebody wants to know. */
  readonly sent: string[] = [];
  /** May hold a statement up, or fail it before (`throw`) or instead of its answer. */
  around: ((text: string, send: () => Promise<readonly SqlRow[]>) => Promise<readonly SqlRow[]>) | undefined;
  readonly #open = new Set<SqlConnection>();

  constructor(pools: SqlPools) {
    this.reads = this.#wrapped(pools.reads, false);
    this.writes = this.#wrapped(pools.writes, true);
  }

  /** The process dies: what it has open breaks off. */
  die(): void {
    this.dead = true;
    for (const connection of this.#open) connection.release(true);
    this.#open.clear();
  }

  #wrapped(pool: SqlPool, writes: boolean): SqlPool {
    return {
      ...(pool.isSerial === true ? { isSerial: true } : {}),
      connect: async () => {
        if (writes) this.attempts += 1;
        if (this.dead) return NEVER;
        if (writes && this.failing) throw diskFull();
        const connection = await pool.connect();
        if (this.dead) {
          connection.release(true);
          return NEVER;
        }
        this.#open.add(connection);
        return this.#connection(connection);
      },
      end: () => (this.dead ? NEVER : pool.end()),
    };
  }

  #connection(connection: SqlConnection): SqlConnection {
    return {
      query: async (text, values) => {
        if (this.dead) return NEVER;
        this.sent.push(text);
        const send = () => connection.query(text, values);
        try {
          const rows = await (this.around ? this.around(text, send) : send());
          return this.dead ? await NEVER : rows;
        } catch (error) {
          if (this.dead) return NEVER;
          throw error;
        }
      },
      release: (broken) => {
        if (this.#open.delete(connection)) connection.release(broken);
      },
    };
  }
}
