import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { shellVariable } from '../../base/config/settings-reader.ts';
import { SELF_TEST_HOST } from '../../base/lib/host.ts';
import { findProgram, type Ran, runProgram } from '../trust/run-program.ts';
import { type Finding, ok, type Patient, skipped, warning, wrong } from './finding.ts';

const URL_TEXT = `https://${SELF_TEST_HOST}/`;
const ANSWERED = /"self_test": ?"ok"/;
/** It came through, and no call of it would. */
const REFUSED = /"caller": ?"refused"/;
/** What is wrong with what it showed, as the gateway says. */
const PROBLEM = /"caller_problem": ?"([^"\\]*)"/;
const TOKEN_REMEDY = 'eval "$(gw env --workload ID --token-file FILE)", with a token of "gw workloads token ID" (docs/guides/api-keys.md)';
const SOON_MS = 20_000;
/** It is compiled first. */
const COMPILED_MS = 180_000;

/** A program that connects to the self-test as programs of its kind connect to a provider. */
export interface Runtime {
  readonly id: string;
  readonly program: string;
  /** Tried only when `--for` names it: it takes long. */
  readonly slow?: true;
  readonly timeoutMs: number;
  /** A source beside it, in a folder of its own. */
  readonly source?: readonly [name: string, text: string];
  readonly args: (folder: string, env: Patient['env']) => readonly string[];
  /** Besides the answer itself, what only comes after a handshake. */
  readonly passed?: RegExp;
  readonly trust: string;
  readonly proxy: string;
}

const PYTHON = `import urllib.request
try:
    import httpx
    print(httpx.get("${URL_TEXT}").text)
except ImportError:
    print(urllib.request.urlopen("${URL_TEXT}").read().decode())
`;
const GO = `package main
import ("fmt"; "io"; "net/http"; "os")
func main() {
  answer, err := http.Get("${URL_TEXT}")
  if err != nil { fmt.Fprintln(os.Stderr, err); os.Exit(1) }
  body, _ := io.ReadAll(answer.Body)
  fmt.Println(string(body))
}
`;
const JAVA = `public class Probe {
  public static void main(String[] args) throws Exception {
    try (var in = new java.net.URL("${URL_TEXT}").openStream()) { System.out.write(in.readAllBytes()); System.out.flush(); }
  }
}
`;
const NODE = `fetch('${URL_TEXT}').then((answer) => answer.text()).then(console.log, (error) => { console.error(error.cause ?? error); process.exit(1); })`;

export const RUNTIMES: readonly Runtime[] = [
  {
    id: 'node',
    program: 'node',
    timeoutMs: SOON_MS,
    args: () => ['-e', NODE],
    trust: 'NODE_EXTRA_CA_CERTS=root-ca.pem, set before it starts: eval "$(gw env)"',
    proxy: 'Node’s fetch needs NODE_USE_ENV_PROXY=1 (from 22.21), and Node 20 NODE_OPTIONS of gw env: eval "$(gw env)"',
  },
  {
    id: 'python',
    program: 'python3',
    timeoutMs: SOON_MS,
    args: () => ['-c', PYTHON],
    trust: 'SSL_CERT_FILE=ca-bundle.pem (REQUESTS_CA_BUNDLE for requests): eval "$(gw env)"',
    proxy: 'set HTTPS_PROXY, and take * and AI hosts out of NO_PROXY: eval "$(gw env)"',
  },
  {
    id: 'curl',
    program: 'curl',
    timeoutMs: SOON_MS,
    args: () => ['-sS', '-m', '15', URL_TEXT],
    trust: 'CURL_CA_BUNDLE=ca-bundle.pem, or gw trust install --store system',
    proxy: 'set https_proxy, and take * and AI hosts out of NO_PROXY: eval "$(gw env)"',
  },
  {
    id: 'git',
    program: 'git',
    timeoutMs: SOON_MS,
    args: () => ['ls-remote', `${URL_TEXT}self-test.git`],
    // What answers is no repository, which it finds out behind the handshake.
    passed: /not valid: (?:is this|could not)/,
    trust: 'GIT_SSL_CAINFO=ca-bundle.pem, or gw trust install --store system',
    proxy: 'set https_proxy, and look at git config http.proxy',
  },
  {
    id: 'java',
    program: 'java',
    slow: true,
    timeoutMs: COMPILED_MS,
    source: ['Probe.java', JAVA],
    args: (folder, env) => [...javaProxy(env), join(folder, 'Probe.java')],
    trust: 'gw trust install --store java',
    proxy: 'Java reads no variables: give -Dhttps.proxyHost and -Dhttps.proxyPort, in JAVA_TOOL_OPTIONS for all',
  },
  {
    id: 'go',
    program: 'go',
    slow: true,
    timeoutMs: COMPILED_MS,
    source: ['probe.go', GO],
    args: (folder) => ['run', join(folder, 'probe.go')],
    trust: 'SSL_CERT_FILE=ca-bundle.pem (on macOS the keychain: gw trust install --store system)',
    proxy: 'set HTTPS_PROXY, and take * and AI hosts out of NO_PROXY: eval "$(gw env)"',
  },
  {
    id: 'chromium',
    program: 'chromium',
    slow: true,
    timeoutMs: COMPILED_MS,
    args: (folder, env) => [
      ...[
        '--headless',
        '--disable-gpu',
        '--disable-dev-shm-usage',
        '--disable-background-networking',
        '--dump-dom',
        `--user-data-dir=${folder}`,
      ],
      ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
      ...(proxyOf(env) === undefined ? [] : [`--proxy-server=${proxyOf(env)}`]),
      URL_TEXT,
    ],
    trust: 'gw trust install --store nss',
    proxy: 'start it with --proxy-server, or use the address /proxy.pac of the gateway',
  },
];

