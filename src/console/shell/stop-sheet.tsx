import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { type AskRefusal, ask, refusalFrom } from '../kit/ask.ts';
import { gatewayNow } from '../kit/gateway-time.ts';
import { ago } from '../kit/shown-values.ts';
import { useAsk } from '../kit/use-ask.ts';
import { Options } from '../pieces/options.tsx';
import { Sheet } from '../pieces/sheet.tsx';
import { Problem } from '../pieces/states.tsx';
import { WORDS } from '../words.ts';

const W = WORDS.stop;
type Scope = keyof typeof W.scopes;
const MINUTE_MS = 60_000;

/** Ends what is under way now, and says how to go on. */
export function StopSheet({ close }: { readonly close: () => void }): JSX.Element {
  const [scope, setScope] = useState<Scope>('all');
  const [refusal, setRefusal] = useState<AskRefusal>();
  const stops = useAsk('GET /mgmt/v1/stops', {});
  const tried = async (does: () => Promise<unknown>): Promise<boolean> => {
    try {
      await does();
      setRefusal(undefined);
      stops.again();
      return true;
    } catch (error) {
      setRefusal(refusalFrom(error));
      return false;
    }
  };
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const given = Object.fromEntries(new FormData(form)) as Readonly<Record<string, string>>;
    const minutes = Number(given['until'] ?? '');
    const stopped = await tried(() =>
      ask('POST /mgmt/v1/stop', {
        body: {
          scope: scope === 'all' ? {} : { [scope]: given['name']?.trim() ?? '' },
          reason: given['reason']?.trim() ?? '',
          // The pattern of the field lets nothing else through.
          confirm: 'stop',
          ...(minutes > 0 ? { until: new Date(gatewayNow() + minutes * MINUTE_MS).toISOString() } : {}),
        },
      }),
    );
    if (stopped) form.reset();
  };
  return (
    <Sheet title={W.title} close={close}>
      <form class="form" onSubmit={submit}>
        {refusal && <Problem refusal={refusal} />}
        {stops.answer?.data.map((stop) => (
          <div class="problem" key={stop.stop_id}>
            <div>
              <strong>{W.holds(scopeText(stop.scope))}</strong> {stop.reason}
              <div class="note">{W.by(stop.created_by, ago(stop.created_at))}</div>
            </div>
            <button
              type="button"
              class="btn"
              onClick={() => void tried(() => ask('POST /mgmt/v1/resume', { body: { stop_id: stop.stop_id } }))}
            >
              {W.resume}
            </button>
          </div>
        ))}
        <p class="note">{W.what}</p>
        <label>
          {W.scope}
          <select class="field" value={scope} onChange={(event) => setScope(event.currentTarget.value as Scope)}>
            <Options of={W.scopes} />
          </select>
        </label>
        {scope !== 'all' && (
          <label>
            {W.name}
            <input class="field" name="name" required spellcheck={false} />
          </label>
        )}
        <label>
          {W.reason}
          <input class="field" name="reason" required maxLength={256} />
        </label>
        <label>
          {W.until}
          <select class="field" name="until">
            <Options of={W.untils} />
          </select>
        </label>
        <label>
          {W.confirm}
          <input class="field" name="confirm" required pattern="stop" autocomplete="off" spellcheck={false} />
        </label>
        <div class="actions">
          <button type="button" class="btn" onClick={close}>
            {WORDS.cancel}
          </button>
          <button type="submit" class="btn primary danger">
            {W.go}
          </button>
        </div>
      </form>
    </Sheet>
  );
}

/** No name: all of the org, or all orgs. */
function scopeText(scope: Readonly<Record<string, string | undefined>>): string {
  const parts = Object.entries(scope).map(([kind, name]) => `${kind} ${name}`);
  return parts.length === 0 ? W.scopes.all : parts.join(', ');
}
