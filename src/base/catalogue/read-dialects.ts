import { messageOf } from '../lib/gateway-error.ts';
import type { YamlNode } from '../lib/yaml.ts';
import type { DeferredRule, DeltaRule, StreamErrorRule, UsageAskRule } from './dialect-rules.ts';
import { CALL_PLACE_MEMBERS, type PlaceSets, readCallPlaces, readPicture } from './read-call-places.ts';
import { readUsageRule } from './read-usage-rule.ts';
import { Row, type RowProblems } from './row-reader.ts';
import type { NameRule } from './spelling.ts';
import type { Dialect, ErrorShape, FieldPlace, SocketRule, StreamRule, StreamVerbs } from './types.ts';

const MEMBERS = [
  'extends',
  'names',
  'model',
  'model_stored',
  ...CALL_PLACE_MEMBERS,
  'stream',
  'max_tokens',
  'maxima_uncertain',
  'efforts',
  'answers',
  'prompts',
  'prompt_paths',
  'output_paths',
  'per_item',
  'picture',
  'usage',
  'usage_on_request',
  'usage_asked_if',
  'model_echo',
  'echo_is_family',
  'streaming',
  'deltas',
  'stream_error',
  'deferred',
  'socket',
  'error_shape',
  'version_header',
] as const;
const FRAMINGS: readonly StreamRule['framing'][] = ['sse', 'ndjson', 'json_array', 'aws_event_stream'];
const NAME_RULES: readonly NameRule[] = ['exact', 'proto'];
/** Families of wire formats, told apart by their error bodies. */
export const ERROR_SHAPES: readonly ErrorShape[] = ['openai', 'anthropic', 'google', 'cohere', 'mistral', 'aws', 'replicate'];

/**
 * Reads the table of wire formats. `extends` takes every member that the row does not give itself from an earlier row.
 */
export function readDialects(node: YamlNode | undefined, sets: PlaceSets, problems: RowProblems): ReadonlyMap<string, Dialect> {
  const dialects = new Map<string, Dialect>();
  const table = Row.from(node, 'dialects', problems);
  for (const { key, value } of table?.entries() ?? []) {
    const row = Row.from(value, `dialects.${key.source}`, problems, MEMBERS);
    const parentId = row?.text('extends');
    const parent = parentId === undefined ? undefined : dialects.get(parentId);
    if (parentId !== undefined && parent === undefined) row?.problem('extends', `"${parentId}" is no dialect that stands before this one`);
    if (row !== undefined) dialects.set(key.source, Object.freeze(readDialect(key.source, row, parent, { earlier: dialects, sets })));
  }
  return dialects;
}

interface DialectContext {
  readonly earlier: ReadonlyMap<string, Dialect>;
  readonly sets: PlaceSets;
}

function readDialect(id: string, row: Row, parent: Dialect | undefined, { earlier, sets }: DialectContext): Dialect {
  const versionHeader = readVersionHeader(row) ?? parent?.versionHeader;
  const names = oneOf(row, 'names', NAME_RULES) ?? parent?.names ?? 'exact';
  return {
    id,
    names,
    ...readModelPlaces(row, parent),
    picture: readPicture(row) ?? parent?.picture,
    places: readCallPlaces(row, sets, names, parent?.places),
    stream: readStreamPlace(row) ?? parent?.stream,
    ...readAmounts(row, parent),
    usage: readUsageRule(row, earlier) ?? parent?.usage,
    usageOnRequest: row.flag('usage_on_request', parent?.usageOnRequest ?? false),
    usageAskedIf: readUsageAskRule(row) ?? parent?.usageAskedIf,
    modelEcho: row.has('model_echo') ? row.textOrTexts('model_echo') : parent?.modelEcho,
    echoIsFamily: row.flag('echo_is_family', parent?.echoIsFamily ?? false),
    ...readStreaming(row, parent),
    deferred: readDeferredRule(row) ?? parent?.deferred,
    socket: readSocketRule(row, earlier) ?? parent?.socket,
    errorShape: oneOf(row, 'error_shape', ERROR_SHAPES) ?? parent?.errorShape ?? missing(row, 'error_shape', 'openai'),
    ...(versionHeader === undefined ? {} : { versionHeader }),
  };
}

