import type { Clock } from '../../base/lib/clock.ts';
import { parseDuration } from '../../base/lib/clock.ts';
import { LedgerError } from '../../ledger/ledger-error.ts';
import { type CutSpan, cutOver, cutText } from '../../ledger/ledger-restore.ts';
import { growthBetween, type WatchedChain } from '../../ledger/watched-chain.ts';
import { RestoreFound } from '../../ledger/watched-restore.ts';
import { badValue } from '../checked-arguments.ts';
import { type CliIo, EXIT_NO, EXIT_OK, EXIT_RESTORED, GatewayRefusal, Unusable, UsageError } from '../command.ts';
import { untilStopped } from '../demo/until-stopped.ts';
import { heldPause } from '../process-io.ts';
import { settingsOf } from '../settings-of.ts';
import { printJson, terminalText } from '../terminal-text.ts';
import { logKeysIn, NO_LOG_KEY } from './check-entries.ts';
import { ControlPlanePages } from './control-plane-pages.ts';
import { cosignPublished, readWitness } from './cosign-ledger.ts';
import { keysInFile } from './evidence-files.ts';
import { type Looked, lookAtLedger, type WatchOptions, WatchStateFile } from './watch-ledger.ts';

const LEAST_MS = 1_000;
const MOST_MS = 86_400_000;
const SEQUENCE = /^[1-9]\d{0,14}$/;

export interface WatchArguments {
  readonly url: string;
  readonly state: string;
  readonly keys: string | undefined;
  readonly org: string | undefined;
  /** PEM file of the keys of the log that roots are entered in. */
  readonly rekorKey: string | undefined;
  readonly interval: string | undefined;
  /** The root of a restore that is accepted, as it was typed. */
  readonly acceptRestore: string | undefined;
  /** File of the private key of a witness, and the name that he goes by. */
  readonly cosign: string | undefined;
  readonly name: string | undefined;
  readonly json: boolean;
}

/**
 * Looks once, or again and again until something does not fit or it is stopped.
 * @returns the exit code
 * @throws UsageError, Unusable, GatewayRefusal
 */
export async function watchHistory(asked: WatchArguments, io: CliIo, clock: Clock): Promise<number> {
  const everyMs = asked.interval === undefined ? undefined : intervalOf(asked.interval);
  const acceptedRestore = asked.acceptRestore === undefined ? undefined : sequenceOf(asked.acceptRestore);
  const ledger = new ControlPlanePages(asked.url, '--watch', io);
  const pinned = asked.keys === undefined ? undefined : await keysInFile(asked.keys, io);
  const logKeys = asked.rekorKey === undefined ? undefined : await logKeysIn(asked.rekorKey, io);
  const witness = asked.cosign === undefined ? undefined : await readWitness(asked.cosign, asked.name);
  const file = new WatchStateFile(asked.state);
  const orgId = orgOf(asked, await file.read(), io);
  const save = (state: WatchedChain) => file.write(state);
  const look = async (): Promise<Looked> => {
    // What is remembered, then what is published, then the ledger: each is of the past of the next.
    const seen = await file.read();
    const before = await witness?.cosigned();
    const published = witness === undefined ? undefined : await ledger.checkpoint(orgId);
    const looked = await lookAtLedger({ ledger, orgId, seen, pinned, logKeys, acceptedRestore, save } satisfies WatchOptions);
    if (witness === undefined || before === undefined || published === undefined) return looked;
    const { state } = looked;
    return { ...looked, state: await cosignPublished({ ledger, witness, before, published, state, save, now: clock.now() }) };
  };
  /** @param answered it has answered before: then it is asked again when it does not */
  const lookAndTell = async (answered: boolean): Promise<number> => {
    try {
      tell(await look(), { pinned, logKeys }, asked.json, io);
    } catch (error) {
      if (error instanceof LedgerError) return tellBroken(error, await file.read(), orgId, asked.json, io);
      if (!(answered && (error instanceof Unusable || error instanceof GatewayRefusal))) throw error;
      io.stderr(`gw verify: ${terminalText(error.message)}; asking again\n`);
    }
    return EXIT_OK;
  };
  const stop = new AbortController();
  if (everyMs !== undefined) void untilStopped().then(() => stop.abort());
  for (let answered = false; ; answered = true) {
    const code = await lookAndTell(answered);
    if (code !== EXIT_OK || everyMs === undefined || !(await heldPause(everyMs, stop.signal, clock))) return code;
  }
}

function sequenceOf(text: string): number {
  if (!SEQUENCE.test(text)) throw badValue('--accept-restore', 'the sequence of the root that says so, as --watch has told it', text);
  return Number(text);
}

function intervalOf(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined || ms < LEAST_MS || ms > MOST_MS) throw badValue('--interval', 'a duration from 1s to 24h', text);
  return ms;
}

