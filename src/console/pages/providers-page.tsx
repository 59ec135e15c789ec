import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { ask, type Item } from '../kit/ask.ts';
import { chosenOf, hrefOf, place } from '../kit/place.ts';
import { may } from '../kit/session.ts';
import { useAsk } from '../kit/use-ask.ts';
import { Badge } from '../pieces/badge.tsx';
import { PresetChips } from '../pieces/preset-chips.tsx';
import { Empty, Problem, Skeleton } from '../pieces/states.tsx';
import { Sure } from '../pieces/sure.tsx';
import { TableHead, UNSEEN_HEADING } from '../pieces/table-head.tsx';
import { WORDS } from '../words.ts';

const W = WORDS.providers;
const C = W.columns;
const ROWS = 500;
type Addon = Item<'GET /mgmt/v1/providers'>;
type Credential = Item<'GET /mgmt/v1/credentials'>;
type Preset = keyof typeof W.presets;

/** A provider with all that concerns it. */
interface Provider {
  readonly id: string;
  readonly name: string;
  readonly docs: string | null;
  /** Whether calls go there. */
  readonly isOn: boolean;
  /** Whether its last call went well; undefined: it is not known. */
  readonly isHealthy: boolean | undefined;
  readonly credentials: readonly Credential[];
  /** Whether callers may bring keys of their own; undefined: it takes none. */
  readonly byok: boolean | undefined;
  /** Whether what callers got by signing in goes ahead; undefined: nobody signs in there. */
  readonly oauth: boolean | undefined;
}

/** Does each provider answer, and whose key do its calls carry? */
export function ProvidersPage(): JSX.Element {
  const [switched, setSwitched] = useState<Provider>();
  const preset = chosenOf(place.value.query.get('show'), W.presets, 'all');
  const addons = useAsk('GET /mgmt/v1/providers', {});
  const credentials = useAsk('GET /mgmt/v1/credentials', { query: { limit: ROWS } });
  const health = useAsk('GET /mgmt/v1/health', {});
  const refusal = addons.refusal ?? credentials.refusal ?? health.refusal;
  const again = (): void => {
    addons.again();
    credentials.again();
    health.again();
  };
  const all =
    addons.answer && credentials.answer && health.answer
      ? providersOf(addons.answer.data, credentials.answer.data, health.answer.connectors)
      : undefined;
  const shown = all?.filter(FITS[preset]).toSorted(byWorth);
  const close = (): void => setSwitched(undefined);
  return (
    <>
      <div class="top">
        <h1>{W.title}</h1>
        <p>{all && W.sub(all.filter(({ isHealthy }) => isHealthy === false).length)}</p>
      </div>
      <PresetChips name="show" chosen={preset} of={W.presets} />
      {refusal && <Problem refusal={refusal} again={again} />}
      <section class="card" aria-label={W.title}>
        {!shown && !refusal && <Skeleton rows={12} />}
        {shown?.length === 0 && (
          <Empty title={W.none[preset]}>
            {preset === 'credential' && (
              <>
                {W.noneHint}
                <pre>{W.noneCommand}</pre>
              </>
            )}
          </Empty>
        )}
        {shown && shown.length > 0 && <Providers providers={shown} turn={setSwitched} />}
      </section>
      {switched && (
        <Sure
          title={switched.isOn ? W.offTitle(switched.name, switched.id) : W.onTitle(switched.name, switched.id)}
          hint={switched.isOn ? W.offHint(switched.name) : W.onHint(switched.name)}
          word={switched.isOn ? W.turnOff : W.turnOn}
          isDanger={switched.isOn}
          does={() => turn(switched)}
          done={() => {
            close();
            addons.again();
          }}
          close={close}
        />
      )}
    </>
  );
}

function turn({ id, isOn }: Provider): Promise<unknown> {
  const params = { provider: id, mode: 'routing', state: isOn ? 'disable' : 'enable' } as const;
  return ask('POST /mgmt/v1/providers/{provider}/{mode}/{state}', { params });
}

const FITS: Readonly<Record<Preset, (provider: Provider) => boolean>> = {
  all: () => true,
  credential: ({ credentials }) => credentials.length > 0,
  off: ({ isOn }) => !isOn,
  failing: ({ isHealthy }) => isHealthy === false,
};

