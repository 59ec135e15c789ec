import { canonicalJson } from '../../base/json/jcs.ts';
import { AmbiguousJsonError, unambiguousJson } from '../../base/json/unambiguous-json.ts';
import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { codeOf, messageOf } from '../../base/lib/gateway-error.ts';
import { checkConsistency, type TreeHead, treeHeadOf } from '../../ledger/consistency-proof.ts';
import { readProofAnswer } from '../../ledger/ledger-answers.ts';
import { LedgerError } from '../../ledger/ledger-error.ts';
import { answerAround } from '../../ledger/time-stamp-token.ts';
import { type CheckedRecord, checkRecord } from '../../record/verify-record.ts';
import { type CliIo, EXIT_OK, GatewayRefusal, Unusable, UsageError } from '../command.ts';
import { GatewayClient } from '../gateway-client.ts';
import { RecordSource } from '../logs/record-source.ts';
import { givenKey } from '../management/given-key.ts';
import { settingsOf } from '../settings-of.ts';
import { printJson, terminalText } from '../terminal-text.ts';
import { ControlPlanePages } from './control-plane-pages.ts';
import { EvidenceFolder } from './evidence-files.ts';

const NOT_FOUND = 404;
/** Questions that are under way at a time. */
const AT_ONCE = 8;
/** As many witnesses as a control plane knows at most. */
const MOST_COSIGNATURES = 16;

export interface ExportArguments {
  readonly folder: string;
  readonly gateway: string | undefined;
  readonly controlPlane: string | undefined;
  readonly from: string | undefined;
  readonly to: string | undefined;
  readonly key: string | undefined;
  readonly org: string | undefined;
  readonly json: boolean;
}

interface Counts {
  records: number;
  verified: number;
  pending: number;
  /** Removed between the list and the question for them. */
  gone: number;
  roots: number;
}

/** A record and what is known of its hash, as lines of their files. */
interface EvidencePair {
  readonly record: string;
  readonly proof: string;
  readonly verified: boolean;
}

type AskProof = (recordHash: string) => Promise<unknown>;

/**
 * Writes what a third party needs to check records of a gateway without it (decision 13.4).
 * @throws UsageError, Unusable, GatewayRefusal
 */
export async function exportEvidence(asked: ExportArguments, io: CliIo, clock: Clock): Promise<number> {
  const orgId = asked.org ?? settingsOf(io, { url: asked.gateway }).orgId ?? 'default';
  const pages = asked.controlPlane === undefined ? undefined : new ControlPlanePages(asked.controlPlane, '--control-plane', io);
  const records = new RecordSource({ url: asked.gateway, key: asked.key, org: asked.org }, {}, io, clock, 'gw verify');
  const askProof = await proofsOf(asked, orgId, pages, io);
  const folder = await EvidenceFolder.create(asked.folder);
  const counts: Counts = { records: 0, verified: 0, pending: 0, gone: 0, roots: 0 };
  try {
    await writeRecords(asked, records, askProof, folder, counts);
    // Behind the records: no root of their proofs is newer than the chain.
    if (pages !== undefined) await writeLedger(orgId, pages, folder, counts);
    const { from, to } = asked;
    const about = {
      schema: 'gw.evidence.v1',
      org_id: orgId,
      exported_at: timestamp(clock.now()),
      ...(from && { from }),
      ...(to && { to }),
    };
    await folder.write('export.json', `${JSON.stringify({ ...about, ...counts }, null, 2)}\n`);
  } catch (error) {
    throw readable(error, asked.folder);
  } finally {
    await folder.close();
    await records.close();
  }
  if (asked.json) printJson({ folder: asked.folder, org_id: orgId, ...counts }, io);
  else io.stdout(summaryOf(asked, counts));
  return EXIT_OK;
}

