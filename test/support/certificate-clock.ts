import { type Clock, systemClock } from '../../src/base/lib/clock.ts';

/**
 * That of the machine, for what makes certificates and nothing else: who verifies one, OpenSSL inside Node or another
 * program, asks the machine what time it is. A test that compares something with it reads the real clock.
 */
export const certificateClock: Clock = systemClock;
