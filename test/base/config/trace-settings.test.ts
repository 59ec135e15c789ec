import t from 'tap';
import { loadConfig } from '../../../src/base/config/config.ts';
import { ConfigError, type Environment } from '../../../src/base/config/settings-reader.ts';

const tracesOf = (env: Environment) => loadConfig(env, false).config.traces;
const pathOf = (env: Environment) => tracesOf(env)?.to.path;

function problemsOf(env: Environment): string {
  try {
    loadConfig(env, false);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return '';
}

t.test('traces are sent where an endpoint is named, and nowhere else', async (t) => {
  t.equal(tracesOf({}), undefined);
  t.match(tracesOf({ GW_OTLP_ENDPOINT: 'http://127.0.0.1:4318' }), {
    to: { authority: { host: '127.0.0.1', port: 4318 }, tls: false, path: '/v1/traces', operatorOwn: true },
    headers: [],
    timeoutMs: 10_000,
    gzip: false,
    sampler: { parentBased: true, ratio: 1 },
    resource: { 'service.name': 'ai-request-gateway' },
  });
  t.equal(pathOf({ GW_OTLP_ENDPOINT: 'http://x/v1/traces' }), '/v1/traces');
  t.equal(pathOf({ GW_OTLP_ENDPOINT: 'https://x/otlp/' }), '/otlp/v1/traces');
  t.equal(pathOf({ OTEL_EXPORTER_OTLP_ENDPOINT: 'https://x/a?k=v' }), '/a/v1/traces?k=v');
  t.equal(pathOf({ OTEL_EXPORTER_OTLP_ENDPOINT: 'https://x', OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://x/own' }), '/own');
  t.equal(pathOf({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://x/own', GW_OTLP_ENDPOINT: 'https://y' }), '/v1/traces');
  for (const off of [
    { OTEL_SDK_DISABLED: 'true', GW_OTLP_ENDPOINT: 'http://x' },
    { OTEL_TRACES_EXPORTER: 'none', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://x' },
  ])
    t.equal(tracesOf(off), undefined, JSON.stringify(off));
});

t.test('the variables of OpenTelemetry mean what they mean elsewhere', async (t) => {
  const on = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://x' };
  t.match(
    tracesOf({
      ...on,
      OTEL_EXPORTER_OTLP_HEADERS: 'Authorization=Bearer%20secret,x=1',
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'X=2',
      OTEL_EXPORTER_OTLP_TIMEOUT: '5000',
      OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: '700',
      OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
      OTEL_RESOURCE_ATTRIBUTES: 'service.name=other,deployment.environment.name=a%2Cb',
      OTEL_SERVICE_NAME: 'edge',
      OTEL_TRACES_SAMPLER: 'traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.25',
    }),
    {
      headers: ['authorization', 'Bearer secret', 'x', '2'],
      timeoutMs: 700,
      gzip: true,
      sampler: { parentBased: false, ratio: 0.25 },
      resource: { 'service.name': 'edge', 'deployment.environment.name': 'a,b' },
    },
  );
  t.same(tracesOf({ ...on, OTEL_TRACES_SAMPLER: 'parentbased_always_off' })?.sampler, { parentBased: true, ratio: 0 });
  t.same(tracesOf({ ...on, OTEL_TRACES_SAMPLER: 'always_on', GW_OTLP_SAMPLE_RATIO: '0.5' })?.sampler, { parentBased: true, ratio: 0.5 });
});

t.test('what cannot be done stops the start where traces are sent, and nobody where none are', async (t) => {
  const on = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://x' };
  const bad: readonly Environment[] = [
    { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' },
    { OTEL_TRACES_SAMPLER: 'xray' },
    { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '1.5' },
    { OTEL_EXPORTER_OTLP_HEADERS: 'secret-without-name' },
    { OTEL_EXPORTER_OTLP_HEADERS: 'a=secret%0a' },
    { OTEL_EXPORTER_OTLP_TIMEOUT: '0' },
    { OTEL_EXPORTER_OTLP_COMPRESSION: 'zstd' },
    { OTEL_RESOURCE_ATTRIBUTES: 'x' },
    { OTEL_TRACES_EXPORTER: 'zipkin' },
  ];
  for (const env of bad) {
    const said = problemsOf({ ...on, ...env });
    const name = Object.keys(env).at(-1) ?? '';
    t.match(said, `${name}: `, name);
    t.notMatch(said, 'secret');
    t.equal(problemsOf(env), '', `${name} alone is none of our business`);
  }
  for (const url of ['http://user:secret@x', 'ftp://secret', 'secret']) {
    t.match(problemsOf({ GW_OTLP_ENDPOINT: url }), /^GW_OTLP_ENDPOINT: its value is not allowed/);
    t.notMatch(problemsOf({ GW_OTLP_ENDPOINT: url }), 'secret');
  }
  const { warnings } = loadConfig({ ...on, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf' }, false);
  t.match(warnings, [/^OTEL_EXPORTER_OTLP_PROTOCOL: spans are sent as http\/json/]);
  t.match(loadConfig({ GW_OTLP_ENDPOINT: 'http://x', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, false).warnings, [/GW_OTLP_ENDPOINT is set/]);
});
