import type { Door } from './exchange.ts';
import type { Stage } from './stage.ts';
import { admit } from './stages/admit.ts';
import { arrive } from './stages/arrive.ts';
import { askForUsage } from './stages/ask-for-usage.ts';
import { attributionEffects, defaultAttribution } from './stages/attribution.ts';
import { authenticate, knock } from './stages/authenticate.ts';
import { caps } from './stages/caps.ts';
import { checkAgain } from './stages/check-again.ts';
import { connectorAndCredential } from './stages/connector-and-credential.ts';
import { inject } from './stages/credential.ts';
import { decidePolicy } from './stages/decide.ts';
import { delegation } from './stages/delegation.ts';
import { estimate } from './stages/estimate.ts';
import { forward } from './stages/forward.ts';
import { imposed } from './stages/imposed.ts';
import { keepSignature } from './stages/keep-signature.ts';
import { meter } from './stages/meter.ts';
import { monthlyLimit } from './stages/monthly-limit.ts';
import { mutate } from './stages/mutate.ts';
import { normalise } from './stages/normalise.ts';
import { org } from './stages/org.ts';
import { rate } from './stages/rate.ts';
import { read } from './stages/read.ts';
import { replay } from './stages/replay.ts';
import { reserve } from './stages/reserve.ts';
import { resolve } from './stages/resolve.ts';
import { stayOnSocket } from './stages/stay-on-socket.ts';
import { workload } from './stages/workload.ts';

/** Who is calling: asked from the head alone on the proxied doors, so that no body is read for a stranger (decision 3.15). */
const WHO: readonly Stage[] = [authenticate, org, workload];
/** From here on a request is the same whichever door it came by. */
const JUDGE: readonly Stage[] = [
  delegation,
  replay,
  monthlyLimit,
  defaultAttribution,
  resolve,
  estimate,
  decidePolicy,
  attributionEffects,
  connectorAndCredential,
  mutate,
  checkAgain,
];
const CALL: readonly Stage[] = [inject, keepSignature, caps, rate, reserve, askForUsage, forward, meter];

/**
 * The life of a request, in order (decision 4.6). After the last stage, and after any stage that ended the line, the runner does the rest for every
 * request: settlements → record → **commit** → last byte → publish.
 */
export const STAGES: Readonly<Record<Door, readonly Stage[]>> = {
  proxied: [admit, arrive, imposed, ...WHO, read, normalise, ...JUDGE, ...CALL],
  /** The structured API says who is calling in its body; only whether it is a stranger stands in the head. */
  direct: [admit, arrive, knock, read, normalise, ...WHO, ...JUDGE, ...CALL],
  /** A CONNECT without interception has a head only; what it lets through is a tunnel, not a call. */
  tunnel: [admit, arrive, imposed, ...WHO, ...JUDGE],
  /** What is let through goes out as an event of its socket, and is closed when the server has reported its end. */
  socket: [admit, arrive, ...WHO, normalise, ...JUDGE, stayOnSocket, caps, rate, reserve],
};
