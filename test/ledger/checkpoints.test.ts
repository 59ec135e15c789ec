// Signed notes, checkpoints and cosignatures, held against notes that other implementations have signed.
import { createPrivateKey, createPublicKey, sign, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { checkLogSignature, originOf, readCheckpoint, signCheckpoint } from '../../src/ledger/checkpoint.ts';
import { checkCosignature, cosign, cosignersOf } from '../../src/ledger/cosignature.ts';
import { listedKey } from '../../src/ledger/ledger-answers.ts';
import { LedgerError } from '../../src/ledger/ledger-error.ts';
import {
  NOTE_TYPE,
  noteKey,
  noteOf,
  readNote,
  readNoteKey,
  readSignatureLine,
  signatureLine,
  signaturesOf,
} from '../../src/ledger/signed-note.ts';
import { ledgerKey } from '../support/made-ledger.ts';

interface Vectors {
  readonly notes: readonly { readonly name: string; readonly vkeys: readonly string[]; readonly note: string }[];
  readonly bad_vkeys: readonly string[];
  readonly cosigned: {
    readonly log_vkey: string;
    readonly witness_vkey: string;
    readonly witness_seed_base64: string;
    readonly seconds: number;
    readonly note: string;
  };
}

function vectors<T>(file: string): T {
  return JSON.parse(readFileSync(join(packageRoot(), 'test', 'vectors', file), 'utf8')) as T;
}

const { notes, bad_vkeys: badKeys, cosigned } = vectors<Vectors>('notes/notes.json');

function raw(vkey: string): Buffer {
  return Buffer.from(vkey.split('+').slice(2).join('+'), 'base64').subarray(1);
}

/** It is told as something that does not fit, and as nothing else. */
function refused(t: Test, check: () => unknown, what: string): void {
  try {
    check();
    t.fail(`${what}: it is taken`);
  } catch (error) {
    t.ok(error instanceof LedgerError, what);
  }
}

t.test('notes that others have signed are read, verified and written as they are', async (t) => {
  for (const { name, vkeys, note } of notes) {
    const read = readNote(note);
    t.equal(
      noteOf(
        read.text,
        read.signatures.map((one) => signatureLine(one, one.bytes)),
      ),
      note,
      name,
    );
    for (const vkey of vkeys) {
      const key = readNoteKey(vkey, NOTE_TYPE.ed25519);
      t.equal(noteKey(key.name, NOTE_TYPE.ed25519, raw(vkey)).vkey, vkey, 'its id follows from its name');
      const found = signaturesOf(read, key);
      t.equal(found.length, 1, vkey);
      for (const { bytes } of found) t.ok(verify(undefined, Buffer.from(read.text), key.key, bytes), vkey);
    }
  }
  for (const vkey of badKeys) refused(t, () => readNoteKey(vkey, NOTE_TYPE.ed25519), vkey);
  const good = notes[0]?.vkeys[0] ?? '';
  for (const bad of ['', 'a', 'a+b', good.slice(0, -1), `${good}=`, good.replace('c74f20a3', 'C74F20A3'), good.replace('Peter', 'Pe ter')])
    refused(t, () => readNoteKey(bad, NOTE_TYPE.ed25519), JSON.stringify(bad));
  t.throws(() => readNoteKey(good, NOTE_TYPE.cosignature), { message: /of type 1, and type 4 is wanted/ });
});

t.test('what is no note is refused', async (t) => {
  const note = notes[0]?.note ?? '';
  const wrong: readonly (readonly [what: string, note: string])[] = [
    ['nothing', ''],
    ['no signature', 'text\n'],
    ['no line of signature behind the empty line', 'text\n\n'],
    ['no last line end', note.slice(0, -1)],
    ['another dash', note.replaceAll('— ', '- ')],
    ['a carriage return', note.replace('\n', '\r\n')],
    ['half a pair of surrogates', note.replace('If', '\ud800')],
    ['base64 of another spelling', note.replace('JnAM=', 'JnAN=')],
    ['base64 for URLs', note.replace('/ZJk', '_ZJk')],
    ['an empty name', note.replace('PeterNeumann', '')],
    ['a plus in a name', note.replace('— PeterNeumann', '— Peter+Neumann')],
    ['too many signatures', `text\n\n${'— a AAAAAAA=\n'.repeat(65)}`],
    ['too long', `${'x'.repeat(65_536)}\n\n— a AAAAAAA=\n`],
  ];
  for (const [what, text] of wrong) refused(t, () => readNote(text), what);
  t.equal(readNote(`a\n\nb\n\n${note.split('\n\n')[1] ?? ''}`).text, 'a\n\nb\n', 'the last empty line divides');
});

t.test('checkpoints of a log that others run are read and verified', async (t) => {
  const { vkey, checkpoints } = vectors<{ vkey: string; checkpoints: readonly string[] }>('merkle/signed-checkpoints.json');
  const key = readNoteKey(vkey, NOTE_TYPE.ed25519);
  const listed = listedKey('log', 'ledger', key.key);
  const stranger = listedKey('stranger', 'ledger', createPublicKey(ledgerKey(3)));
  t.equal(checkpoints.length, 16);
  for (const [size, text] of checkpoints.entries()) {
    const checkpoint = readCheckpoint(text);
    t.match(checkpoint, { origin: 'example.com/log/testdata', tree_size: size });
    t.equal(checkLogSignature(checkpoint, [stranger, listed]), 'log');
    t.throws(() => checkLogSignature(checkpoint, [stranger]), { message: /no key that is known has signed it/ });
    const other = readCheckpoint(text.replace(`\n${size}\n`, `\n${size + 1}\n`));
    t.throws(() => checkLogSignature(other, [listed]), { message: /the signature of its log does not fit/ });
  }
  const lines = (checkpoints[3] ?? '').split('\n');
  for (const [what, at, line] of [
    ['a size with a zero before it', 1, '03'],
    ['a negative size', 1, '-3'],
    ['a size that JSON cannot number', 1, '9007199254740993'],
    ['a short hash', 2, 'AAAA'],
    ['no hash', 2, ''],
    ['an empty origin', 0, ''],
  ] as const)
    refused(t, () => readCheckpoint(lines.with(at, line).join('\n')), what);
});

t.test('a cosignature of another implementation is verified, and ours has the same bytes', async (t) => {
  const witness = readNoteKey(cosigned.witness_vkey, NOTE_TYPE.cosignature);
  const checkpoint = readCheckpoint(cosigned.note);
  t.same(cosignersOf(checkpoint, [witness]), [{ witness: 'witness.example.com/vector', seconds: cosigned.seconds }]);
  const log = listedKey('log', 'ledger', readNoteKey(cosigned.log_vkey, NOTE_TYPE.ed25519).key);
  t.equal(checkLogSignature(checkpoint, [log]), 'log');
  const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.from(cosigned.witness_seed_base64, 'base64')]);
  const key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  const line = cosign(checkpoint.note.text, witness, cosigned.seconds, (message) => sign(undefined, message, key));
  t.equal(`${line}\n`, cosigned.note.slice(cosigned.note.lastIndexOf('— ')));
  t.same(cosignersOf(checkpoint, [noteKey('other.example.com', NOTE_TYPE.cosignature, raw(cosigned.witness_vkey))]), [], 'by another name');

  const { bytes } = readSignatureLine(line);
  let taken = 0;
  for (let at = 0; at < bytes.length; at++) {
    const flipped = Buffer.from(bytes);
    flipped[at] = (bytes[at] ?? 0) ^ 1;
    const signature = readSignatureLine(signatureLine(witness, flipped));
    try {
      checkCosignature(checkpoint.note.text, signature, witness);
      taken++;
    } catch (error) {
      if (!(error instanceof LedgerError)) throw error;
    }
  }
  t.equal(taken, 0, 'each byte is signed, its time too');
  for (const wrong of [bytes.subarray(1), Buffer.concat([bytes, Buffer.of(0)]), bytes.subarray(8)])
    refused(t, () => checkCosignature(checkpoint.note.text, { ...readSignatureLine(line), bytes: wrong }, witness), 'another length');
  const spoiled = readCheckpoint(cosigned.note.replace('\n1234\n', '\n1235\n'));
  t.throws(() => cosignersOf(spoiled, [witness]), { message: /the cosignature of witness\.example\.com\/vector does not fit/ });
});

t.test('our checkpoints: origin, size and hash, signed under the name of the log', async (t) => {
  const key = ledgerKey(7);
  const listed = listedKey('ledger-1', 'ledger', createPublicKey(key));
  const origin = originOf('ledger.example.com', 'a+b c/ü');
  t.equal(origin, 'ledger.example.com/orgs/a%2Bb%20c%2F%C3%BC', 'no org id breaks the note');
  const text = signCheckpoint(origin, { tree_size: 5, tree_hash: 'ab'.repeat(32) }, { key, listed }, [
    cosigned.note.slice(cosigned.note.lastIndexOf('— '), -1),
  ]);
  const read = readCheckpoint(text);
  t.match(read, { origin, tree_size: 5, tree_hash: 'ab'.repeat(32) });
  t.equal(checkLogSignature(read, [listed]), 'ledger-1');
  t.equal(read.note.signatures.length, 2);
  t.equal(text.split('\n')[2], Buffer.from('ab'.repeat(32), 'hex').toString('base64'));
});