/** What fails first, then what is off, then what has a credential; of alike ones the order of the catalogue. */
function byWorth(a: Provider, b: Provider): number {
  return worthOf(a) - worthOf(b);
}

function worthOf({ isHealthy, isOn, credentials }: Provider): number {
  if (isHealthy === false) return 0;
  if (!isOn) return 1;
  return credentials.length > 0 ? 2 : 3;
}

function providersOf(
  addons: readonly Addon[],
  credentials: readonly Credential[],
  connectors: readonly { readonly id: string; readonly healthy: boolean }[],
): readonly Provider[] {
  const mode = (name: string, id: string): boolean | undefined =>
    addons.find(({ addon_id: addon }) => addon === `credential-${name}-${id}`)?.enabled;
  return addons
    .filter(({ kind }) => kind === 'provider_integration')
    .map(({ provider: id = '', display_name: name, enabled, docs_url: docs }) => ({
      id,
      name,
      docs,
      isOn: enabled,
      isHealthy: connectors.find((connector) => connector.id === id)?.healthy,
      credentials: credentials.filter(({ provider, type }) => provider === id && type === 'ai_provider'),
      byok: mode('byok', id),
      oauth: mode('oauth', id),
    }));
}

interface ProvidersFacts {
  readonly providers: readonly Provider[];
  readonly turn: (provider: Provider) => void;
}

function Providers({ providers, turn }: ProvidersFacts): JSX.Element {
  return (
    <table class="wrapped">
      <TableHead
        caption={W.caption}
        columns={[C.provider, [C.answers, 'hide-s'], [C.keys, 'hide-s'], C.calls, may('write') && [C.turn, UNSEEN_HEADING]]}
      />
      <tbody>
        {providers.map((provider) => (
          <tr key={provider.id}>
            <th scope="row">
              <a href={hrefOf('calls', { range: '30d', provider: provider.id })}>{provider.name}</a>
              <div class="note mono">{provider.id}</div>
            </th>
            <td class="hide-s">
              <Answers provider={provider} />
            </td>
            <td class="hide-s fill">
              <Keys provider={provider} />
            </td>
            <td>
              <Badge tone={provider.isOn ? 'allow' : 'deny'} sign={provider.isOn ? '✓' : '✕'}>
                {provider.isOn ? W.on : W.off}
              </Badge>
              {provider.isHealthy === false && (
                <div class="only-phone">
                  <Answers provider={provider} />
                </div>
              )}
            </td>
            {may('write') && (
              <td class="num">
                <button
                  type="button"
                  class={provider.isOn ? 'btn quiet' : 'btn'}
                  aria-label={provider.isOn ? W.offTitle(provider.name, provider.id) : W.onTitle(provider.name, provider.id)}
                  onClick={() => turn(provider)}
                >
                  {provider.isOn ? W.turnOff : W.turnOn}
                </button>
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Answers({ provider: { id, isHealthy } }: { readonly provider: Provider }): JSX.Element {
  if (isHealthy === undefined) return <span class="sec">{WORDS.none}</span>;
  if (isHealthy)
    return (
      <Badge tone="allow" sign="✓">
        {W.answers}
      </Badge>
    );
  return (
    <a href={hrefOf('calls', { provider: id, decision: 'error' })}>
      <Badge tone="deny" sign="✕">
        {W.fails}
      </Badge>
    </a>
  );
}

/** Whose key a call carries there: stored ones by their names, and what callers may bring. */
function Keys({ provider: { credentials, byok, oauth } }: { readonly provider: Provider }): JSX.Element {
  const brought = [byok ? W.byok : undefined, oauth ? W.oauth : undefined].filter((word) => word !== undefined);
  return (
    <>
      {credentials.map(({ id, name, secret_source: source, mode }) => (
        <div key={id}>
          <span class="mono">{name ?? id}</span> <span class="note">{mode === 'byok' ? W.ofCallers : W.sources[source]}</span>
        </div>
      ))}
      {brought.length > 0 ? (
        <span class="sec">{brought.join(', ')}</span>
      ) : (
        credentials.length === 0 && (
          <Badge tone="wait" sign="!">
            {W.noKey}
          </Badge>
        )
      )}
    </>
  );
}
