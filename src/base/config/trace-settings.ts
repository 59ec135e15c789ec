import { percentDecoded } from '../lib/text.ts';
import { readWebAddress, type WebAddress } from '../lib/web-address.ts';
import { OTEL_SETTINGS } from './otel-settings.ts';

/** Which calls are traced: `ratio` of those whose caller has not said it, or of all where `parentBased` is false. */
export interface SamplerConfig {
  readonly parentBased: boolean;
  /** 0 to 1. */
  readonly ratio: number;
}

/** Where spans go, and how. */
export interface TraceConfig {
  readonly to: WebAddress;
  /** Flat name, value list; secret. */
  readonly headers: readonly string[];
  /** Milliseconds. */
  readonly timeoutMs: number;
  readonly gzip: boolean;
  readonly sampler: SamplerConfig;
  /** Of the resource; `service.name` is always there. */
  readonly resource: Readonly<Record<string, string>>;
}

type TextMember = Exclude<keyof typeof OTEL_SETTINGS, 'otlpSampleRatio'>;

/** The values of {@link OTEL_SETTINGS}. */
export type OtelValues = { readonly [M in TextMember]?: string | undefined } & { readonly otlpSampleRatio?: number | undefined };

/** What came of them: undefined `traces` sends none. */
export interface ReadTraces {
  readonly traces: TraceConfig | undefined;
  /** By variable; none of a secret says its value. */
  readonly problems: readonly (readonly [variable: string, message: string])[];
  readonly warnings: readonly string[];
}

const NO_TRACES: ReadTraces = { traces: undefined, problems: [], warnings: [] };
const TRACES_PATH = '/v1/traces';
const DEFAULT_TIMEOUT_MS = 10_000;
const MAX_TIMEOUT_MS = 600_000;
const SERVICE_NAME = 'ai-request-gateway';
const RATIOS: Readonly<Record<string, number | 'arg'>> = { always_on: 1, always_off: 0, traceidratio: 'arg' };
const PARENT_BASED = 'parentbased_';
const DISABLE = 'OTEL_SDK_DISABLED=true keeps this gateway from sending traces';

/** Reads what the settings of traces mean together (decision 12.7). */
export function readTraces(values: OtelValues): ReadTraces {
  if (isOff(values)) return NO_TRACES;
  const reader = new Reader(values);
  const traces = reader.read();
  return { traces: reader.problems.length > 0 ? undefined : traces, problems: reader.problems, warnings: reader.warnings };
}

function isOff(values: OtelValues): boolean {
  const { otelSdkDisabled, otlpEndpoint, otelTracesExporter, otelExporterOtlpTracesEndpoint, otelExporterOtlpEndpoint } = values;
  if (otelSdkDisabled?.toLowerCase() === 'true') return true;
  if (otlpEndpoint !== undefined) return false;
  return otelTracesExporter === 'none' || (otelExporterOtlpTracesEndpoint ?? otelExporterOtlpEndpoint) === undefined;
}

class Reader {
  readonly problems: [variable: string, message: string][] = [];
  readonly warnings: string[] = [];
  readonly #values: OtelValues;

  constructor(values: OtelValues) {
    this.#values = values;
  }

