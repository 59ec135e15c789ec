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

/** Where the lints are that a claim may name; `types` is the compiler. */
const LINTS = ['.dependency-cruiser.cjs', 'eslint.config.js', 'biome.json'].filter((file) => existsSync(join(root, file)));

t.test('each line names what would fail', async (t) => {
  t.ok(claims().length > 30);
  t.strictSame(
    claims().filter((claim) => proofsOf(claim).length + lintsOf(claim).length === 0),
    [],
  );
});

t.test('every test and every lint that is named exists', async (t) => {
  const missing = claims().flatMap((claim) => [
    ...proofsOf(claim)
      .filter(({ file, title }) => !existsSync(join(root, file)) || !read(file).replaceAll("\\'", "'").includes(title))
      .map(({ file, title }) => `${file}: ${title}`),
    ...lintsOf(claim).filter((name) => name !== 'types' && !LINTS.some((file) => read(file).includes(name))),
  ]);
  t.strictSame(missing, []);
});

const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => `src/${file}`);

t.test('no other room dials', async (t) => {
  /** What opens a connection; in the command line it asks the gateway that its user names. */
  const dials =
    /import \{[^}]*\b(?:connect|request|createConnection|createSocket|get)\b[^}]*\} from 'node:(?:net|tls|http|https|http2|dgram)'|\b(?:net|tls|https?|http2|dgram)\.(?:connect|request|createConnection|createSocket|get)\(|new (?:WebSocket|EventSource|XMLHttpRequest)\(/;
  const found = sources.filter((file) => dials.test(read(file)));
  t.strictSame(
    found.filter((file) => !file.startsWith('src/outbound/net/') && file !== 'src/cli/policy/gateway-client.ts'),
    [],
  );
  t.ok(
    found.some((file) => file.startsWith('src/outbound/net/')),
    'the look sees those that do',
  );
});

t.test('no handler of the whole process goes on behind a fault', async (t) => {
  t.strictSame(
    sources.filter((file) => /uncaughtException|unhandledRejection|setUncaughtExceptionCaptureCallback/.test(read(file))),
    [],
  );
});
