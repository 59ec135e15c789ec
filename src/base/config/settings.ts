import { LOG_FORMATS, LOG_LEVELS } from '../lib/log-forms.ts';
import { PLAN_TIERS } from '../model/org.ts';
import { CONSOLE_SETTINGS } from './console-settings.ts';
import { CONTROL_SETTINGS } from './control-settings.ts';
import * as delivery from './delivery-types.ts';
import { OTEL_SETTINGS } from './otel-settings.ts';
import { PRICE_SETTINGS } from './price-list-source.ts';
import * as type from './setting-types.ts';
import { optional, required, type Setting, secret } from './setting-types.ts';

/** Keyed by the member of `Config`, which is the variable in camel case without `GW_` (a test holds this). */
export const SETTINGS = {
  host: required(
    'GW_HOST',
    type.bindHost,
    '127.0.0.1',
    'Bind address of both ports. An address other than loopback needs an explicit `GW_PROXY_AUTH`.',
  ),
  port: required('GW_PORT', type.integer(0, 65_535), '7080', 'Port of the proxy, the API and the redirect door; `0` picks a free one.'),
  ambientPort: required(
    'GW_AMBIENT_PORT',
    type.integer(0, 65_535),
    '7081',
    'Second proxy port, whose traffic is classed `ambient`; `0` picks a free one.',
  ),
  mgmtPort: optional(
    'GW_MGMT_PORT',
    type.integer(0, 65_535),
    'Port of the management API and of MCP, which are then no longer on `GW_PORT`; `0` picks a free one.',
    'unset: they are on `GW_PORT`',
  ),
  tlsCertFile: optional(
    'GW_TLS_CERT_FILE',
    type.file,
    'PEM certificate of the gateway itself, with those that issued it behind it: all of its ports then speak TLS. Taken anew when the file changes.',
    'unset: the ports speak plain HTTP',
  ),
  tlsKeyFile: optional('GW_TLS_KEY_FILE', type.file, 'PEM key of that certificate, without a passphrase.'),
  publicNames: required(
    'GW_PUBLIC_NAMES',
    type.hostNames,
    '',
    'Names by which browsers and clients may address the gateway on a loopback bind.',
  ),
  publicUrl: optional(
    'GW_PUBLIC_URL',
    type.publicUrl,
    'Where people reach the management API, for the links and commands in alerts; its host is one of `GW_PUBLIC_NAMES` too.',
    'unset: alerts have a link only on a loopback bind',
  ),
  allowedOrigins: required(
    'GW_ALLOWED_ORIGINS',
    type.origins,
    '',
    'Browser origins whose pages may call the gateway and read what it answers.',
  ),
  trustedProxies: required(
    'GW_TRUSTED_PROXIES',
    type.ipRanges,
    '127.0.0.0/8,::1/128',
    'Peers whose `X-Forwarded-For` and `X-Real-IP` are believed.',
  ),
  adminToken: secret('GW_ADMIN_TOKEN', type.token, 'Token of the admin endpoints.', 'generated on first start, kept in the data folder'),

  secretsKey: secret(
    'GW_SECRETS_KEY',
    type.secretsKey,
    'Encrypts secrets at rest (AES-256-GCM): 32 bytes in base64.',
    'generated on first start, kept in the data folder',
  ),

  dataDir: required('GW_DATA_DIR', type.folder, './data', 'Folder of the embedded store and the admin token.'),
  caDir: required('GW_CA_DIR', type.folder, './ca', 'Folder of the root certificate, its key (mode 0600) and the trust bundle.'),
  policiesDir: required(
    'GW_POLICIES_DIR',
    type.folder,
    './policies',
    'Folder of `bundle.yaml`, its rule files, `addons/` and `overlays/`.',
  ),
  policiesWatch: required(
    'GW_POLICIES_WATCH',
    type.boolean,
    'false',
    'Takes changes of the policies folder at once; a change that does not load is logged and leaves the running bundle.',
  ),
  policiesShadow: optional(
    'GW_POLICIES_SHADOW',
    type.folderOrFile,
    'A second bundle, evaluated beside the active one and never enforced: a policies folder, or a file in the place of its `bundle.yaml`.',
  ),

  configDir: optional(
    'GW_CONFIG_DIR',
    type.folderOrNone,
    'Folder of the user in which a start notes where the gateway is, so that `gw` finds it from any folder; `none`: nowhere.',
    "`ai-request-gateway` in the user's configuration folder",
  ),
  credentialsDir: required(
    'GW_CREDENTIALS_DIR',
    type.folder,
    './credentials',
    'Folder of `*.yaml` credential files, read at start and on reload.',
  ),
  oauthPassthrough: required(
    'GW_OAUTH_PASSTHROUGH',
    type.names,
    '',
    'Connectors whose callers may bring their own `Authorization` (OAuth), which then goes ahead of a stored credential.',
  ),

  actionTypeConnectors: required(
    'GW_ACTION_TYPE_CONNECTORS',
    type.actionTypes,
    '',
    'Connectors that take the structured calls of an `action.type` whatever their `target_host`, as `TYPE=CONNECTOR`.',
  ),

  ...PRICE_SETTINGS,
  meterInjectUsage: required(
    'GW_METER_INJECT_USAGE',
    type.choice(['capped', 'true', 'false']),
    'capped',
    'Asks for the usage of OpenAI streams whose callers do not, and takes the event that reports it out of what they see: `capped` where a cap or a budget limit watches the call, `true` always, `false` never.',
  ),

  streamStopAtCap: required(
    'GW_STREAM_STOP_AT_CAP',
    type.boolean,
    'false',
    'Ends a stream that would pass its cap, with an error as its last event; its record is charged for what was seen of it.',
  ),

  orgId: optional(
    'GW_ORG_ID',
    type.identifier,
    'The one org that this gateway serves; a request of another org is denied.',
    'unset: any org is taken as given',
  ),
  nodeId: optional('GW_NODE_ID', type.nodeName, 'Name of this gateway in records and in `Via`.', 'derived from host name and data folder'),
  planTier: required(
    'GW_PLAN_TIER',
    type.choice(PLAN_TIERS),
    'enterprise',
    'Tier of the org, which decides which policy layers may be used; that of a control plane counts over it.',
  ),

  proxyEnabled: required('GW_PROXY_ENABLED', type.boolean, 'true', 'Transparent proxy mode and the CONNECT proxy.'),
  proxyMitmEnabled: required(
    'GW_PROXY_MITM_ENABLED',
    type.boolean,
    'true',
    'TLS interception of AI hosts; `false`: they are decided by host alone.',
  ),
  proxyNonAi: required(
    'GW_PROXY_NON_AI',
    type.choice(['pass', 'inspect', 'govern-ai', 'govern']),
    'pass',
    'What happens to hosts that are not AI hosts. `pass`: they are tunnelled unopened. `inspect`: opened, requests are counted, nothing is kept. `govern-ai`: as `pass`, but a known AI domain without a connector goes through policy by host. `govern`: opened, and each request goes through policy.',
  ),
  proxyAuth: required(
    'GW_PROXY_AUTH',
    type.choice(['optional', 'required']),
    'optional',
    '`required`: 407 without a valid workload token or API key; on the structured API 401, before its body is read.',
    '`optional`; no default when `GW_HOST` is not loopback',
  ),
  managedMode: required(
    'GW_MANAGED_MODE',
    type.boolean,
    'false',
    'Every caller must show an API key, on every door.',
    '`true` when `GW_GATEWAY_MODE=managed`, else `false`',
  ),
  gatewayMode: required(
    'GW_GATEWAY_MODE',
    type.choice(['self-hosted', 'managed']),
    'self-hosted',
    'With a control plane: `self-hosted` checks in with it, `managed` holds a stream of its updates open.',
  ),
  cpAddr: optional(
    'GW_CP_ADDR',
    type.hostAndPort,
    'Control plane, `host:port` of its gRPC port. Policy, workloads, credentials and API keys are then its own, and hashes of records go to its ledger.',
    'unset: free mode, on local files alone',
  ),
  cpCaFile: optional(
    'GW_CP_CA_FILE',
    type.certificateFile,
    'CA of the control plane, PEM. Not needed to enrol: the bootstrap token says which CA it is.',
  ),
  bootstrapToken: secret(
    'GW_BOOTSTRAP_TOKEN',
    type.token,
    'Single-use token of the first enrolment with the control plane; read only while there is no valid certificate.',
  ),
  keyDir: required(
    'GW_KEY_DIR',
    type.folder,
    './keys',
    'Folder of the key (mode 0600) and the certificate that the control plane knows this node by.',
  ),
  checkinIdleThreshold: required(
    'GW_CHECKIN_IDLE_THRESHOLD',
    type.duration('1ms'),
    '60s',
    'A check-in is due when nothing went to the control plane for so long; less than 30 s counts as 30 s.',
  ),
  proxyBypass: required('GW_PROXY_BYPASS', type.hostPatterns, '', 'Hosts that are tunnelled and never intercepted.'),
  connectorHostsDeny: required(
    'GW_CONNECTOR_HOSTS_DENY',
    type.hostPatterns,
    '',
    'Hosts at which no org may have a connector of its own. Hosts of the registry and names of `GW_PUBLIC_NAMES` are such without being named.',
  ),
  connectPorts: required('GW_CONNECT_PORTS', type.ports, '443,80', 'Ports that CONNECT may name.'),
  maxTunnels: required(
    'GW_MAX_TUNNELS',
    type.integer(1, 1_000_000),
    '10000',
    'Open tunnels and WebSockets; above it, and for one client above half of it, both are answered 429. As many HTTP calls may be under way (1,024 at least), and twice as many connections open.',
  ),

  upstreamConnectTo: required(
    'GW_UPSTREAM_CONNECT_TO',
    type.connectTo,
    '',
    "Where to really connect for a host, as with curl's `--connect-to`; TLS name and `Host` stay.",
  ),
  upstreamProxy: secret(
    'GW_UPSTREAM_PROXY',
    type.proxyAddress,
    'Parent proxy that upstream connections go through, but for hosts of `GW_UPSTREAM_CONNECT_TO`. It resolves the names.',
  ),
  upstreamCaFile: optional('GW_UPSTREAM_CA_FILE', type.certificateFile, "Trusted for upstream TLS in addition to the system's roots."),
  upstreamHeadersTimeout: required(
    'GW_UPSTREAM_HEADERS_TIMEOUT',
    type.duration('100ms'),
    '10m',
    "Longest wait for the first byte of an upstream's answer.",
  ),
  upstreamIdleTimeout: required('GW_UPSTREAM_IDLE_TIMEOUT', type.duration('100ms'), '5m', "Longest silence inside an upstream's answer."),
  egressAllow: required(
    'GW_EGRESS_ALLOW',
    type.egressAllow,
    '',
    'Exempt from the rule that requests may not reach loopback, private, link-local or metadata addresses.',
  ),

  maxBodyBytes: required(
    'GW_MAX_BODY_BYTES',
    type.integer(1_024, 1_073_741_824),
    '33554432',
    'Largest request body that policy holds to read it; above it: 413. Files of a form pass at any size once its fields are known.',
  ),
  maxBufferedBytes: required(
    'GW_MAX_BUFFERED_BYTES',
    type.integer(1_024, 1_099_511_627_776),
    '268435456',
    'All buffered bodies together, as they arrive; above it, and for one client above half of it: 503 with `Retry-After`.',
  ),

  ratelimitRefillRate: required(
    'GW_RATELIMIT_REFILL_RATE',
    type.integer(1, 1_000_000_000),
    '60000',
    'Tokens that each workload gets per window, until a configuration is PUT.',
  ),
  ratelimitMaxTokens: required(
    'GW_RATELIMIT_MAX_TOKENS',
    type.integer(1, 1_000_000_000),
    '10000',
    'Most tokens that a workload can have in hand.',
  ),
  ratelimitWindow: required('GW_RATELIMIT_WINDOW', type.durationText('1ms', '24h'), '1m', 'Window of the refill rate.'),

  monthlyRequestLimit: optional(
    'GW_MONTHLY_REQUEST_LIMIT',
    type.integer(0, 1_000_000_000_000),
    'Requests per org and UTC calendar month; counted from when it is set.',
    'unset: no limit',
  ),
  overageEnabled: required('GW_OVERAGE_ENABLED', type.boolean, 'false', 'Lets requests pass the monthly limit.'),

  recordFsync: required(
    'GW_RECORD_FSYNC',
    type.fsyncMode,
    '1s',
    'When records are forced to the disk: after each write, at an interval, or never. Records survive the death of the process in any case.',
  ),
  databaseUrl: secret(
    'GW_DATABASE_URL',
    type.databaseUrl,
    'PostgreSQL that this gateway shares with others: records, counters and what people set up live there. The data folder keeps the journal of this node.',
    'unset: all is in the data folder',
  ),
  redisDownPolicy: required(
    'GW_REDIS_DOWN_POLICY',
    type.choice(['deny', 'allow']),
    'deny',
    'With `GW_DATABASE_URL`: what becomes of a call under a cap of which this node holds too little while the database is away. `deny`: 503 `limits_unavailable`; `allow`: it goes on, and is counted here alone. What a control plane says of its org counts over it.',
  ),
  journalKeep: required(
    'GW_JOURNAL_KEEP',
    type.duration('1h', '3650d'),
    '24h',
    'With `GW_DATABASE_URL`: how long a node keeps what the database has, so that one that was restored to an earlier moment can be fed again.',
  ),
  strangerRecords: required(
    'GW_STRANGER_RECORDS',
    type.recordRate,
    '50/1000',
    'Records per second, and at once, of refused calls from one address whose callers have shown nothing; more are counted in one record a minute.',
  ),
  recordRetention: required('GW_RECORD_RETENTION', type.duration('1m', '36500d'), '90d', 'Age at which records are removed.'),

  ...CONTROL_SETTINGS,

  ...CONSOLE_SETTINGS,

  auditRetention: required('GW_AUDIT_RETENTION', type.duration('1d', '36500d'), '400d', 'Age at which audit entries are removed.'),

  smtpUrl: secret('GW_SMTP_URL', delivery.smtpUrl, 'Mail server that alerts go by.'),
  smtpFrom: optional('GW_SMTP_FROM', delivery.mailAddress, 'Sender of alert mails; needed with `GW_SMTP_URL`.'),
  slackSigningSecret: secret(
    'GW_SLACK_SIGNING_SECRET',
    type.token,
    'Signing secret of the Slack app whose messages have buttons to approve and deny; without it they have the link alone.',
  ),
  exportWebhookUrl: secret('GW_EXPORT_WEBHOOK_URL', delivery.webhookUrl, 'Webhook that every event is sent to.'),
  exportWebhookToken: secret('GW_EXPORT_WEBHOOK_TOKEN', type.token, 'Bearer token of that webhook.'),
  exportSyslogAddr: optional('GW_EXPORT_SYSLOG_ADDR', delivery.syslogAddress, 'Syslog server that every event is sent to.'),
  telemetryUrl: optional(
    'GW_TELEMETRY_URL',
    delivery.telemetryUrl,
    'Where usage reports go; nothing is collected or sent while it is unset. With `GW_CP_ADDR` they go to the control plane, and this is not used.',
  ),
  telemetryEnabled: required(
    'GW_TELEMETRY_ENABLED',
    type.boolean,
    'true',
    'Usage reports; `false` switches them off, whatever the URL is and with a control plane, too.',
  ),

  ...OTEL_SETTINGS,

  discoveryEnabled: required('GW_DISCOVERY_ENABLED', type.boolean, 'true', 'Counting of the domains that traffic goes to.'),

  metricsEnabled: required('GW_METRICS_ENABLED', type.boolean, 'true', '`/metrics`.'),
  metricsToken: secret('GW_METRICS_TOKEN', type.token, 'When set, `/metrics` needs it as a bearer token.'),
  healthzStartupGrace: required('GW_HEALTHZ_STARTUP_GRACE', type.duration('0', '1h'), '10s', 'How long `/healthz` says `starting`.'),
  drainTimeout: required(
    'GW_DRAIN_TIMEOUT',
    type.duration('0', '1h'),
    '30s',
    'How long running requests may take to end after SIGTERM; what is left then is cut.',
  ),
  logLevel: required(
    'GW_LOG_LEVEL',
    type.choice(LOG_LEVELS),
    'info',
    'Lowest level that is written; `trace` adds a line for each stage of a call.',
  ),
  logFormat: required('GW_LOG_FORMAT', type.choice(LOG_FORMATS), 'json', 'Form of the log.', '`json`; `pretty` on a terminal'),
} as const satisfies Record<string, Setting<unknown>>;

type ValueOf<S> = S extends Setting<infer T> ? T : never;

/** Every setting as a value that is ready to use: durations in milliseconds, folders absolute, lists as sets. */
export type SettingValues = { readonly [K in keyof typeof SETTINGS]: ValueOf<(typeof SETTINGS)[K]> };
