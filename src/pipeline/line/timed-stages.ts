import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { StageTime } from '../parts/call-services.ts';
import { Refusal } from '../parts/refusal.ts';
import { ANSWERED, EndedWith, JUDGE_AGAIN, type Stage, type StageEnd } from '../parts/stage.ts';
import { AGAIN, eachLine, STAGES } from './stages.ts';

/** {@link STAGES}, each of which tells how long it took; walked where somebody asks for that (`Pipeline.tellStage`). */
export const TIMED_STAGES = eachLine(STAGES, (stages) => stages.map(timed));

/** The same of {@link AGAIN}. */
export const TIMED_AGAIN = eachLine(AGAIN, (stages) => stages.map(timed));

/** The same stage, with its time told. It ends as the stage itself ends, and waits only where the stage waits. */
export function timed(stage: Stage): Stage {
  return {
    ...stage,
    run(parts, pipeline, control) {
      const { clock, tellStage } = pipeline;
      const startedAt = clock.monotonic();
      const tell = (ended: Ended): void => {
        const microseconds = Math.round((clock.monotonic() - startedAt) * 1000);
        const { recordId, line } = parts.arrival;
        tellStage?.({ recordId, line, stage: stage.name, microseconds, ...ended });
      };
      const failed = (error: unknown): never => {
        tell({ ended: codeOf(error) });
        throw error;
      };
      const done = (end: StageEnd): StageEnd => {
        tell(endedOf(end));
        return end;
      };
      let result: StageEnd | Promise<StageEnd>;
      try {
        result = stage.run(parts, pipeline, control);
      } catch (error) {
        return failed(error);
      }
      return result instanceof Promise ? result.then(done, failed) : done(result);
    },
  };
}

type Ended = Pick<StageTime, 'ended' | 'reasonCodes'>;

/** Codes and decisions alone: what a refusal says in words may name what the caller sent. */
function endedOf(end: StageEnd): Ended {
  if (end === ANSWERED) return { ended: 'answered' };
  if (end === JUDGE_AGAIN) return { ended: 'again' };
  const why = end instanceof EndedWith ? end.end : end;
  if (why instanceof Refusal) return { ended: why.decision, reasonCodes: why.reasonCodes };
  return { ended: why instanceof GatewayError ? why.code : 'next' };
}

function codeOf(error: unknown): string {
  return error instanceof GatewayError ? error.code : 'internal';
}
