import { statSync } from 'node:fs';
import { systemClock } from '../../base/lib/clock.ts';
import { parseWithWords } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK, Unusable, UsageError } from '../command.ts';
import { printJson } from '../terminal-text.ts';
import { checkEvidence, type EvidenceFiles } from './check-evidence.ts';
import { makeWitness } from './cosign-ledger.ts';
import { nameOf, readEvidence } from './evidence-files.ts';
import { checkRecordLines, printEvidence, recordLines } from './print-evidence.ts';
import { watchHistory } from './watch-history.ts';

const OPTIONS = {
  proof: { type: 'string' },
  roots: { type: 'string', multiple: true },
  consistency: { type: 'string' },
  timestamps: { type: 'string', multiple: true },
  'tsa-ca': { type: 'string' },
  'log-entries': { type: 'string', multiple: true },
  'rekor-key': { type: 'string' },
  checkpoint: { type: 'string' },
  'witness-keys': { type: 'string' },
  witnesses: { type: 'string' },
  keys: { type: 'string' },
  watch: { type: 'string' },
  state: { type: 'string' },
  interval: { type: 'string' },
  'accept-restore': { type: 'string' },
  cosign: { type: 'string' },
  'witness-key': { type: 'string' },
  name: { type: 'string' },
  export: { type: 'string' },
  gateway: { type: 'string' },
  'control-plane': { type: 'string' },
  from: { type: 'string' },
  to: { type: 'string' },
  key: { type: 'string' },
  org: { type: 'string' },
  json: { type: 'boolean' },
} as const;

type Values = ReturnType<typeof parseWithWords<typeof OPTIONS>>['values'];
type OptionName = keyof typeof OPTIONS;

/** What the command does, the option that says so, and the other options that it takes then. */
const DOINGS = {
  check: [
    ...(['proof', 'roots', 'consistency', 'timestamps', 'tsa-ca', 'log-entries', 'rekor-key'] as const),
    ...(['checkpoint', 'witness-keys', 'witnesses', 'keys'] as const),
  ],
  watch: ['watch', 'state', 'keys', 'rekor-key', 'interval', 'accept-restore', 'cosign', 'name', 'org'],
  'witness-key': ['witness-key', 'name'],
  export: ['export', 'gateway', 'control-plane', 'from', 'to', 'key', 'org'],
} as const satisfies Readonly<Record<string, readonly OptionName[]>>;
type Doing = keyof typeof DOINGS;

/**
 * Checks what can be proved about records, watches a ledger, and hands out what a third party needs (decision 13.4).
 */
export const verify: Command = {
  name: 'verify',
  usage:
    '<record.json | records.ndjson | -> [--proof FILE] [--roots FILE]… [--consistency FILE] [--timestamps FILE]… [--tsa-ca FILE] [--log-entries FILE]… [--rekor-key FILE] [--checkpoint FILE] [--witness-keys FILE] [--witnesses N] [--keys FILE] [--json] | --watch URL --state FILE [--keys FILE] [--rekor-key FILE] [--interval 1m] [--accept-restore N] [--cosign KEYFILE] [--name NAME] [--org ID] | --witness-key FILE [--name NAME] | --export DIR [--gateway URL] [--control-plane URL] [--from TIME] [--to TIME] [--org ID] [--key mgk_…]',
  summary:
    'Recomputes the hash of a record and checks its proof and the chain of signed roots, offline; exit code 0 verified, 1 not, 2 unusable, 3 cut by a declared restore. --watch: whether the history of a ledger goes on, --cosign as a witness; --export: what a third party needs.',
  help: `
  record.json      as GET /v1/records/{id} gives it; -: standard input; it may be left out where a chain alone is checked
  records.ndjson   several, one a line: gw logs --json --whole | gw verify -
  --proof          as GET /v1/verify/{record_hash} answers, or the bare proof; needs --keys
  --roots          as GET /v1/orgs/{org}/roots of the control plane answers, or .ndjson with a root on each line; once for each file, in order; needs --keys
  --consistency    as GET /v1/orgs/{org}/consistency of the control plane answers; needs --roots with both of its roots: those between may be left out
  --timestamps     as GET /v1/orgs/{org}/timestamps of the control plane answers; once for each file; needs --roots with the roots that they stamp
  --tsa-ca         PEM certificates of the authorities whose stamps are believed; without it a stamp is of anybody
  --log-entries    as GET /v1/orgs/{org}/log-entries of the control plane answers, or .ndjson with an entry on each line; needs --roots with the roots that were entered
  --rekor-key      PEM public keys of the log whose entries are believed; without it an entry may be of anybody's log
  --checkpoint     as GET /v1/orgs/{org}/checkpoint of the control plane answers; needs --keys. With --roots it must be of one of them
  --witness-keys   verifier keys of witnesses, one a line: whose cosignatures of the checkpoint are believed
  --witnesses      how many of them must have cosigned it; default: 1
  --keys           as GET /v1/keys of the control plane answers: whose signatures are believed
  --watch          a control plane; NODE_EXTRA_CA_CERTS names its CA where it is asked by https
  --state          where the last root and the keys that are believed are kept
  --interval       looks again and again, until Ctrl-C or until something does not fit; default: once
  --accept-restore the root of a declared restore, as --watch has told it: goes on behind it
  --cosign         cosigns each published checkpoint that goes on from the last one, as the witness of this private key
  --witness-key    makes the private key of a witness in a new file, and prints its verifier key
  --name           what the witness is called; default: a name that follows from its key
  --export         a new or empty folder
  --gateway        default: where a gateway with the settings of this shell listens
  --control-plane  adds the chain of roots and the keys
  --from, --to     times or days; default: the last 24 hours
  --key            a management key in place of the admin token; needs --control-plane
  --org            default: GW_ORG_ID, else default
`,
  run(args, io) {
    const { values, words } = parseWithWords(args, OPTIONS, 1);
    const [record] = words;
    const doing = (['watch', 'export', 'witness-key'] as const).find((name) => values[name] !== undefined) ?? 'check';
    checkOptions(doing, values, record);
    return RUNS[doing](values, record, io);
  },
};

