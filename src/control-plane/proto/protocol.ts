import { join } from 'node:path';
import type { ServiceDefinition } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { packageRoot } from '../../base/lib/package-root.ts';
import { CONTROL_PLANE_BOUNDS } from '../../base/model/control-plane-bounds.ts';
import type { ControlPlaneCalls, EnrolmentCalls } from './messages.ts';

/** The largest message that either side takes, bytes. */
export const MAX_MESSAGE_BYTES = CONTROL_PLANE_BOUNDS.largeMessages.one;
const PACKAGE = 'gw.control_plane.v1';

/** A service of the protocol with the messages of its calls. */
export interface ProtocolService<Calls> {
  readonly definition: ServiceDefinition;
  /** Only for the type. */
  readonly calls?: Calls;
}

export interface Protocol {
  readonly enrolment: ProtocolService<EnrolmentCalls>;
  readonly controlPlane: ProtocolService<ControlPlaneCalls>;
}

/** Reads control-plane.proto. Messages are as messages.ts has them: every member is there, 64 bits are texts. */
export function loadProtocol(): Protocol {
  const file = join(packageRoot(), 'src', 'control-plane', 'proto', 'control-plane.proto');
  const loaded = loadSync(file, { keepCase: true, longs: String, defaults: true });
  const service = (name: string): ServiceDefinition => {
    const found = loaded[`${PACKAGE}.${name}`];
    if (found === undefined || 'format' in found) throw new TypeError(`control-plane.proto has no service ${name}`);
    return found;
  };
  return { enrolment: { definition: service('Enrolment') }, controlPlane: { definition: service('ControlPlane') } };
}
