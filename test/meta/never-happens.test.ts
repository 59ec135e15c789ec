// What never happens (invariants.yaml): each line has something that would fail. Below are those that only a look at
// the sources can hold.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';

interface Mark {
  readonly name: string;
  readonly file: string;
  readonly title: string | undefined;
}

interface Invariant {
  readonly name: string;
  readonly also: readonly string[];
  readonly tests: readonly Mark[];
}

const root = packageRoot();
const read = (file: string): string => readFileSync(join(root, file), 'utf8');
const { invariants, marks } = (await import(pathToFileURL(join(root, 'scripts', 'invariants.mjs')).href)) as {
  invariants(folder: string): readonly Invariant[];
  marks(folder: string): readonly Mark[];
};

/** The rules that are in force, by name; `types` is the compiler. */
function lintsInForce(): ReadonlySet<string> {
  const rules = (file: string, form: RegExp): string[] => [...read(file).matchAll(form)].map(([, name = '']) => name);
  return new Set([
    'types',
    ...rules('.dependency-cruiser.cjs', /^ +(?:error\()?'([\w-]+)',$/gm),
    ...rules('.dependency-cruiser.cjs', /error\('([\w-]+)'/g),
    ...rules('eslint.config.js', /'([\w@/-]+)': \[?'error'/g),
    ...rules('biome.json', /"(\w+)": (?:"error"|\{ "level": "error")/g),
  ]);
}

t.test('each line has something that would fail', async (t) => {
  const all = invariants(root);
  t.ok(all.length > 30);
  t.strictSame(
    all.filter(({ tests, also }) => tests.length + also.length === 0).map(({ name }) => name),
    [],
  );
  t.strictSame(new Set(all.map(({ name }) => name)).size, all.length);
});

t.test(
  'every comment that says what a test holds stands above a test, and names a line; every lint that is named is in force',
  async (t) => {
    const all = invariants(root);
    const names = new Set(all.map(({ name }) => name));
    t.strictSame(
      marks(root).filter(({ name, title }) => title === undefined || !names.has(name)),
      [],
    );
    const inForce = lintsInForce();
    const lints = all.flatMap(({ also }) => also.flatMap((one) => /^lint `(.+)`$/.exec(one)?.[1] ?? []));
    t.ok(lints.length > 5);
    t.strictSame(
      lints.filter((name) => !inForce.has(name)),
      [],
    );
  },
);

const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => `src/${file}`);

// Holds: one-door-out
t.test('no other room dials', async (t) => {
  /**
   * What opens a connection; in the command line it asks the gateway that its user names, and that of the demo; before
   * an enrolment it looks at who answers at `GW_CP_ADDR`.
   */
  const asking = ['src/cli/gateway-client.ts', 'src/cli/demo/demo-requests.ts', 'src/link/shown-authority.ts'];
  const dials =
    /import \{[^}]*\b(?:connect|request|createConnection|createSocket|get)\b[^}]*\} from 'node:(?:net|tls|http|https|http2|dgram)'|from 'undici|\b(?:net|tls|https?|http2|dgram)\.(?:connect|request|createConnection|createSocket|get)\(|new (?:Socket|WebSocket|EventSource|XMLHttpRequest)\(/;
  const found = sources.filter((file) => dials.test(read(file)));
  t.strictSame(
    found.filter((file) => !file.startsWith('src/outbound/net/') && !asking.includes(file)),
    [],
  );
  t.ok(
    found.some((file) => file.startsWith('src/outbound/net/')),
    'the look sees those that do',
  );
});

// Holds: keys-stay-in-their-rooms
t.test('no other room makes or opens a private key', async (t) => {
  /**
   * The root's; that by which the control plane knows a node; those of an issuer of delegation tokens and of a control
   * plane, which are in no gateway.
   */
  const rooms = [
    'src/inbound/ca/',
    'src/link/node-',
    'src/link/certificate-request.ts',
    'src/cli/delegate/signing-key.ts',
    'src/control-plane/pki/',
  ];
  const keys = /\b(?:createPrivateKey|generateKeyPair(?:Sync)?|asPrivateKey|privateKeyFromPem)\b/;
  const found = sources.filter((file) => keys.test(read(file)));
  t.strictSame(
    found.filter((file) => !rooms.some((room) => file.startsWith(room))),
    [],
  );
  t.ok(found.length > 0, 'the look sees those that do');
});

// Holds: upstreams-end-their-own-call
t.test('no handler of the whole process goes on behind a fault', async (t) => {
  t.strictSame(
    sources.filter((file) => /uncaughtException|unhandledRejection|setUncaughtExceptionCaptureCallback/.test(read(file))),
    [],
  );
});
