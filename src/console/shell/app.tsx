import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useKeys } from '../kit/keyboard.ts';
import { go, hrefOf, place } from '../kit/place.ts';
import { session } from '../kit/session.ts';
import { Empty } from '../pieces/states.tsx';
import { WORDS } from '../words.ts';
import { Head } from './head.tsx';
import { Help } from './help.tsx';
import { pageAt, pagesToSee } from './page-table.tsx';
import { Side } from './side.tsx';
import { SignIn } from './sign-in.tsx';

export function App(): JSX.Element | null {
  const who = session.value;
  if (who === undefined) return null;
  return who === null ? <SignIn /> : <Frame key={who.id} />;
}

function Frame(): JSX.Element {
  const [helps, setHelps] = useState(false);
  const found = pageAt(place.value.page);
  useEffect(() => {
    document.title = `${found?.title ?? WORDS.product} · ${WORDS.product}`;
  }, [found]);
  useKeys({
    ...Object.fromEntries(pagesToSee().map(({ key, segment }) => [`g ${key}`, () => go(hrefOf(segment))])),
    '?': () => setHelps(true),
  });
  const Page = found?.page;
  return (
    <>
      <a class="skip" href="#main">
        {WORDS.skip}
      </a>
      <div class="app">
        <Side />
        <Head />
        <main class="main" id="main" tabIndex={-1}>
          {Page === undefined ? <Empty title={WORDS.nav.notFound} /> : <Page />}
        </main>
      </div>
      {helps && <Help close={() => setHelps(false)} />}
    </>
  );
}
