import { loadCatalogue } from '../../src/base/catalogue/catalogue.ts';
import { namedModels } from '../../src/base/catalogue/named-models.ts';
import { spelledPath, spelledValue } from '../../src/base/catalogue/spelling.ts';
import type { Dialect, Operation } from '../../src/base/catalogue/types.ts';
import { withoutCollection } from '../../src/base/catalogue/usual-path.ts';
import { jsonMember, removeJsonMember, setJsonMember } from '../../src/base/json/json-edit.ts';
import { parseSafeJson } from '../../src/base/json/safe-json.ts';
import { applyMutations } from '../../src/inbound/normalise/apply-mutations.ts';
import { readAiBody } from '../../src/inbound/normalise/body.ts';
import { parseActionRequest } from '../../src/inbound/normalise/direct.ts';
import { type Form, type FormField, fieldText, parseMediaType, parseUrlencoded, rewriteForm } from '../../src/inbound/normalise/form.ts';
import { MultipartReader, parseMultipart } from '../../src/inbound/normalise/multipart.ts';
import { canonicalPath } from '../../src/inbound/normalise/path.ts';
import { governedPaths } from '../../src/inbound/normalise/places.ts';
import { type FuzzTarget, hashOf, must, outcomeOf, splitHead } from './target.ts';

const MILLION = 1_000_000;
const catalogue = loadCatalogue();

const JSON_TOKENS = [
  '{',
  '}',
  '[',
  ']',
  '"',
  '\\"',
  '\\\\',
  '\\u006d',
  '\\ud800',
  '\xed\xa0\x80',
  '\xef\xbb\xbf',
  ':',
  ',',
  'null',
  'true',
  'false',
  '1e999',
  '-',
  '9007199254740993',
  '"model":"gpt-4o"',
  '"Model":1',
  '"stream":true',
  '"messages":[]',
  '"max_tokens":1',
  '"maxTokens":2',
  '"_model":1,',
  '"m_odel":1,',
  '"max__tokens":1,',
  '"__proto__":{"a":1}',
  '"constructor":1',
  '"":1',
  '"a":{"a":1}',
  '[[[[[[[[',
  '{"a":',
];

/** Of names that a maximum or a number of answers has, alone and inside of their object. */
const SPELLINGS = [
  '"generationConfig":{',
  '"generation_config":{',
  '"GenerationConfig":{',
  '"maxOutputTokens":1,',
  '"max_output_tokens":2,',
  '"max_Output_tokens":3,',
  '"candidateCount":4,',
  '"candidate_count":5,',
  '"max_completion_tokens":6,',
  '"Max_Completion_Tokens":7,',
  '"n":8,',
  '"N":9,',
];

/** JSON bodies: the scan, and the edits of what it lets pass. */
const jsonBody: FuzzTarget = {
  name: 'json-body',
  inputs: MILLION,
  headLines: 0,
  dictionary: JSON_TOKENS,
  run(input) {
    const turn = hashOf(input);
    const exactIntegers = turn % 2 === 0;
    const first = outcomeOf(['ambiguous_body', 'body_too_deep'], () => parseSafeJson(input, { exactIntegers }));
    if (first.value === undefined) return first.code;
    const { value, text, doubt } = first.value;
    if (doubt !== undefined) return doubt.kind;
    const plain = JSON.stringify(value);
    must(parseSafeJson(Buffer.from(plain), { exactIntegers: false }).doubt === undefined, 'what a serialiser writes is in no doubt');
    if (!isObject(value) || Array.isArray(value)) return `value ${typeof value}`;
    const path = somePath(value, turn);
    const unambiguous = parseSafeJson(input, { chain: path.slice(0, -1) }).doubt === undefined;
    if (unambiguous) editsHold(text, value, path, turn);
    return `object ${path.length} ${unambiguous}`;
  },
};

const NEW_VALUES: readonly unknown[] = ['x', 'é"\\\u2028', 1, null, true, { a: [1] }, []];