const RUNS: Readonly<Record<Doing, (values: Values, record: string | undefined, io: CliIo) => Promise<number>>> = {
  async check({ proof, roots = [], consistency, timestamps = [], 'tsa-ca': tsaCa, checkpoint, keys, json = false, ...more }, record, io) {
    const { 'witness-keys': witnessKeys, witnesses, 'log-entries': logEntries = [], 'rekor-key': rekorKey } = more;
    const beside: Beside = {
      ...{ proof, roots, consistency, timestamps, tsaCa, logEntries, rekorKey },
      ...{ checkpoint, witnessKeys, witnesses, keys, json },
    };
    checkFiles(beside, record);
    return record === undefined ? judged(undefined, beside, io) : recordsJudged(record, beside, io);
  },
  watch({ watch: url = '', state, keys, 'rekor-key': rekorKey, interval, cosign, name, org, json = false, ...more }, _record, io) {
    if (state === undefined) throw new UsageError('--watch needs --state, a file to remember the last root in');
    if (name !== undefined && cosign === undefined) throw new UsageError('--name is that of a witness: it needs --cosign');
    const acceptRestore = more['accept-restore'];
    return watchHistory({ url, state, keys, rekorKey, interval, acceptRestore, cosign, name, org, json }, io, systemClock);
  },
  async 'witness-key'({ 'witness-key': file = '', name, json = false }, _record, io) {
    const { key } = await makeWitness(file, name);
    if (json) printJson({ file, name: key.name, vkey: key.vkey }, io);
    else io.stdout(`CP_WITNESS_KEYS=${key.vkey}\n`);
    return EXIT_OK;
  },
  async export({ export: folder = '', gateway, 'control-plane': controlPlane, from, to, key, org, json = false }, _record, io) {
    // The operations are loaded by what needs them alone.
    const { exportEvidence } = await import('./export-evidence.ts');
    return exportEvidence({ folder, gateway, controlPlane, from, to, key, org, json }, io, systemClock);
  },
};

/** @throws UsageError for files of which no check can be made */
function checkFiles(
  { proof, roots, consistency, timestamps, tsaCa, logEntries, rekorKey, checkpoint, witnessKeys, witnesses, keys }: Beside,
  record: string | undefined,
): void {
  const given = {
    record: record !== undefined,
    proof: proof !== undefined,
    roots: roots.length > 0,
    consistency: consistency !== undefined,
    timestamps: timestamps.length > 0,
    tsaCa: tsaCa !== undefined,
    logEntries: logEntries.length > 0,
    rekorKey: rekorKey !== undefined,
    checkpoint: checkpoint !== undefined,
    witnessKeys: witnessKeys !== undefined,
    witnesses: witnesses !== undefined,
    keys: keys !== undefined,
  };
  const [problem] = LACKS.flatMap(([lacks, text]) => (lacks(given) ? [text] : []));
  if (problem !== undefined) throw new UsageError(problem);
}

