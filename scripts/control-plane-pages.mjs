/*
 * The reference pages of the control plane, from its own tables: settings, admin API, metrics.
 * `words` is how the other pages write: `table`, `code`, `capitalised`, `shapeOf`, `bodyMembers`.
 */

export function controlPlaneSettingsPage({ CONTROL_PLANE_SETTINGS }, { table, code, capitalised }) {
  const rows = Object.values(CONTROL_PLANE_SETTINGS).map(({ variable, type, fallback, fallbackNote, help, secret }) => [
    code(variable),
    type.name,
    fallbackNote ?? code(fallback),
    capitalised(type.allowed),
    secret ? `${help} Secret: ${code(`${variable}_FILE`)} may name a file that holds it.` : help,
  ]);
  return `# Settings of the control plane

What \`gw control-plane start\` reads ([guide](../guides/control-plane.md)). Every setting is an environment variable. A bad value stops the start, and all bad values are reported at once; an unknown
\`CP_*\` variable is a warning. An empty value counts as not set. Durations are Go's (\`90s\`, \`1h30m\`) plus \`d\`. Relative paths count from the working directory. The commands that ask a control plane
read \`CP_HOST\`, \`CP_HTTP_PORT\`, \`CP_GRPC_PORT\`, \`CP_DATA_DIR\` and \`CP_ADMIN_TOKEN\` to find it.

${table(['Variable', 'Type', 'Default', 'Takes', 'Meaning'], rows)}`;
}

export function controlPlaneApiPage({ ADMIN_OPERATIONS }, { controlPlaneCommandName }, { jsonSchema }, words) {
  const { table, code } = words;
  const rows = ADMIN_OPERATIONS.map(({ id, method, path, scope, summary }) => [
    code(`${method} ${path}`),
    scope === 'admin' ? 'admin token' : 'none',
    code(`gw ${controlPlaneCommandName(id)}`),
    summary,
  ]);
  const inputs = ADMIN_OPERATIONS.flatMap((operation) => inputRows(operation, jsonSchema, words));
  const answers = ADMIN_OPERATIONS.map(({ method, path, output, errors = [] }) => [
    code(`${method} ${path}`),
    String(output.status),
    answerOf(output, jsonSchema, words),
    errors.map(code).join(', '),
  ]);
  return `# API of the control plane

JSON over HTTP on \`CP_HTTP_PORT\` ([settings](control-plane-settings.md), [guide](../guides/control-plane.md)). The admin token is sent as \`CP-Admin-Token\`. Errors have the form of the gateway's own
(\`{"error": {"code", "message", "details"?}}\`, [codes](errors.md)): 401 \`unauthorized\` without the token, 400 \`invalid_request\` with the name of every member that is wrong, 404 \`not_found\` below an org
that there is not. A body is at most 1 MiB, a bundle 4 MiB. No browser page may ask, and on a loopback bind no Host but loopback and \`CP_NAMES\`. Each change is stored in one commit with its entry in the
audit trail. \`GET /metrics\` needs \`CP_METRICS_TOKEN\` as a bearer token where that is set ([metrics](control-plane-metrics.md)).

${table(['Operation', 'Token', 'Command', 'Meaning'], rows)}

## Input

Members of query and JSON body. What is not listed is refused. Ids of orgs and nodes are 1 to 64 visible ASCII characters, other ids up to 128. What \`PUT\` says of workloads, credentials and export destinations are the gateway's own shapes
([interface](../interface/resources.md)).

${table(['Operation', 'Member', 'In', 'Needed', 'Form'], inputs)}

## Answers

${table(['Operation', 'Status', 'Members', 'Errors beside 400 and 401'], answers)}`;
}

function inputRows({ method, path, inputs }, jsonSchema, { code, shapeOf, bodyMembers }) {
  const { query, body } = inputs();
  return [
    ['query', query],
    ['body', body],
  ].flatMap(([place, schema]) =>
    schema === undefined
      ? []
      : bodyMembers(jsonSchema(schema, 'input')).map(([name, required, member]) => [
          code(`${method} ${path}`),
          code(name),
          place,
          required ? 'yes' : '',
          shapeOf(withoutNull(member)),
        ]),
  );
}

function answerOf({ schema, contentType }, jsonSchema, { code, bodyMembers }) {
  if (schema === undefined) return contentType ?? '';
  const { properties = {}, ...rest } = jsonSchema(schema, 'output');
  const list = properties.data ?? properties.items;
  if (list === undefined) return namesOf(bodyMembers({ properties, ...rest }), code);
  return `a list of ${namesOf(bodyMembers(list.items), code)}`;
}

function namesOf(members, code) {
  return members
    .map(([name]) => name)
    .filter((name) => !name.includes('.'))
    .map(code)
    .join(', ');
}

/** What may be null, told as what it is when it is not. */
function withoutNull({ anyOf, ...schema }) {
  const [only] = (anyOf ?? []).filter(({ type }) => type !== 'null');
  return only === undefined ? schema : { ...only, ...schema };
}

export function controlPlaneMetricsPage({ CONTROL_PLANE_METRICS }, { table, code }) {
  const rows = Object.values(CONTROL_PLANE_METRICS).map(({ name, type, labels, help }) => [
    code(name),
    type,
    labels.map(code).join(', '),
    help,
  ]);
  return `# Metrics of the control plane

\`GET /metrics\` on \`CP_HTTP_PORT\` shows these beside the metrics of the Node process. No label takes a value that a caller chose.

${table(['Metric', 'Type', 'Labels', 'Meaning'], rows)}`;
}