/** The gateway's own answers where the admin token opens them, else those of the control plane, which are anybody's. */
async function proofsOf(asked: ExportArguments, orgId: string, pages: ControlPlanePages | undefined, io: CliIo): Promise<AskProof> {
  if (givenKey(asked.key, io) === undefined) {
    const gateway = await GatewayClient.open(asked.gateway, io);
    return async (hash) => unambiguousJson(await gateway.text('GET', `/v1/verify/${hash}`));
  }
  if (pages === undefined) throw new UsageError('a management key does not open /v1/verify: give --control-plane, or use the admin token');
  return (hash) => pages.proof(orgId, hash);
}

async function writeRecords(
  { from, to }: ExportArguments,
  records: RecordSource,
  askProof: AskProof,
  folder: EvidenceFolder,
  counts: Counts,
): Promise<void> {
  await folder.append('records.ndjson', []);
  await folder.append('proofs.ndjson', []);
  for await (const page of records.pages({ ...(from && { from }), ...(to && { to }) })) {
    const hashes = page.map(({ record_hash: hash }) => hashIn(hash));
    for (let at = 0; at < hashes.length; at += AT_ONCE) {
      const found = await Promise.all(hashes.slice(at, at + AT_ONCE).map((hash) => pairOf(hash, records, askProof)));
      const pairs = found.filter((pair) => pair !== undefined);
      await folder.append(
        'records.ndjson',
        pairs.map(({ record }) => record),
      );
      await folder.append(
        'proofs.ndjson',
        pairs.map(({ proof }) => proof),
      );
      const verified = pairs.filter((pair) => pair.verified).length;
      counts.records += pairs.length;
      counts.verified += verified;
      counts.pending += pairs.length - verified;
      counts.gone += found.length - pairs.length;
    }
  }
}

/** Undefined: the record was removed meanwhile. */
async function pairOf(hash: string, records: RecordSource, askProof: AskProof): Promise<EvidencePair | undefined> {
  try {
    const record = (await records.text(hash)).trim();
    const { stored, computed } = checked(record, hash);
    if (record.includes('\n') || stored !== hash || computed !== hash)
      throw new Unusable(`record ${hash}: what the gateway gives out for it has another hash, or is not one line`);
    const answer = await askProof(hash);
    const { record_hash: of, proof } = readProofAnswer(answer);
    if (of !== hash) throw new Unusable(`record ${hash}: the proof that was answered is of another record (${of})`);
    return { record, proof: canonicalJson(answer), verified: proof !== undefined };
  } catch (error) {
    if (error instanceof GatewayRefusal && error.status === NOT_FOUND) return undefined;
    throw error;
  }
}

function checked(record: string, hash: string): CheckedRecord {
  try {
    return checkRecord(record);
  } catch (error) {
    throw new Unusable(`record ${hash}: ${messageOf(error)}`, { cause: error });
  }
}

function hashIn(value: unknown): string {
  if (typeof value === 'string' && /^[0-9a-f]{64}$/.test(value)) return value;
  throw new Unusable('the gateway lists a record without a record_hash');
}

/**
 * The whole chain, from its first root on. The ledger goes on meanwhile: what is of a root is asked for before the
 * roots, and the keys behind all that they have signed.
 */
async function writeLedger(orgId: string, pages: ControlPlanePages, folder: EvidenceFolder, counts: Counts): Promise<void> {
  await writeTimestamps(orgId, pages, folder);
  await writeLogEntries(orgId, pages, folder);
  await writeCheckpoint(orgId, pages, folder);
  await folder.append('roots.ndjson', []);
  let trees: { readonly first: TreeHead; readonly last: TreeHead } | undefined;
  for (let after = 0; ; ) {
    const roots = await pages.roots(orgId, after);
    if (roots === undefined) throw new Unusable(`the control plane has no org ${orgId}`);
    const last = roots.at(-1);
    if (last === undefined) break;
    if (last.sequence <= after)
      throw new Unusable(`the control plane answers root ${last.sequence} where those behind ${after} were asked for`);
    await folder.append(
      'roots.ndjson',
      roots.map((root) => canonicalJson(root)),
    );
    counts.roots += roots.length;
    after = last.sequence;
    for (const head of roots.map(treeHeadOf)) if (head !== undefined) trees = { first: trees?.first ?? head, last: head };
  }
  if (trees !== undefined) await writeConsistency(orgId, pages, folder, trees);
  await folder.write('keys.json', `${JSON.stringify({ data: await pages.keys() }, null, 2)}\n`);
}

