/*
 * The page on which somebody says that an account in a chat is his. All that it shows is set as text; the key and the
 * code of the link are kept in variables and nowhere else (decision 11.4).
 */
/** What is written out: the pattern of every face of the gateway (src/base/lib/shown-text.ts), which puts it here. */
const PATTERN = '/* unseen */';
const UNSEEN = new RegExp(PATTERN, 'gu');
const MEANINGS = new Map([
  ['unauthorized', 'The gateway does not take this key. It may be mistyped, expired or revoked, or is no management key.'],
  ['insufficient_scope', 'This key decides no approvals, so no button can decide as it does.'],
  ['not_found', 'Nothing was changed.'],
  ['too_many_attempts', 'There were too many tries. Wait a little, then try again.'],
]);

const part = (id) => document.getElementById(id);
const user = lastOf(location.pathname);
let code = location.hash.slice(1);
let key = '';
let isBusy = false;

// Who looks over a shoulder, or at the history of the browser, finds no code.
history.replaceState(null, '', location.pathname);
part('key-form').addEventListener('submit', (event) => {
  event.preventDefault();
  key = part('key').value.trim();
  void alone('Asking the gateway…', show);
});
part('account').addEventListener('submit', (event) => {
  event.preventDefault();
  void alone('Binding…', bind);
});
// A browser may keep the page as it is and show it again to whoever goes back.
addEventListener('pagehide', forget);

function lastOf(path) {
  try {
    return decodeURIComponent(path.split('/').at(-1) ?? '');
  } catch {
    return '';
  }
}

/** One thing at a time, so that a second click does nothing again. */
async function alone(doing, work) {
  if (isBusy) return;
  isBusy = true;
  part('problem').textContent = '';
  part('progress').textContent = doing;
  try {
    await work();
  } catch (error) {
    part('problem').textContent = error instanceof Problem ? error.message : 'This page has failed. Nothing is known to be bound.';
  } finally {
    part('progress').textContent = '';
    isBusy = false;
  }
}

async function show() {
  part('account').hidden = true;
  const { chat_user: person, key_name: name } = await ask(false);
  fill([
    ['Chat', person.platform],
    ['Workspace', person.team_name === undefined ? person.team_id : `${person.team_name} (${person.team_id})`],
    ['User', person.name === undefined ? person.user_id : `${person.name} (${person.user_id})`],
    ['Decides as the key', name],
  ]);
  part('key').value = '';
  part('account').hidden = false;
  part('account-title').focus();
}

async function bind() {
  const { key_name: name } = await ask(true);
  part('account').hidden = true;
  part('outcome-text').textContent = seen(`Press the button in the chat again: it now decides as the key ${name}.`);
  part('outcome').hidden = false;
  part('outcome-title').focus();
}

/** Asks the management API. @throws Problem in words */
async function ask(confirm) {
  let answer;
  let said;
  try {
    answer = await fetch(`/mgmt/v1/chat-users/${encodeURIComponent(user)}/bind`, {
      method: 'POST',
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ code, confirm }),
    });
    said = await answer.json();
  } catch (error) {
    throw new Problem('The gateway could not be asked. Is the key complete, and can the gateway be reached?', { cause: error });
  }
  if (answer.ok) return said;
  const { code: why = '', message = '' } = said?.error ?? {};
  const meaning = MEANINGS.get(why) ?? `The gateway has refused this (${answer.status}).`;
  throw new Problem(`${meaning} ${message === '' ? '' : `It says: ${message}`}`);
}

class Problem extends Error {
  constructor(words, { cause } = {}) {
    super(seen(words.trim()), { cause });
  }
}

function fill(rows) {
  part('facts').replaceChildren(...rows.flatMap(([name, value]) => [textIn('dt', name), textIn('dd', value)]));
}

function textIn(tag, text) {
  const element = document.createElement(tag);
  element.textContent = seen(text);
  return element;
}

/**
 * Nothing in a text that others chose hides, acts on what stands beside it, or looks like a sign that was written out.
 */
function seen(text) {
  return String(text).replace(UNSEEN, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);
}

function forget() {
  key = '';
  code = '';
  part('key').value = '';
  part('facts').replaceChildren();
  part('account').hidden = true;
}