/** Where a call names its model. */
function readModelPlaces(row: Row, parent: Dialect | undefined): Pick<Dialect, 'model' | 'modelStored'> {
  return {
    model: row.has('model') ? row.rows('model', PLACE_MEMBERS).flatMap((place) => readPlace(place) ?? []) : (parent?.model ?? []),
    modelStored: row.flag('model_stored', parent?.modelStored ?? false),
  };
}

/** What an estimate reads of a body. */
function readAmounts(
  row: Row,
  parent: Dialect | undefined,
): Pick<Dialect, 'maxTokens' | 'maximaUncertain' | 'efforts' | 'answers' | 'prompts' | 'promptPaths' | 'outputPaths' | 'perItem'> {
  const perItem = row.row('per_item', ['path', 'of']);
  const texts = (name: string, inherited: readonly string[] | undefined) => (row.has(name) ? row.texts(name) : (inherited ?? []));
  return {
    maxTokens: texts('max_tokens', parent?.maxTokens),
    maximaUncertain: row.flag('maxima_uncertain', parent?.maximaUncertain ?? false),
    efforts: texts('efforts', parent?.efforts),
    answers: texts('answers', parent?.answers),
    prompts: row.text('prompts') ?? parent?.prompts,
    promptPaths: texts('prompt_paths', parent?.promptPaths),
    outputPaths: texts('output_paths', parent?.outputPaths),
    perItem: (perItem && { path: perItem.need('path'), of: perItem.need('of') }) ?? parent?.perItem,
  };
}

function readStreaming(row: Row, parent: Dialect | undefined): Pick<Dialect, 'streaming' | 'deltas' | 'streamError'> {
  return {
    streaming: readStreamRule(row) ?? parent?.streaming,
    deltas: readDeltaRule(row) ?? parent?.deltas,
    streamError: readStreamErrorRule(row) ?? parent?.streamError,
  };
}

const PLACE_MEMBERS = ['in', 'path', 'field', 'pattern', 'ignore_case', 'name', 'absent'];
const STREAM_PLACE_MEMBERS = [...PLACE_MEMBERS, 'verbs', 'query', 'body'];

function readStreamPlace(row: Row): FieldPlace | undefined {
  const written = row.row('stream', STREAM_PLACE_MEMBERS);
  const place = written && readPlace(written);
  return written === undefined || place?.in !== 'path' ? place : { ...place, verbs: readVerbs(written) };
}

function readVerbs(place: Row): StreamVerbs {
  const [plain = '', stream = '', ...more] = place.texts('verbs');
  if (plain === '' || stream === '' || more.length > 0) place.problem('verbs', 'must be the plain and the streaming verb');
  const query = place.text('query');
  const [name = '', value = ''] = query?.split('=') ?? [];
  if (query !== undefined && (name === '' || value === '')) place.problem('query', 'must be name=value');
  return { plain, stream, query: query === undefined ? undefined : { name, value }, body: place.text('body') };
}

function readPlace(place: Row): FieldPlace | undefined {
  const where = place.need('in');
  if (where === 'body')
    return { in: 'body', path: place.need('path'), ...(place.has('absent') ? { absent: place.flag('absent', false) } : {}) };
  if (where === 'form') return { in: 'form', field: place.need('field') };
  if (where === 'query') return { in: 'query', name: place.need('name') };
  if (where !== 'path') place.problem('in', 'must be body, form, path or query');
  else {
    const pattern = compilePattern(place);
    if (pattern !== undefined) return { in: 'path', pattern };
  }
  return undefined;
}

/** The patterns are part of the product, not input, so the platform's own engine may run them. */
function compilePattern(place: Row): RegExp | undefined {
  const source = place.need('pattern');
  try {
    const pattern = new RegExp(source, place.flag('ignore_case', false) ? 'i' : '');
    if (new RegExp(`${source}|`).exec('')?.length === 2) return pattern;
    place.problem('pattern', 'must have exactly one capturing group, around the value');
  } catch (error) {
    place.problem('pattern', `is no regular expression: ${messageOf(error)}`);
  }
  return undefined;
}

function readUsageAskRule(row: Row): UsageAskRule | undefined {
  const rule = row.row('usage_asked_if', ['query', 'since', 'without']);
  const query = rule?.text('query');
  return rule && { version: query === undefined ? undefined : { query, since: rule.need('since') }, without: rule.texts('without') };
}