function editsHold(text: string, value: object, path: readonly string[], turn: number): void {
  const to = NEW_VALUES[turn % NEW_VALUES.length];
  const wanted = structuredCloneOf(value);
  const possible = setAt(wanted, path, to);
  const edited = setJsonMember(text, path, to);
  if (edited === undefined) must(!possible || path.length > 1, 'a member of the outermost object can always be set');
  else must(possible && JSON.stringify(JSON.parse(edited)) === JSON.stringify(wanted), 'a member that was set is set, and nothing else');
  const [name = ''] = path;
  must(JSON.stringify(jsonMember(text, name)) === JSON.stringify(ownValue(value, name)), 'a member reads as the parser reads it');
  const rest = structuredCloneOf(value);
  Reflect.deleteProperty(rest, name);
  must(
    JSON.stringify(JSON.parse(removeJsonMember(text, name))) === JSON.stringify(rest),
    'a member that was removed is gone, and nothing else',
  );
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function ownValue(value: unknown, name: string): unknown {
  return isObject(value) && Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined;
}

function structuredCloneOf(value: object): object {
  const copy: unknown = JSON.parse(JSON.stringify(value));
  must(isObject(copy), 'an object stays an object');
  return copy;
}

/** One to three names, mostly of members that are there. */
function somePath(value: object, turn: number): string[] {
  const path: string[] = [];
  let at: unknown = value;
  for (let depth = 0; depth <= turn % 3; depth++) {
    const names = isObject(at) ? Object.keys(at) : [];
    const name = (turn >>> (depth + 2)) % 4 === 0 ? 'model' : (names[(turn >>> 5) % (names.length || 1)] ?? '__proto__');
    path.push(name);
    at = ownValue(at, name);
  }
  return path;
}

/** The edit on the parsed value; false where there is nothing that has members. */
function setAt(target: object, path: readonly string[], to: unknown): boolean {
  const [name = '', ...inner] = path;
  if (Array.isArray(target) && !Object.hasOwn(target, name)) return false;
  if (Array.isArray(target) && !/^\d+$/.test(name)) return false;
  const before = ownValue(target, name);
  if (inner.length > 0 && isObject(before)) return setAt(before, inner, to);
  if (inner.length > 0 && before !== undefined && before !== null) return false;
  const value = inner.reduceRight<unknown>((nested, key) => Object.fromEntries([[key, nested]]), to);
  return Reflect.defineProperty(target, name, { value, enumerable: true, writable: true, configurable: true });
}

const FORM_TOKENS = [
  '\r\n',
  '\n',
  '\r',
  '--',
  '--b\r\n',
  '\r\n--b\r\n',
  '\r\n--b--',
  '\r\n--b--\r\n',
  '\r\n\r\n',
  'Content-Disposition: form-data; name="',
  'content-disposition: form-data; name=x',
  '; filename="a"',
  "; filename*=UTF-8''a",
  '; name="y"',
  'Content-Type: text/plain\r\n',
  'Content-Transfer-Encoding: base64\r\n',
  'name*=',
  '\\"',
  '%22',
  '%',
  '%00',
  '&',
  '=',
  ';',
  '+',
  'model',
  'stream',
  '_charset_',
  '\0',
  ' \t',
  'Content-Disposition:  \t ',
  'm_odel',
  '[]',
  '\xff',
];

/** Forms of both kinds. The first line is the Content-Type. */
const form: FuzzTarget = {
  name: 'form',
  inputs: MILLION,
  headLines: 1,
  dictionary: FORM_TOKENS,
  run(input) {
    const { head, rest } = splitHead(input, 1);
    const media = outcomeOf(['ambiguous_body'], () => parseMediaType(head[0] ?? ''));
    if (media.value === undefined) return 'media type';
    const multipart = media.value.type.startsWith('multipart/');
    const boundary = media.value.parameters.get('boundary');
    const parse = (bytes: Uint8Array): Form => (multipart ? parseMultipart(bytes, boundary) : parseUrlencoded(bytes));
    const { value: read } = outcomeOf(['ambiguous_body'], () => parse(rest));
    if (multipart) sameInPieces(rest, boundary, read, hashOf(input));
    if (read === undefined) return `${multipart} refused`;
    let last = 0;
    for (const field of read.fields) {
      must(field.start >= last && field.end >= field.start && field.end <= rest.length, 'fields stand one behind the other');
      last = field.end;
    }
    const texts = read.fields.map((field) => outcomeOf(['ambiguous_body'], () => fieldText(read, rest, field)).value);
    if (!multipart) agreesWithStandard(read, rest, texts);
    rewritesHold(read, rest, texts, parse);
    const label = `${multipart} ${Math.min(6, read.fields.length)} ${texts.includes(undefined)}`;
    return multipart && hashOf(input) % 32 === 0 ? sameForm(read, rest, boundary ?? '', texts).then(() => label) : label;
  },
};

/** A form that arrives in pieces is the form that it is as a whole, and each of its bytes is given out once. */
function sameInPieces(bytes: Buffer, boundary: string | undefined, whole: Form | undefined, seed: number): void {
  const given: Uint8Array[] = [];
  const { value } = outcomeOf(['ambiguous_body'], () => {
    const reader = new MultipartReader(boundary);
    for (let at = 0, size = 1 + (seed % 7); at < bytes.length; at += size, size = 1 + ((size * 5) % 11)) {
      given.push(reader.push(bytes.subarray(at, at + size)));
    }
    given.push(reader.end());
    return reader.form;
  });
  must(JSON.stringify(value) === JSON.stringify(whole), 'pieces make the same form');
  must(bytes.subarray(0, Buffer.concat(given).length).equals(Buffer.concat(given)), 'what is given out is what came');
  must(value === undefined || Buffer.concat(given).length === bytes.length, 'of a good form everything is given out');
}

/** The platform's own parser sees the same pairs. */
function agreesWithStandard(read: Form, bytes: Buffer, texts: readonly (string | undefined)[]): void {
  if (texts.includes(undefined)) return;
  const pairs = read.fields.map(({ name }, i) => [name, texts[i]]);
  must(
    JSON.stringify([...new URLSearchParams(bytes.toString('utf8').replace(/^\?/, '%3f'))]) === JSON.stringify(pairs),
    'the URL standard sees this form',
  );
}

/** The platform's own parser sees the same fields. */
async function sameForm(read: Form, bytes: Buffer, boundary: string, texts: readonly (string | undefined)[]): Promise<void> {
  const init = { headers: { 'content-type': `multipart/form-data; boundary="${boundary}"` } };
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- deprecated for servers, not as a second opinion
  const seen = await new Response(bytes, init).formData().catch(() => undefined);
  if (seen === undefined || texts.includes(undefined) || texts.some((text) => text?.includes('\ufeff'))) return;
  const theirs = [...seen].map(([name, value]) => (typeof value === 'string' ? [name, value] : [name]));
  const ours = read.fields.map(({ name, file }, i) => (file ? [name] : [name, texts[i]]));
  if (JSON.stringify(theirs) !== JSON.stringify(ours))
    throw new Error(`another parser sees another form: ${JSON.stringify(theirs)} and not ${JSON.stringify(ours)}`);
}

/** A form with one field set parses to the same form with that one changed. */
function rewritesHold(read: Form, bytes: Buffer, texts: readonly (string | undefined)[], parse: (bytes: Uint8Array) => Form): void {
  const named = read.fields.find(({ file }) => !file)?.name ?? 'model';
  for (const name of new Set([named, 'model'])) {
    const rewritten = outcomeOf(['ambiguous_body'], () => rewriteForm(read, bytes, new Map([[name, 'new & value=1']]))).value;
    if (rewritten === undefined) continue;
    const again = parse(rewritten);
    const had = read.fields.some((field) => field.name === name);
    const expected = read.fields.map((field, i) => (field.name === name ? 'new & value=1' : texts[i]));
    if (!had) expected.push('new & value=1');
    const read2 = again.fields.map((field: FormField) => outcomeOf(['ambiguous_body'], () => fieldText(again, rewritten, field)).value);
    must(JSON.stringify(read2) === JSON.stringify(expected), 'a field that was set is set, and nothing else');
  }
}

const NEW_MODEL = 'small-model-1';

/**
 * What a lenient reader takes for a governed name is what policy and price take for it: of several that could be meant
 * the body is refused.
 */
function sameToLenientReaders(params: unknown, dialect: Dialect): void {
  const folded = (name: string): string => name.toUpperCase().toLowerCase();
  const compared = (name: string): string => (dialect.names === 'exact' ? folded(name) : folded(name).replaceAll('_', ''));
  for (const path of governedPaths(dialect)) {
    let at = params;
    for (const part of path.split('.')) {
      if (typeof at !== 'object' || at === null || Array.isArray(at)) {
        at = undefined;
        break;
      }
      const meant = Object.entries(at).filter(([name]) => compared(name) === compared(part));
      must(meant.length <= 1, `${path} is given once, in whatever spelling`);
      at = meant[0]?.[1];
    }
    if (typeof at !== 'object') must(at === spelledValue(params, spelledPath(path, dialect.names)), `${path} is what any reader finds`);
  }
}

/** A body by its dialect, then with its model mutated. The first lines are dialect and Content-Type, and the path. */
const aiBody: FuzzTarget = {
  name: 'ai-body',
  inputs: MILLION,
  headLines: 2,
  dictionary: [...JSON_TOKENS, ...FORM_TOKENS, ...SPELLINGS],
  run(input) {
    const { head, rest } = splitHead(input, 2);
    const [id = '', ...type] = (head[0] ?? '').split(' ');
    const contentType = type.length === 0 ? undefined : type.join(' ');
    const path = outcomeOf(['invalid_target'], () => canonicalPath(head[1] ?? '', true)).value ?? '/v1/chat/completions';
    const dialect = catalogue.dialect(id);
    const multipart = contentType?.includes('form') === true;
    const operation: Operation = {
      actionType: 'ai.infer',
      detailType: undefined,
      dialect,
      multipart,
      websocket: false,
      known: dialect !== undefined,
      modelNames: 'exact',
    };
    const read = outcomeOf(['body_too_deep', 'ambiguous_body', 'invalid_request'], () =>
      readAiBody({ operation, contentType, bytes: rest, path }),
    );
    if (read.value === undefined) return `${read.code}`;
    const body = read.value;
    if (dialect && body.kind === 'json') sameToLenientReaders(body.params, dialect);
    const headers = contentType === undefined ? [] : ['Content-Type', contentType];
    const before = { body, method: 'POST', host: 'api.openai.com', path, headers };
    const mutations = [
      { key: 'action.params.model', value: NEW_MODEL },
      { key: 'action.params.max_tokens', value: 5 },
    ];
    const refusals = ['internal', 'ambiguous_body', 'invalid_target', 'invalid_request', 'body_too_deep'];
    const mutated = outcomeOf(refusals, () => applyMutations(before, mutations, { isAiHost: () => true }));
    if (mutated.value === undefined) return `${dialect?.id} ${body.kind} ${mutated.code}`;
    const { model } = mutated.value.body ?? {};
    if (!operation.known) must(mutated.value.unapplied.length === mutations.length, 'nothing is written into what nobody understands');
    else if (namedModels(operation, body.params)?.hidden === true) {
      must(
        mutated.value.unapplied.includes('action.params.model'),
        'a model beside others that nobody knows is not set: the call is refused',
      );
    } else must(withoutCollection(model ?? '') === NEW_MODEL, 'a model that was set is the one that is sent');
    return `${dialect?.id} ${body.kind} ${body.stream} ${body.model === undefined} ${mutated.value.changed.length}`;
  },
};

/** The envelope of the structured API. */
const direct: FuzzTarget = {
  name: 'action-request',
  inputs: MILLION,
  headLines: 0,
  dictionary: [
    ...JSON_TOKENS,
    '"action":{',
    '"target":"https://api.openai.com/v1"',
    '"target_host":"',
    '"target_path":"/v1/',
    '"method":"POST"',
    '"type":"ai.infer"',
    '"headers":{"X-A":"b"}',
    '"context":{"labels":{}}',
    '"estimates":{"tokens_in":1}',
    '"schema":"',
  ],
  run(input) {
    const options = { newRequestId: () => 'r-1', isAiHost: (host: string) => catalogue.providerForHost(host) !== undefined };
    const read = outcomeOf(['invalid_request', 'body_too_deep', 'ambiguous_body', 'invalid_target'], () =>
      parseActionRequest(input, options),
    );
    if (read.value === undefined) return read.code;
    const { request, port } = read.value;
    must(port >= 1 && port <= 65_535, 'a port is a port');
    // A number with digits that a double has not, such as 9007199254740993.5, is written as another one.
    const again = outcomeOf(['ambiguous_body'], () => parseActionRequest(Buffer.from(JSON.stringify(request)), options)).value;
    if (again !== undefined) must(JSON.stringify(again.request) === JSON.stringify(request), 'what is written out reads as itself');
    return `${request.action.type} ${Object.keys(request).length}`;
  },
};

export const BODY_TARGETS: readonly FuzzTarget[] = [jsonBody, form, aiBody, direct];