type Given = Readonly<Record<'record' | Exclude<keyof Beside, 'json'>, boolean>>;

const NO_KEY = 'needs --keys: whoever has no key to check it with can be shown anything';
/** What lacks something, in the order in which it is told. */
const LACKS: readonly (readonly [lacks: (given: Given) => boolean, text: string])[] = [
  [({ timestamps, roots }) => timestamps && !roots, '--timestamps needs --roots, which they stamp'],
  [({ tsaCa, timestamps }) => tsaCa && !timestamps, '--tsa-ca needs --timestamps'],
  [({ logEntries, roots }) => logEntries && !roots, '--log-entries needs --roots, which were entered'],
  [({ rekorKey, logEntries }) => rekorKey && !logEntries, '--rekor-key needs --log-entries, or --watch'],
  [({ consistency, roots }) => consistency && !roots, '--consistency needs --roots, which say what trees the two roots have signed'],
  [({ witnessKeys, checkpoint }) => witnessKeys && !checkpoint, '--witness-keys needs --checkpoint, which they have cosigned'],
  [({ witnesses, witnessKeys }) => witnesses && !witnessKeys, '--witnesses needs --witness-keys: which of them count'],
  [({ record, roots, checkpoint }) => !record && !roots && !checkpoint, 'it takes one file, or - for standard input'],
  [({ record, proof }) => !record && proof, '--proof is of a record: it takes one file, or - for standard input'],
  [({ keys, proof }) => !keys && proof, `--proof ${NO_KEY}`],
  [({ keys, roots }) => !keys && roots, `--roots ${NO_KEY}`],
  [({ keys, checkpoint }) => !keys && checkpoint, `--checkpoint ${NO_KEY}`],
  [({ keys, proof, roots, checkpoint }) => keys && !proof && !roots && !checkpoint, '--keys needs --proof, --roots or --checkpoint'],
  [({ record, proof, roots }) => record && !proof && roots, 'a record and --roots need --proof, which says under which root the record is'],
];

interface Beside {
  readonly proof: string | undefined;
  readonly roots: readonly string[];
  readonly consistency: string | undefined;
  readonly timestamps: readonly string[];
  readonly tsaCa: string | undefined;
  readonly logEntries: readonly string[];
  readonly rekorKey: string | undefined;
  readonly checkpoint: string | undefined;
  readonly witnessKeys: string | undefined;
  readonly witnesses: string | undefined;
  readonly keys: string | undefined;
  readonly json: boolean;
}

async function judged(record: EvidenceFiles['record'], { json, ...beside }: Beside, io: CliIo): Promise<number> {
  return printEvidence(await checkEvidence({ record, ...beside }, systemClock.now(), io), { json, isChain: beside.roots.length > 0 }, io);
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** One record with what is given beside it, or many, each for itself. */
async function recordsJudged(source: string, beside: Beside, io: CliIo): Promise<number> {
  if (source !== '-' && isFolder(source))
    throw new Unusable(
      `${source}: it is a folder: gw verify ${source}/records.ndjson checks the records of an export, python3 check.py in it its proofs and roots as well`,
    );
  const [bytes, name] = [await readEvidence(source, io), nameOf(source)];
  const lines = recordLines(bytes);
  if (lines === undefined) return judged({ bytes, name }, beside, io);
  if (beside.proof !== undefined) throw new UsageError(`--proof is of one record, and ${name} has ${lines.length}`);
  return checkRecordLines(lines, name, beside.json, io);
}

/** @throws UsageError for what does not belong to what it is asked for */
function checkOptions(doing: Doing, values: Values, record: string | undefined): void {
  const taken: readonly string[] = [...DOINGS[doing], 'json'];
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || taken.includes(name)) continue;
    const owner = Object.entries(DOINGS).find(([, names]) => names.some((one) => one === name))?.[0] ?? doing;
    throw new UsageError(doing === 'check' ? `--${name} belongs to --${owner}` : `--${doing} takes no --${name}`);
  }
  if (doing !== 'check' && record !== undefined) throw new UsageError(`--${doing} takes no file beside its options`);
}
