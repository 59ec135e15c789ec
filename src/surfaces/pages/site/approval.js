/*
 * The page of one approval. All that it shows is set as text; the key is kept in a variable and nowhere else (decision
 * 11.4).
 */
const APPROVALS = '/mgmt/v1/approvals';
/** What is written out: the pattern of every face of the gateway (src/base/lib/shown-text.ts), which puts it here. */
const PATTERN = '/* unseen */';
const UNSEEN = new RegExp(PATTERN, 'gu');
/** What the codes of errors mean to who decides; the gateway's own words follow. */
const MEANINGS = new Map([
  ['unauthorized', 'The gateway does not take this key. It may be mistyped, expired or revoked, or is no management key.'],
  ['insufficient_scope', 'This key may not do that. A key that only reads shows requests; a decision needs one with the scope write.'],
  ['not_found', 'The org of this key has no such approval.'],
  ['conflict', 'Nothing was changed by you: somebody was first, or the time is over.'],
  ['not_in_group', 'Others are asked about this: the rule names a group that this key is not in.'],
  ['own_request', 'Nobody decides about what his own key has asked for.'],
  ['too_many_attempts', 'There were too many tries. Wait a little, then try again.'],
]);

const part = (id) => document.getElementById(id);
const id = approvalId();
let key = '';
let isBusy = false;
/** Calls that wait for the decision on their open connections. */
let held;
let countdown;

part('approval-id').textContent = seen(id);
part('key-form').addEventListener('submit', (event) => {
  event.preventDefault();
  key = part('key').value.trim();
  void alone('Reading the request…', show);
});
part('decision').addEventListener('submit', (event) => event.preventDefault());
part('approve').addEventListener('click', () => void alone('Approving…', () => decide('approve')));
part('deny').addEventListener('click', () => void alone('Denying…', () => decide('deny')));
// A browser may keep the page as it is and show it again to whoever goes back.
addEventListener('pagehide', forget);

function approvalId() {
  try {
    return decodeURIComponent(location.pathname.split('/').at(-1) ?? '');
  } catch {
    return '';
  }
}

/** One thing at a time, so that a second click decides nothing again. */
async function alone(doing, work) {
  if (isBusy) return;
  isBusy = true;
  part('problem').textContent = '';
  part('progress').textContent = doing;
  try {
    await work();
  } catch (error) {
    part('problem').textContent = error instanceof Problem ? error.message : 'This page has failed. Use the commands of the alert.';
    part('problem').scrollIntoView({ block: 'nearest' });
  } finally {
    part('progress').textContent = '';
    isBusy = false;
  }
}

async function show() {
  hide('request', 'decision', 'outcome');
  const approval = await read();
  present(approval);
  reveal('request');
  part('key').value = '';
  part('request-title').focus();
}

/** The approval of the page. The list with its id alone: one of another org is not in it. */
async function read() {
  const { data } = await ask('GET', `${APPROVALS}?approval_id=${encodeURIComponent(id)}`);
  if (data.length === 0) throw new Problem('The org of this key has no such approval.');
  return data[0];
}

async function decide(verb) {
  const reason = part('reason').value.trim();
  try {
    const decided = await ask('POST', `${APPROVALS}/${encodeURIComponent(id)}/${verb}`, reason === '' ? {} : { reason });
    const wasHeld = held !== undefined && decided.status === 'approved';
    present(decided);
    tell(...outcomeOf(decided, wasHeld));
  } catch (error) {
    if (error instanceof Problem && error.code === 'conflict') await refresh();
    throw error;
  }
}

/** Of a decision, in a word and a sentence. */
function outcomeOf({ status, expires_at: end }, wasHeld) {
  if (status === 'pending') return ['You have approved it', 'Somebody else has to say yes as well. A no of anybody ends it.'];
  if (status === 'denied') return ['Denied', 'The same request is refused from now on, with your reason.'];
  if (wasHeld) return ['Approved', 'The waiting request is being sent now.'];
  return ['Approved', `The request is executed once, when it is sent again before ${when(end)}.`];
}

/** What became of it meanwhile. */
async function refresh() {
  try {
    present(await read());
    part('request-title').focus();
  } catch {
    // What is told is why nothing was decided.
  }
}

function present(approval) {
  held = approval.held;
  part('state').textContent = stateOf(approval);
  count();
  const { action } = approval;
  fill([
    ['Reason', approval.reason],
    ['Workload', approval.workload_id],
    ['Caller', approval.caller_id],
    ['Address', approval.caller_ip],
    ['API key', approval.api_key_id],
    ['Delegation', approval.delegation_id],
    ['Delegated to', approval.principal_id],
    ['What', action.type],
    ['Connector', action.connector_id],
    ['Host', action.target_origin ?? action.target_host],
    ['Method and path', `${action.method} ${action.target_path}`],
    ['Model', action.model],
    ['Streamed', action.stream ? 'yes' : 'no'],
    ['Estimated cost', approval.estimated_cost_usd === undefined ? 'not known' : `$${approval.estimated_cost_usd}`],
    ['Credential', approval.credential_id ?? "the caller's own key, or none"],
    ['A yes', approval.on_approval],
    ['Rules', approval.rule_ids.join(', ')],
    ...chargedTo(approval.attribution),
    ['Sizes of params', sizesOf(action.param_sizes)],
    ['Asked are', needsOf(approval.needs)],
    ['Said so far', saidOf(approval.decisions)],
    ['Asked at', when(approval.created_at)],
    ['Expires at', when(approval.expires_at)],
    ['Org', approval.org_id],
    ['Record', approval.record_id],
    ['Action hash', approval.action_hash],
  ]);
  const isKept = action.params !== undefined;
  part('params').value = isKept ? seenJson(action.params) : '';
  part('content').hidden = !isKept;
  part('decision').hidden = approval.status !== 'pending';
}