const STREAM_MEMBERS = [
  'framing',
  'or_json_array',
  'payload_path',
  'done_data',
  'done_events',
  'done_paths',
  'finish_paths',
  'finish_events',
  'usage_roots',
  'error_paths',
  'error_events',
  'model_paths',
];

function readStreamRule(row: Row): StreamRule | undefined {
  const stream = row.row('streaming', STREAM_MEMBERS);
  if (stream === undefined) return undefined;
  const doneData = stream.text('done_data');
  return {
    framing: oneOf(stream, 'framing', FRAMINGS) ?? missing(stream, 'framing', 'sse'),
    orJsonArray: stream.flag('or_json_array', false),
    payloadPath: stream.text('payload_path'),
    ...(doneData === undefined ? {} : { doneData }),
    doneEvents: stream.texts('done_events'),
    donePaths: stream.texts('done_paths'),
    finishPaths: stream.texts('finish_paths'),
    finishEvents: stream.texts('finish_events'),
    usageRoots: stream.texts('usage_roots'),
    errorPaths: stream.texts('error_paths'),
    errorEvents: stream.texts('error_events'),
    modelPaths: stream.texts('model_paths'),
  };
}

function readDeltaRule(row: Row): DeltaRule | undefined {
  const deltas = row.row('deltas', ['paths', 'except']);
  return deltas && { paths: deltas.texts('paths'), except: deltas.texts('except') };
}

function readStreamErrorRule(row: Row): StreamErrorRule | undefined {
  const rule = row.row('stream_error', ['event', 'data', 'also_bare']);
  return rule && { event: rule.text('event'), data: jsonObject(rule, 'data'), alsoBare: rule.flag('also_bare', false) };
}

function readDeferredRule(row: Row): DeferredRule | undefined {
  const rule = row.row('deferred', ['switch', 'id', 'status', 'open', 'in_event']);
  return (
    rule && {
      switch: rule.need('switch'),
      id: rule.need('id'),
      status: rule.need('status'),
      open: rule.texts('open'),
      inEvent: rule.need('in_event'),
    }
  );
}

function jsonObject(row: Row, name: string): Readonly<Record<string, unknown>> {
  const text = row.text(name) ?? '{}';
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Readonly<Record<string, unknown>>;
  } catch {
    // The same mistake as a text that is no object.
  }
  row.problem(name, 'must be a JSON object, as a text');
  return {};
}

const SOCKET_MEMBERS = [
  'call',
  'create',
  'create_in',
  'updates',
  'passes',
  'settings',
  'updated',
  'cancel',
  'started',
  'done',
  'side_events',
  'side_models',
];

function readSocketRule(row: Row, earlier: ReadonlyMap<string, Dialect>): SocketRule | undefined {
  const socket = row.row('socket', SOCKET_MEMBERS);
  if (socket === undefined) return undefined;
  const call = socket.text('call');
  if (call !== undefined && !earlier.has(call)) socket.problem('call', `"${call}" is no dialect that stands before this one`);
  return {
    call: call === undefined ? undefined : earlier.get(call),
    create: socket.need('create'),
    createIn: socket.text('create_in') ?? '',
    updates: socket.texts('updates'),
    passes: socket.texts('passes'),
    settingsEvents: [...socket.texts('settings'), ...socket.texts('updated')],
    updatedEvents: socket.texts('updated'),
    cancel: socket.text('cancel'),
    startedEvents: socket.texts('started'),
    doneEvents: socket.texts('done'),
    sideEvents: socket.texts('side_events'),
    sideModels: socket.texts('side_models'),
  };
}

function readVersionHeader(row: Row): { name: string; fallback: string } | undefined {
  const header = row.row('version_header', ['name', 'fallback']);
  return header === undefined ? undefined : { name: header.need('name'), fallback: header.need('fallback') };
}

/** One of a few words. */
export function oneOf<T extends string>(row: Row, name: string, allowed: readonly T[]): T | undefined {
  const text = row.text(name);
  if (text === undefined) return undefined;
  const found = allowed.find((value) => value === text);
  if (found === undefined) row.problem(name, `must be one of ${allowed.join(', ')}`);
  return found;
}

function missing<T>(row: Row, name: string, standIn: T): T {
  if (!row.has(name)) row.problem(name, 'is missing');
  return standIn;
}
