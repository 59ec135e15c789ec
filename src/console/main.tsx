import { effect } from '@preact/signals';
import { render } from 'preact';
import { sessionOver } from './kit/ask.ts';
import { listenToKeys } from './kit/keyboard.ts';
import { followLinks } from './kit/place.ts';
import { findSession, seeOtherTabs, session } from './kit/session.ts';
import { App } from './shell/app.tsx';

followLinks();
listenToKeys();
effect(() => {
  if (sessionOver.value > 0) session.value = null;
});
void findSession();
document.addEventListener('visibilitychange', () => void seeOtherTabs());
const place = document.getElementById('app');
if (place !== null) render(<App />, place);