function stateOf({
  status,
  decided_by: by,
  decided_by_note: note,
  decided_at: at,
  decision_reason: reason,
  expires_at: end,
  executed_at: ran,
}) {
  if (status === 'pending') return `It waits until ${when(end)} for somebody to approve or deny it.`;
  if (status === 'withdrawn') return 'Its caller has left before it was decided. Nobody is asked any more.';
  if (status === 'expired') return `It has expired at ${when(end)}. Nothing can be decided any more.`;
  const why = reason === undefined ? '' : ` Reason: ${reason}.`;
  const use = ran === undefined ? '' : ` It was executed at ${when(ran)}.`;
  return seen(`It was ${status} by ${by}${note === undefined ? '' : ` (for ${note})`} at ${when(at)}.${why}${use}`);
}

/** How long the call still waits on its open connection, second by second. */
function count() {
  clearTimeout(countdown);
  if (held === undefined) {
    part('held').textContent = '';
    return;
  }
  const left = Math.ceil((Date.parse(held.until) - Date.now()) / 1000);
  const calls = held.calls === 1 ? 'A call waits' : `${held.calls} calls wait`;
  part('held').textContent =
    left > 0 ? `${calls} for your answer now: ${left} s left.` : 'The call that waited was told to come again. A yes lets it pass then.';
  if (left > 0) countdown = setTimeout(count, 1000);
}

function needsOf(needs = []) {
  return needs.map(({ required, group }) => (group === undefined ? `${required} persons` : `${required} of the group ${group}`)).join(', ');
}

function saidOf(decisions = []) {
  return decisions.map(({ status, decided_by: by, decided_at: at }) => `${status} by ${by} at ${when(at)}`).join('; ');
}

function chargedTo({ customer_id: customer, account_id: account, project_id: project, labels = {} }) {
  return [
    ['Customer', customer],
    ['Account', account],
    ['Project', project],
    ...Object.entries(labels).map(([name, value]) => [`Label ${name}`, value]),
  ];
}

function sizesOf(sizes) {
  return Object.entries(sizes)
    .map(([name, bytes]) => `${name} (${bytes} bytes)`)
    .join(', ');
}

function fill(rows) {
  const terms = rows
    .filter(([, value]) => value !== undefined && value !== '')
    .flatMap(([name, value]) => [textIn('dt', name), textIn('dd', value)]);
  part('facts').replaceChildren(...terms);
}

function textIn(tag, text) {
  const element = document.createElement(tag);
  element.textContent = seen(text);
  return element;
}

function tell(title, text) {
  part('outcome-title').textContent = title;
  part('outcome-text').textContent = text;
  reveal('outcome');
  part('outcome-title').focus();
}

/** Asks the management API. @throws Problem in words */
async function ask(method, path, body) {
  let answer;
  let said;
  try {
    answer = await fetch(path, {
      method,
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
      headers: { Authorization: `Bearer ${key}`, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    said = await answer.json();
  } catch (error) {
    const words =
      method === 'GET'
        ? 'The gateway could not be asked. Is the key complete, and can the gateway be reached?'
        : 'No answer came, so nobody knows whether this was decided. Show the request again.';
    throw new Problem(words, { cause: error });
  }
  if (answer.ok) return said;
  const { code = '', message = '' } = said?.error ?? {};
  const meaning = MEANINGS.get(code) ?? `The gateway has refused this (${answer.status}).`;
  throw new Problem(`${meaning} ${message === '' ? '' : `It says: ${message}`}`, { code });
}

class Problem extends Error {
  constructor(words, { code = '', cause } = {}) {
    super(seen(words.trim()), { cause });
    this.code = code;
  }
}

/** A time as the reader's clock has it, and exactly. */
function when(time) {
  const at = new Date(time);
  return Number.isNaN(at.getTime()) ? seen(time) : `${at.toLocaleString()} (${time})`;
}

/**
 * Nothing in a text that others chose hides, acts on what stands beside it, or looks like a sign that was written out.
 */
function seen(text) {
  return String(text).replace(UNSEEN, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);
}

/** JSON in lines. Line breaks in its texts are escapes already. */
function seenJson(value) {
  return JSON.stringify(value, null, 2).split('\n').map(seen).join('\n');
}

function hide(...ids) {
  for (const one of ids) part(one).hidden = true;
}

function reveal(one) {
  part(one).hidden = false;
}

function forget() {
  key = '';
  part('key').value = '';
  part('reason').value = '';
  part('facts').replaceChildren();
  part('params').value = '';
  part('state').textContent = '';
  hide('request', 'decision', 'outcome');
}
