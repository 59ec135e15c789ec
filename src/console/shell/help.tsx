import type { JSX } from 'preact';
import { Sheet } from '../pieces/sheet.tsx';
import { WORDS } from '../words.ts';
import { pagesToSee } from './page-table.tsx';

export function Help({ close }: { readonly close: () => void }): JSX.Element {
  const rows = [...pagesToSee().map(({ key, title }) => [`g ${key}`, title] as const), ...WORDS.help.rows];
  return (
    <Sheet title={WORDS.help.title} close={close}>
      <div class="body">
        <dl class="kv">
          {rows.map(([keys, what]) => (
            <>
              <dt key={keys}>
                {keys.split(' ').map((key) => (
                  <>
                    <span class="key" key={key}>
                      {key}
                    </span>{' '}
                  </>
                ))}
              </dt>
              <dd key={what}>{what}</dd>
            </>
          ))}
        </dl>
        <form method="dialog" class="actions">
          <button type="submit" class="btn">
            {WORDS.call.close}
          </button>
        </form>
      </div>
    </Sheet>
  );
}