/** What programs say when they did not get so far; the first that fits counts. */
const SAYINGS: readonly (readonly [says: RegExp, fault: 'auth' | 'ignored' | 'trust' | 'unreached'])[] = [
  [/\b407\b/, 'auth'],
  [
    /ECONNREFUSED|onnection refused|(?:Could not|Couldn't) (?:resolve proxy|connect)|Failed to connect|ERR_PROXY_CONNECTION|ConnectError: \[Errno 111\]/,
    'unreached',
  ],
  [/certificate|CERT_|self[- ]signed|verify failed|PKIX|ERR_CERT|unknown authority|DEPTH_ZERO|UNABLE_TO_(?:GET|VERIFY)/i, 'trust'],
  [
    /ENOTFOUND|EAI_AGAIN|resolve host|no such host|UnknownHost|Name or service not known|nodename nor servname|name resolution|No address associated|ERR_NAME_NOT_RESOLVED|server misbehaving/i,
    'ignored',
  ],
];

export function proxyOf(env: Patient['env']): string | undefined {
  return ['https_proxy', 'HTTPS_PROXY'].map((name) => shellVariable(name, env)).find((value) => value !== undefined);
}

/** What its options say, else what the variables say to the others, so that trust can be tried at all. */
function javaProxy(env: Patient['env']): readonly string[] {
  const given = proxyOf(env);
  if (/https\.proxyHost/.test(shellVariable('JAVA_TOOL_OPTIONS', env) ?? '') || given === undefined || !URL.canParse(given)) return [];
  const { hostname, port } = new URL(given);
  return [`-Dhttps.proxyHost=${hostname}`, `-Dhttps.proxyPort=${port}`];
}

/**
 * Has each runtime that is there connect to the gateway's self-test with the variables of this shell (decision 12.11).
 */
export async function tryRuntimes(patient: Patient): Promise<readonly Finding[]> {
  const { runtimes: named, health, env } = patient;
  if (health.kind !== 'gateway') return [skipped('runtimes', 'no gateway answers, so that nothing can be tried')];
  if (named.length === 0 && proxyOf(env) === undefined)
    return [skipped('runtimes', 'HTTPS_PROXY is not set in this shell: nothing would come to the gateway (--for tries all the same)')];
  const findings: Finding[] = [];
  for (const runtime of RUNTIMES) {
    if (named.length === 0 ? !runtime.slow : named.includes(runtime.id)) findings.push(await tryOne(runtime, patient));
  }
  return findings;
}

async function tryOne(runtime: Runtime, { env, runtimes }: Patient): Promise<Finding> {
  const program = findProgram(runtime.program, env, []);
  if (program === undefined) {
    const found = `there is no ${runtime.program} on the PATH`;
    return runtimes.length === 0 ? skipped(runtime.id, found) : warning(runtime.id, found, 'install it, or leave it out of --for');
  }
  const folder = mkdtempSync(join(tmpdir(), 'gw-doctor-'));
  try {
    if (runtime.source !== undefined) writeFileSync(join(folder, runtime.source[0]), runtime.source[1]);
    const ran = await runProgram(program, runtime.args(folder, env), {
      env: { ...env, GIT_TERMINAL_PROMPT: '0' },
      timeoutMs: runtime.timeoutMs,
      cwd: folder,
    });
    return judge(runtime, ran);
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

function judge({ id, passed, trust, proxy }: Runtime, { stdout, stderr, code }: Ran): Finding {
  const problem = PROBLEM.exec(stdout)?.[1];
  if (REFUSED.test(stdout))
    return wrong(
      id,
      `${id} trusts the root, and its calls are refused: the proxy asks for a token or key, and HTTPS_PROXY has none that is valid${problem === undefined ? '' : ` (${problem})`}`,
      TOKEN_REMEDY,
    );
  if (problem !== undefined) return warning(id, `${id} came through the proxy and trusts the root. ${problem}`, TOKEN_REMEDY);
  if (ANSWERED.test(stdout) || passed?.test(stderr)) return ok(id, `${id} came through the proxy and trusts the root`);
  const said = `${stderr}\n${stdout}`;
  const fault = SAYINGS.find(([says]) => says.test(said))?.[1];
  switch (fault) {
    case 'trust':
      return wrong(id, `${id} does not trust the root: ${tell(said)}`, trust);
    case 'ignored':
      return wrong(id, `${id} does not use the proxy: ${tell(said)}`, proxy);
    case 'unreached':
      return wrong(
        id,
        `${id} cannot reach its proxy: ${tell(said)}`,
        'HTTPS_PROXY leads to where nothing listens: start the gateway there, or eval "$(gw env)"',
      );
    case 'auth':
      return wrong(id, `${id} shows its proxy no valid token: ${tell(said)}`, TOKEN_REMEDY);
    default:
      return wrong(
        id,
        `${id} got no answer of the gateway (exit code ${code}): ${tell(said)}`,
        'see whether HTTPS_PROXY leads to this gateway',
      );
  }
}

/** The line that says most: the last one that names an error. */
function tell(said: string): string {
  const lines = said.split('\n').map((line) => line.trim());
  const line =
    lines.filter((one) => SAYINGS.some(([says]) => says.test(one))).at(-1) ?? lines.find((one) => one !== '') ?? 'it said nothing';
  return line.slice(0, 200);
}
