import type { JSX } from 'preact';
import { WORDS } from '../words.ts';
import { Badge } from './badge.tsx';

interface Look {
  readonly tone: string;
  readonly sign: string;
  readonly word: string;
}

const D = WORDS.decisions;
/** Each decision has a colour and a sign, so that nothing is told by colour alone. */
const LOOKS: Readonly<Record<string, Look>> = {
  allow: { tone: 'allow', sign: '✓', word: D.allow },
  downgrade: { tone: 'downgrade', sign: '↓', word: D.downgrade },
  rate_limit: { tone: 'rate', sign: '‖', word: D.rate_limit },
  require_approval: { tone: 'wait', sign: '?', word: D.require_approval },
  require_attribution: { tone: 'wait', sign: '?', word: D.require_attribution },
  deny: { tone: 'deny', sign: '✕', word: D.deny },
  quarantine: { tone: 'quarantine', sign: '⊘', word: D.quarantine },
  error: { tone: 'error', sign: '!', word: D.error },
  pending: { tone: 'wait', sign: '?', word: D.pending },
  approved: { tone: 'allow', sign: '✓', word: D.approved },
  denied: { tone: 'deny', sign: '✕', word: D.denied },
  expired: { tone: 'error', sign: '!', word: D.expired },
  withdrawn: { tone: 'error', sign: '!', word: D.withdrawn },
};

export function toneOf(decision: string): string {
  return LOOKS[decision]?.tone ?? 'error';
}

/** What was decided. @param words in the place of its name, such as the time that is left */
export function Decision({ of, words }: { readonly of: string; readonly words?: string }): JSX.Element {
  const { tone, sign, word } = LOOKS[of] ?? { tone: 'error', sign: '·', word: of };
  return (
    <Badge tone={tone} sign={sign}>
      {words ?? word}
    </Badge>
  );
}