function orgOf({ org, state }: WatchArguments, seen: WatchedChain | undefined, io: CliIo): string {
  if (seen !== undefined && org !== undefined && org !== seen.org_id)
    throw new UsageError(`${state} remembers the org ${seen.org_id}: give each org a file of its own`);
  return seen?.org_id ?? org ?? settingsOf(io).orgId ?? 'default';
}

/**
 * What is seen again and again in the same state is told once more only by `--json`, which has a line for each look.
 */
type Believed = Pick<WatchOptions, 'pinned' | 'logKeys'>;

function tell(looked: Looked, believed: Believed, json: boolean, io: CliIo): void {
  if (json) printJson(shownLook(looked), io);
  else io.stdout(`${linesOf(looked, believed).map(terminalText).join('\n')}\n`);
}

function shownLook({ from, state, strangers, cuts }: Looked): object {
  const { org_id, sequence, digest, keys, tree, stamp, entered, cosigned } = state;
  return {
    org_id,
    verified: true,
    from: from.sequence,
    sequence,
    digest,
    ...(tree && { tree }),
    ...(stamp && { stamp }),
    ...(entered && { entered }),
    ...(cosigned && { cosigned }),
    ...(cuts.length > 0 && { restores: cuts }),
    keys: keys.map(({ kid }) => kid),
    unknown_keys: strangers,
  };
}

function linesOf({ from, state, strangers, cuts }: Looked, { pinned, logKeys }: Believed): string[] {
  const lines = from.sequence === 0 ? rememberedLines(state, pinned) : [goneOnLine(from, state, cuts)];
  lines.push(...cuts.map((cut) => `  restored  ${cutText(cut)}`));
  // What was cut is no part of the tree that is there now.
  const growth = cutOver(cuts, from.sequence) === undefined ? growthBetween(from, state) : undefined;
  if (growth !== undefined)
    lines.push(
      `  tree      ${growth.second.tree_size} hashes; the first ${growth.first.tree_size} are those of root ${growth.first.sequence}`,
    );
  lines.push(...outsideLines(state, logKeys));
  if (strangers.length > 0) lines.push(`  not believed: ${strangers.join(', ')}; --keys FILE says which keys are right`);
  return lines;
}

/** What somebody outside says of roots, and what the watcher says of them as a witness. */
function outsideLines({ stamp, entered, cosigned }: WatchedChain, logKeys: WatchOptions['logKeys']): readonly string[] {
  const whose = logKeys === undefined ? `; ${NO_LOG_KEY}` : '';
  return [
    ...(stamp === undefined ? [] : [`  stamp     root ${stamp.sequence} was there at ${stamp.time}`]),
    ...(entered === undefined ? [] : [`  log       root ${entered.sequence} was entered at ${entered.time}${whose}`]),
    ...(cosigned === undefined ? [] : [`  cosigned  ${cosigned.tree_size} hashes of ${cosigned.origin}, root ${cosigned.sequence}`]),
  ];
}

function rememberedLines({ org_id: orgId, sequence, digest, keys }: WatchedChain, pinned: WatchOptions['pinned']): string[] {
  const names = keys.map(({ kid }) => kid).join(', ');
  return [
    `remembered  ${orgId}: ${sequence === 0 ? 'no root yet' : `roots 1 to ${sequence}, ${digest}`}`,
    `  keys      ${names === '' ? 'none' : names}, ${pinned === undefined ? 'trusted because they are listed' : 'from the file'}`,
  ];
}

function goneOnLine(from: WatchedChain, { org_id: orgId, sequence, digest }: WatchedChain, cuts: readonly CutSpan[]): string {
  if (cuts.length === 0) return `goes on     ${orgId}: root ${from.sequence} is what it was, ${sequence - from.sequence} more, ${digest}`;
  const before = cutOver(cuts, from.sequence) === undefined ? `root ${from.sequence} is what it was` : `root ${from.sequence} was cut`;
  return `goes on     ${orgId}: ${before}, up to root ${sequence}, ${digest}`;
}

/** A fork and a declared restore are told apart by their first word and by the exit code. */
function tellBroken(error: LedgerError, seen: WatchedChain | undefined, orgId: string, json: boolean, io: CliIo): number {
  const { sequence = 0, digest } = seen ?? {};
  const { message } = error;
  const cut = error instanceof RestoreFound ? error.cut : undefined;
  const facts = { sequence, ...(digest === undefined ? {} : { digest }), ...(cut && { restored: cut }), problems: [message] };
  if (json) printJson({ org_id: orgId, verified: false, ...facts }, io);
  else {
    const lines = [
      `${cut === undefined ? 'BROKEN' : 'RESTORED'}  ${orgId}: ${message}`,
      `  remembered  ${sequence === 0 ? 'no root' : `root ${sequence}, ${digest}`}`,
      ...(cut === undefined
        ? []
        : [
            `  then        ask whoever runs the control plane; if it is right, go on with --accept-restore ${cut.sequence}: what is remembered of the cut span is given up`,
          ]),
    ];
    io.stdout(`${lines.map(terminalText).join('\n')}\n`);
  }
  return cut === undefined ? EXIT_NO : EXIT_RESTORED;
}