/** As answers that `openssl ts` reads, by the sequence of their root. */
async function writeTimestamps(orgId: string, pages: ControlPlanePages, folder: EvidenceFolder): Promise<void> {
  for (let after = 0; ; ) {
    const stamps = await pages.timestamps(orgId, after);
    const last = stamps.at(-1);
    if (last === undefined || last.sequence <= after) return;
    for (const { sequence, token } of stamps) await folder.writeBelow('timestamps', `${sequence}.tsr`, answerAround(token));
    after = last.sequence;
  }
}

/** One a line, as the control plane lists them; no file where no root was entered in a log. */
async function writeLogEntries(orgId: string, pages: ControlPlanePages, folder: EvidenceFolder): Promise<void> {
  for (let after = 0; ; ) {
    const entries = await pages.logEntries(orgId, after);
    const last = entries.at(-1);
    if (last === undefined || last.sequence <= after) return;
    const rows = entries.map((one) => canonicalJson({ ...one, time: timestamp(one.entry.integratedTime * 1_000) }));
    await folder.append('log-entries.ndjson', rows);
    after = last.sequence;
  }
}

/** The newest checkpoint of those that most witnesses have cosigned; no file where nobody has cosigned any. */
async function writeCheckpoint(orgId: string, pages: ControlPlanePages, folder: EvidenceFolder): Promise<void> {
  let best: string | undefined;
  for (let count = 1; count <= MOST_COSIGNATURES; count++) {
    const found = await pages.checkpoint(orgId, count);
    if (found === undefined) break;
    best = found.checkpoint;
  }
  if (best !== undefined) await folder.write('checkpoint.txt', best);
}

/** From the first root that has a tree to the last one. */
async function writeConsistency(
  orgId: string,
  pages: ControlPlanePages,
  folder: EvidenceFolder,
  { first, last }: { readonly first: TreeHead; readonly last: TreeHead },
): Promise<void> {
  const proof = await pages.consistency(orgId, first.sequence, last.sequence);
  if (proof === undefined)
    throw new Unusable(
      `the control plane shows no proof that the tree of root ${last.sequence} goes on from that of root ${first.sequence}`,
    );
  checkConsistency(proof, first, last);
  await folder.write('consistency.json', `${JSON.stringify(proof)}\n`);
}

/** What an answer or the disk does wrong is one line for a person. */
function readable(error: unknown, folder: string): unknown {
  if (error instanceof GatewayRefusal) return error;
  if (error instanceof LedgerError || error instanceof AmbiguousJsonError) return new Unusable(messageOf(error), { cause: error });
  return codeOf(error) === '' ? error : new Unusable(`${folder} cannot be written: ${messageOf(error)}`, { cause: error });
}

function summaryOf({ folder, controlPlane }: ExportArguments, { records, verified, pending, gone, roots }: Counts): string {
  const lines = [
    `exported  ${terminalText(folder)}`,
    `  records  ${records}, of which ${verified} have a proof and ${pending} wait for a root`,
    controlPlane === undefined && verified === 0 && pending > 0
      ? '  roots    none: a gateway without a control plane makes none, and what can be checked is that each record fits its own hash'
      : controlPlane === undefined
        ? '  roots    those of the proofs alone: --control-plane adds the chain and the keys'
        : `  roots    ${roots}, and the keys`,
    ...(gone > 0 ? [`  gone     ${gone} that were removed meanwhile`] : []),
    '  README.md in it says how to check this with openssl and Python alone',
  ];
  return `${lines.join('\n')}\n`;
}
