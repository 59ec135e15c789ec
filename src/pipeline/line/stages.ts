import type { LineName } from '../parts/line-name.ts';
import type { PartName } from '../parts/parts.ts';
import type { Stage } from '../parts/stage.ts';
import { admit, aim, identify } from '../stages/arrive.ts';
import { authenticate, authenticateEnvelope, caller, knock, quarantine } from '../stages/authenticate.ts';
import { approval } from '../stages/await-approval.ts';
import { caps } from '../stages/caps.ts';
import { decidePolicy } from '../stages/decide.ts';
import { delegation } from '../stages/delegation.ts';
import { forward } from '../stages/forward.ts';
import { inject } from '../stages/inject.ts';
import { meter } from '../stages/meter.ts';
import { monthlyLimit } from '../stages/monthly-limit.ts';
import { normalise, normaliseEvent, normaliseTunnel, openEnvelope } from '../stages/normalise.ts';
import { read, readEnvelope } from '../stages/read.ts';
import { refuseStopped, refuseStoppedPlace } from '../stages/refuse-stopped.ts';
import { replay } from '../stages/replay.ts';
import { reserve } from '../stages/reserve.ts';
import { resolve } from '../stages/resolve.ts';
import { settle } from '../stages/settle.ts';
import { spend } from '../stages/spend.ts';
import { stayOnSocket } from '../stages/stay-on-socket.ts';

/** From here on a request is the same whichever door it came by. */
const JUDGE: readonly Stage[] = [
  refuseStopped,
  quarantine,
  delegation,
  resolve,
  replay,
  monthlyLimit,
  decidePolicy,
  settle,
  refuseStoppedPlace,
];
const CALL: readonly Stage[] = [inject, caps, approval, reserve, spend, forward, meter];
type Lines = Readonly<Record<LineName, readonly Stage[]>>;

/** What is known before the first stage. */
const GIVEN: readonly PartName[] = ['arrival'];

/**
 * The life of a request, in order (decision 4.6). After the last stage, and after any stage that ended the line, the
 * runner does the rest for every request: settlements → record → **commit** → last byte → publish.
 */
export const STAGES: Lines = {
  /** Who is calling is asked from the head alone, so that no body is read for a stranger (decision 3.15). */
  proxied: inOrder([admit, identify, aim, authenticate, caller, read, normalise, ...JUDGE, ...CALL]),
  /** The structured API says who is calling in its body; only whether it is a stranger stands in the head. */
  direct: inOrder([admit, knock, readEnvelope, openEnvelope, authenticateEnvelope, caller, ...JUDGE, ...CALL]),
  /** A CONNECT without interception has a head only; what it lets through is a tunnel, not a call. */
  tunnel: inOrder([admit, identify, aim, authenticate, caller, normaliseTunnel, ...JUDGE, approval, spend]),
  /** What is let through goes out as an event of its socket, and is closed when the server has reported its end. */
  socket: inOrder([admit, identify, aim, authenticate, caller, normaliseEvent, ...JUDGE, stayOnSocket, caps, approval, reserve, spend]),
};

/**
 * What is done once, whatever becomes of the call: reading it, asking who sent it, counting it, looking for its answer.
 */
const ONCE: ReadonlySet<Stage> = new Set([
  ...[admit, identify, aim, authenticate, knock, readEnvelope, openEnvelope, authenticateEnvelope],
  ...[read, normalise, normaliseTunnel, normaliseEvent, replay, monthlyLimit],
]);

/** What a call walks that is judged once more (`JUDGE_AGAIN`). */
export const AGAIN = eachLine(STAGES, (stages) => stages.filter((stage) => !ONCE.has(stage)));

/** Makes a line of each of these. */
export function eachLine(lines: Lines, make: (stages: readonly Stage[]) => readonly Stage[]): Lines {
  const { proxied, direct, tunnel, socket } = lines;
  return { proxied: make(proxied), direct: make(direct), tunnel: make(tunnel), socket: make(socket) };
}

/** A line. @throws Error for a stage that reads what none before it has made, or makes what another has */
export function inOrder(stages: readonly Stage[]): readonly Stage[] {
  const made = new Set<PartName>(GIVEN);
  for (const { name, reads, makes } of stages) {
    const missing = reads.filter((part) => !made.has(part));
    const twice = makes.filter((part) => made.has(part));
    if (missing.length > 0) throw new Error(`the stage "${name}" reads ${missing.join(', ')}, which no stage before it makes`);
    if (twice.length > 0) throw new Error(`the stage "${name}" makes ${twice.join(', ')}, which a stage before it has made`);
    for (const part of makes) made.add(part);
  }
  return stages;
}
