import * as type from './setting-types.ts';
import { optional, secret } from './setting-types.ts';

const URL_TEXT = type.freeText('URL', 'an `https` or `http` URL without user and password');
const HEADERS = type.freeText('headers', 'comma-separated `NAME=VALUE`, values percent-encoded');
const MILLISECONDS = type.freeText('milliseconds', 'a whole number from 1 to 600000');
const PROTOCOL = type.freeText(
  'protocol',
  '`http/json`; `http/protobuf` is a warning, since JSON is sent all the same; `grpc` stops the start',
);
const COMPRESSION = type.freeText('compression', '`gzip` or `none`');
const TRACES = 'Traces only; goes before the variable without `TRACES_`.';

/**
 * Where traces go. The `OTEL_*` variables are OpenTelemetry's own and often there for other programs: they are read as
 * texts, and looked at where traces are sent (trace-settings.ts), so that what is meant for others stops no gateway
 * that sends none.
 */
export const OTEL_SETTINGS = {
  otlpEndpoint: secret(
    'GW_OTLP_ENDPOINT',
    URL_TEXT,
    'OTLP/HTTP receiver of traces, such as `http://127.0.0.1:4318`; `/v1/traces` is added where it is not there. Goes before the `OTEL_*` ones.',
    'unset: no traces, unless an `OTEL_*` endpoint is set',
  ),
  otlpSampleRatio: optional(
    'GW_OTLP_SAMPLE_RATIO',
    type.decimal(0, 1),
    'Share of calls that are traced where the caller does not say it in `traceparent`. Goes before `OTEL_TRACES_SAMPLER`.',
    'unset: all',
  ),
  otelExporterOtlpEndpoint: secret('OTEL_EXPORTER_OTLP_ENDPOINT', URL_TEXT, 'As `GW_OTLP_ENDPOINT`; `/v1/traces` is always added.'),
  otelExporterOtlpTracesEndpoint: secret('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', URL_TEXT, 'Whole URL that traces are posted to.'),
  otelExporterOtlpHeaders: secret('OTEL_EXPORTER_OTLP_HEADERS', HEADERS, 'Sent with each request to the receiver.'),
  otelExporterOtlpTracesHeaders: secret('OTEL_EXPORTER_OTLP_TRACES_HEADERS', HEADERS, 'The same; of one name these count.'),
  otelExporterOtlpTimeout: optional('OTEL_EXPORTER_OTLP_TIMEOUT', MILLISECONDS, 'How long the receiver may take to answer.', '`10000`'),
  otelExporterOtlpTracesTimeout: optional('OTEL_EXPORTER_OTLP_TRACES_TIMEOUT', MILLISECONDS, TRACES),
  otelExporterOtlpProtocol: optional('OTEL_EXPORTER_OTLP_PROTOCOL', PROTOCOL, 'How spans are sent.', '`http/json`'),
  otelExporterOtlpTracesProtocol: optional('OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', PROTOCOL, TRACES),
  otelExporterOtlpCompression: optional('OTEL_EXPORTER_OTLP_COMPRESSION', COMPRESSION, 'Of what is sent.', '`none`'),
  otelExporterOtlpTracesCompression: optional('OTEL_EXPORTER_OTLP_TRACES_COMPRESSION', COMPRESSION, TRACES),
  otelServiceName: optional(
    'OTEL_SERVICE_NAME',
    type.freeText('name', 'any text'),
    'Name of this gateway in traces.',
    '`ai-request-gateway`',
  ),
  otelResourceAttributes: optional(
    'OTEL_RESOURCE_ATTRIBUTES',
    type.freeText('attributes', 'comma-separated `NAME=VALUE`, values percent-encoded'),
    'Attributes of this gateway in traces, such as `deployment.environment.name=production`.',
  ),
  otelTracesSampler: optional(
    'OTEL_TRACES_SAMPLER',
    type.freeText('choice', '`always_on`, `always_off`, `traceidratio`, or one of them behind `parentbased_`'),
    'Which calls are traced.',
    '`parentbased_always_on`',
  ),
  otelTracesSamplerArg: optional(
    'OTEL_TRACES_SAMPLER_ARG',
    type.freeText('number', 'a number from 0 to 1'),
    'Share of the samplers that have `traceidratio` in their name.',
    '`1`',
  ),
  otelTracesExporter: optional(
    'OTEL_TRACES_EXPORTER',
    type.freeText('choice', '`otlp` or `none`'),
    '`none`: no traces, unless `GW_OTLP_ENDPOINT` is set.',
    '`otlp`',
  ),
  otelSdkDisabled: optional(
    'OTEL_SDK_DISABLED',
    type.freeText('boolean', '`true` or `false`'),
    '`true`: no traces, whatever else is set.',
    '`false`',
  ),
};