  read(): TraceConfig | undefined {
    this.#checkExporter();
    this.#checkProtocol();
    const to = this.#endpoint();
    const headers = [...this.#headers('otelExporterOtlpHeaders'), ...this.#headers('otelExporterOtlpTracesHeaders')];
    const traces = {
      headers: [...new Map(headers)].flat(),
      timeoutMs: this.#timeout(),
      gzip: this.#gzip(),
      sampler: this.#sampler(),
      resource: this.#resource(),
    };
    return to && { to, ...traces };
  }

  #refuse(member: keyof typeof OTEL_SETTINGS, said: string): void {
    const { variable, secret, type } = OTEL_SETTINGS[member];
    const value = secret ? 'its value' : JSON.stringify(String(this.#values[member]).slice(0, 80));
    this.problems.push([variable, `${variable}: ${value} is not allowed${said}; it takes ${type.allowed}`]);
  }

  #checkExporter(): void {
    const { otelTracesExporter: exporter } = this.#values;
    if (exporter !== undefined && exporter !== 'otlp' && exporter !== 'none') this.#refuse('otelTracesExporter', ` (${DISABLE})`);
  }

  /** Nobody who says `grpc` names a port that understands HTTP; receivers of protobuf take JSON at the same address. */
  #checkProtocol(): void {
    const member = this.#first('otelExporterOtlpTracesProtocol', 'otelExporterOtlpProtocol');
    const protocol = member && this.#values[member];
    if (member === undefined || protocol === 'http/json') return;
    const { variable } = OTEL_SETTINGS[member];
    if (protocol === 'http/protobuf')
      this.warnings.push(`${variable}: spans are sent as http/json, which receivers of http/protobuf take too`);
    else if (this.#values.otlpEndpoint !== undefined)
      this.warnings.push(`${variable}: spans are sent as http/json, since GW_OTLP_ENDPOINT is set`);
    else this.#refuse(member, ` (only OTLP over HTTP is spoken, mostly on port 4318; ${DISABLE})`);
  }

  #endpoint(): WebAddress | undefined {
    const member = this.#first('otlpEndpoint', 'otelExporterOtlpTracesEndpoint', 'otelExporterOtlpEndpoint');
    if (member === undefined) return undefined;
    const address = readWebAddress(this.#values[member] ?? '', () => true, true);
    if (typeof address === 'string') {
      this.#refuse(member, ` (it ${address})`);
      return undefined;
    }
    if (member === 'otelExporterOtlpTracesEndpoint') return address;
    const [path = '', query] = address.path.split('?', 2);
    const base = path.replace(/\/+$/, '');
    const whole = member === 'otlpEndpoint' && base.endsWith(TRACES_PATH) ? base : `${base}${TRACES_PATH}`;
    return { ...address, path: query === undefined ? whole : `${whole}?${query}` };
  }

  /** Lower-case names. */
  #headers(member: 'otelExporterOtlpHeaders' | 'otelExporterOtlpTracesHeaders'): [name: string, value: string][] {
    const pairs = pairsOf(this.#values[member] ?? '');
    const ok = pairs?.every(([name, value]) => /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) && /^[\x20-\x7e]*$/.test(value));
    if (pairs === undefined || !ok) {
      this.#refuse(member, '');
      return [];
    }
    return pairs.map(([name, value]) => [name.toLowerCase(), value]);
  }

  #timeout(): number {
    const member = this.#first('otelExporterOtlpTracesTimeout', 'otelExporterOtlpTimeout');
    if (member === undefined) return DEFAULT_TIMEOUT_MS;
    const text = this.#values[member] ?? '';
    const ms = /^\d{1,6}$/.test(text) ? Number(text) : 0;
    if (ms < 1 || ms > MAX_TIMEOUT_MS) this.#refuse(member, '');
    return ms;
  }

  #gzip(): boolean {
    const member = this.#first('otelExporterOtlpTracesCompression', 'otelExporterOtlpCompression');
    const compression = (member && this.#values[member]) ?? 'none';
    if (member !== undefined && compression !== 'gzip' && compression !== 'none') this.#refuse(member, '');
    return compression === 'gzip';
  }

  #sampler(): SamplerConfig {
    const { otlpSampleRatio, otelTracesSampler = 'parentbased_always_on' } = this.#values;
    if (otlpSampleRatio !== undefined) return { parentBased: true, ratio: otlpSampleRatio };
    const name = otelTracesSampler.toLowerCase();
    const parentBased = name.startsWith(PARENT_BASED);
    const root = parentBased ? name.slice(PARENT_BASED.length) : name;
    const ratio = Object.hasOwn(RATIOS, root) ? RATIOS[root] : undefined;
    if (ratio === undefined) this.#refuse('otelTracesSampler', '');
    return { parentBased, ratio: ratio === 'arg' ? this.#ratio() : (ratio ?? 1) };
  }

  #ratio(): number {
    const { otelTracesSamplerArg: text = '1' } = this.#values;
    const ratio = /^(?:\d{1,2}(?:\.\d{0,20})?|\.\d{1,20})$/.test(text) ? Number(text) : Number.NaN;
    if (!(ratio <= 1)) this.#refuse('otelTracesSamplerArg', '');
    return ratio;
  }

  #resource(): Readonly<Record<string, string>> {
    const { otelServiceName, otelResourceAttributes = '' } = this.#values;
    const pairs = pairsOf(otelResourceAttributes);
    if (pairs === undefined) this.#refuse('otelResourceAttributes', '');
    const own = { 'service.name': SERVICE_NAME, ...Object.fromEntries(pairs ?? []) };
    return otelServiceName === undefined ? own : { ...own, 'service.name': otelServiceName };
  }

  #first<M extends keyof OtelValues>(...members: readonly M[]): M | undefined {
    return members.find((member) => this.#values[member] !== undefined);
  }
}

/** Undefined where it is no such list. */
function pairsOf(text: string): [name: string, value: string][] | undefined {
  const pairs: [string, string][] = [];
  for (const item of text.split(',')) {
    const whole = item.trim();
    if (whole === '') continue;
    const at = whole.indexOf('=');
    const name = percentDecoded(whole.slice(0, Math.max(at, 0)).trim());
    const value = percentDecoded(whole.slice(at + 1).trim());
    if (at < 1 || !name || value === undefined) return undefined;
    pairs.push([name, value]);
  }
  return pairs;
}
