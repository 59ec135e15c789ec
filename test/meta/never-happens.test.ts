// "What never happens" in ARCHITECTURE.md: each line names what would fail, and that exists. Below are those that only a look at the sources can hold.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';

const root = packageRoot();
const read = (file: string): string => readFileSync(join(root, file), 'utf8');

/** The bullets of the section, each on one line. */
function claims(): readonly string[] {
  const text = read('ARCHITECTURE.md');
  const section = text.slice(text.indexOf('## What never happens'), text.indexOf('\n## Storage'));
  return section
    .split(/^\* /m)
    .slice(1)
    .map(
      (bullet) =>
        bullet
          .split(/\n\n|\n###/)[0]
          ?.replace(/\s+/g, ' ')
          .trim() ?? '',
    );
}

interface Proof {
  readonly file: string;
  readonly title: string;
}

/** Titles behind a semicolon without a file are of the file before. */
function proofsOf(claim: string): readonly Proof[] {
  let file = '';
  return [...claim.matchAll(/`(test\/[^`]+)`|\*([^*]+)\*/g)].flatMap(([, named, title]) => {
    if (named !== undefined) file = named;
    return title === undefined || file === '' ? [] : [{ file, title }];
  });
}

function lintsOf(claim: string): readonly string[] {
  return [...claim.matchAll(/lint `([^`]+)`/g)].map(([, name = '']) => name);
}

/** Whether the text is an argument of its own in the file, as titles are, and not part of another or of a comment. */
function holdsTitle({ file, title }: Proof): boolean {
  if (!existsSync(join(root, file))) return false;
  const text = read(file).replaceAll("\\'", "'");
  return ["'", '`', '"'].some((quote) => text.includes(`${quote}${title}${quote},`));
}

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

t.test('each line names what would fail', async (t) => {
  t.ok(claims().length > 30);
  t.strictSame(
    claims().filter((claim) => proofsOf(claim).length + lintsOf(claim).length === 0),
    [],
  );
});

t.test('every test and every lint that is named exists', async (t) => {
  const inForce = lintsInForce();
  const missing = claims().flatMap((claim) => [
    ...proofsOf(claim)
      .filter((proof) => !holdsTitle(proof))
      .map(({ file, title }) => `${file}: ${title}`),
    ...lintsOf(claim).filter((name) => !inForce.has(name)),
  ]);
  t.strictSame(missing, []);
});

const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => `src/${file}`);

t.test('no other room dials', async (t) => {
  /** What opens a connection; in the command line it asks the gateway that its user names, and that of the demo; before an enrolment it looks at who answers at `GW_CP_ADDR`. */
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

t.test('no other room makes or opens a private key', async (t) => {
  /** The root's; that by which the control plane knows a node; those of an issuer of delegation tokens and of a control plane, which are in no gateway. */
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

t.test('no handler of the whole process goes on behind a fault', async (t) => {
  t.strictSame(
    sources.filter((file) => /uncaughtException|unhandledRejection|setUncaughtExceptionCaptureCallback/.test(read(file))),
    [],
  );
});
