/*
 * The reference page of the management API, from its OpenAPI description: per route what it takes, answers and refuses,
 * and an example, which a test replays (test/integration/management-examples.test.ts).
 */

const JSON_TYPE = 'application/json';
/** Of an answer; what stands deeper is on one line. */
const DEEPEST = 3;

/**
 * @param described rows of the operations table
 * @param document their OpenAPI description
 * @param words how the other pages write: `table`, `code`, `shapeOf`, `bodyMembers`
 */
export function managementPage(described, document, words) {
  const rows = described.filter(({ id }) => id.startsWith('mgmt.'));
  const groups = [...new Set(rows.map(({ id }) => id.split('.')[1]))];
  const parts = groups.map((group) => {
    const routes = rows.filter(({ id }) => id.split('.')[1] === group);
    return `## ${titleOf(group)}\n\n${routes.map((row) => routePart(row, document.paths[row.path][row.method.toLowerCase()], words)).join('\n\n')}`;
  });
  const links = groups.map((group) => `[${titleOf(group)}](#${group.replaceAll('_', '-')})`).join(', ');
  return `# Management API

Every route of \`/mgmt/v1/\`, with an example that a test replays against a gateway. The same is served as an OpenAPI 3.1 document at \`GET /mgmt/v1/openapi.json\`. What holds of all routes is in the
[interface](../interface/management.md), how to begin in the [guide](../guides/managing.md). In the examples \`$GATEWAY\` is the address of the gateway, such as \`http://127.0.0.1:7080\`, and \`$GW_MGMT_KEY\` a
management key. \`gw\` stands for the [command](commands.md) that asks the same, a tool for the one of the [MCP server](tools.md).

${links}

${parts.join('\n\n')}`;
}

function routePart({ id, method, path, summary, tools = [] }, operation, words) {
  const { code } = words;
  const scopes = (operation.security ?? []).flatMap(({ bearer = [] }) => bearer);
  const scope = scopes.length === 0 ? 'none' : scopes.map(code).join(' or ');
  const [status, answer] = Object.entries(operation.responses).find(([name]) => Number(name) < 300);
  const media = answer.content?.[JSON_TYPE];
  const tool = tools.map(({ name }) => code(name)).join(', ');
  return [
    `### ${code(`${method} ${path}`)}`,
    summary,
    `Scope ${scope}. ${code(`gw ${id.slice('mgmt.'.length).replaceAll('.', ' ').replaceAll('_', '-')}`)}${tool === '' ? '' : `; ${tool}`}.`,
    ...inputPart(operation, words),
    `\`\`\`sh\n${curl(method, path, operation)}\n\`\`\``,
    ...answerPart(status, media, words),
    `Refused with ${refusals(operation, code)}.`,
  ].join('\n\n');
}

function inputPart({ parameters = [], requestBody }, { table, code, shapeOf, bodyMembers }) {
  const schema = requestBody?.content[JSON_TYPE].schema ?? {};
  const rows = [
    ...parameters.map((one) => [code(one.name), one.in, one.required, { description: one.description, ...one.schema }]),
    ...bodyMembers(schema).map(([name, required, member]) => [code(name), 'body', required, member]),
  ].map(([name, place, required, member]) => [name, place, required ? 'yes' : '', shapeOf(member)]);
  return rows.length === 0 ? [] : [table(['Takes', 'In', 'Needed', 'Form'], rows)];
}

function curl(method, path, { parameters = [], requestBody }) {
  const given = parameters.filter(({ example }) => example !== undefined);
  const query = given.filter((one) => one.in === 'query').map(({ name, example }) => `${name}=${encodeURIComponent(String(example))}`);
  const place = given
    .filter((one) => one.in === 'path')
    .reduce((all, { name, example }) => all.replace(`{${name}}`, encodeURIComponent(example)), path);
  const body = requestBody?.content[JSON_TYPE].example;
  return [
    `curl${method === 'GET' ? '' : ` -X ${method}`} "$GATEWAY${place}${query.length === 0 ? '' : `?${query.join('&')}`}" -H "Authorization: Bearer $GW_MGMT_KEY"`,
    ...(body === undefined ? [] : [`  -H 'Content-Type: application/json' -d '${JSON.stringify(body).replaceAll("'", `'\\''`)}'`]),
  ].join(' \\\n');
}

function answerPart(status, media, { table, code, shapeOf }) {
  if (media === undefined) return [`Answers ${status}.`];
  const rows = answerMembers(media.schema).map(([name, always, schema]) => [code(name), always ? '' : 'not always', shapeOf(schema)]);
  return [
    `Answers ${status}:`,
    ...(rows.length === 0 ? [] : [table(['Member', 'There', 'Form'], rows)]),
    ...(media.example === undefined ? [] : [`\`\`\`json\n${shown(media.example)}\n\`\`\``]),
  ];
}

/** Members of an object, those of objects in it behind a dot, of objects in a list behind brackets. */
function answerMembers(schema, prefix = '') {
  const { properties = {}, required = [] } = schema;
  return Object.entries(properties).flatMap(([name, member]) => {
    const inner = member.anyOf?.find(({ type }) => type !== 'null') ?? member;
    const path = `${prefix}${name}`;
    return [
      [path, required.includes(name), { ...inner, ...member, type: member.type ?? inner.type ?? 'anything' }],
      ...answerMembers(inner, `${path}.`),
      ...(inner.items ? answerMembers(inner.items, `${path}[].`) : []),
    ];
  });
}

function refusals({ responses }, code) {
  const refused = Object.entries(responses).filter(([status]) => Number(status) >= 400);
  return refused
    .map(([status, { description }]) => `${status} ${[...description.matchAll(/`(\w+)`:/g)].map(([, name]) => code(name)).join(', ')}`)
    .join('; ');
}

function shown(value, depth = 0) {
  const next = '  '.repeat(depth + 1);
  const flat = JSON.stringify(value);
  if (typeof value !== 'object' || value === null || depth >= DEEPEST || flat.length < 80) return flat;
  const inner = Array.isArray(value)
    ? value.map((one) => next + shown(one, depth + 1))
    : Object.entries(value).map(([name, one]) => `${next}${JSON.stringify(name)}: ${shown(one, depth + 1)}`);
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  return `${open}\n${inner.join(',\n')}\n${'  '.repeat(depth)}${close}`;
}

function titleOf(group) {
  const words = group.replaceAll('_', ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}
