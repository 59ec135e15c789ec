import type { JSX } from 'preact';
import { Sheet } from '../pieces/sheet.tsx';
import { WORDS } from '../words.ts';

export function Help({ close }: { readonly close: () => void }): JSX.Element {
  return (
    <Sheet title={WORDS.help.title} close={close}>
      <div class="body">
        <dl class="kv">
          {WORDS.help.rows.map(([keys, what]) => (
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
