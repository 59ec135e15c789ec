import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { mergeCertificates } from '../../src/cli/clients/merged-certificates.ts';
import { testCa } from '../support/certificates.ts';
import { tempDir } from '../support/temp-dir.ts';

t.test('of a root file with a chain all certificates are merged, and a key that stands there never is', async (t) => {
  const dir = tempDir(t);
  const [company, theirs] = [testCa('Company'), testCa('Theirs')];
  // Stands for an intermediate: what counts here is that another has signed it.
  const gateway = company.leaf({ hosts: ['gateway'] });
  const rootFile = join(dir, 'root-ca.pem');
  writeFileSync(rootFile, `${gateway.certPem}${company.certPem}${gateway.keyPem}`);
  const existing = join(dir, 'existing.pem');
  writeFileSync(existing, theirs.certPem);
  const { file, problem } = await mergeCertificates(existing, rootFile, rootFile, join(dir, 'cache'));
  t.equal(problem, undefined);
  const text = readFileSync(file, 'utf8');
  for (const { certPem } of [gateway, company, theirs]) t.ok(text.includes(certPem.trim()));
  t.notMatch(text, /PRIVATE/);
  writeFileSync(existing, `${theirs.certPem}${company.certPem}`);
  t.equal(
    (await mergeCertificates(existing, rootFile, rootFile, join(dir, 'cache'))).file,
    existing,
    'what trusts the root of the chain already stays as it is',
  );
});

t.test('while a root is replaced, what trusts only one of the two is merged with both', async (t) => {
  const dir = tempDir(t);
  const [next, present, theirs] = [testCa('Next'), testCa('Present'), testCa('Theirs')];
  const rootFile = join(dir, 'root-ca.pem');
  writeFileSync(rootFile, `${next.certPem}${present.certPem}`);
  const existing = join(dir, 'existing.pem');
  writeFileSync(existing, `${theirs.certPem}${present.certPem}`);
  const merge = () => mergeCertificates(existing, rootFile, rootFile, join(dir, 'cache'));
  const text = readFileSync((await merge()).file, 'utf8');
  for (const { certPem } of [next, present, theirs]) t.ok(text.includes(certPem.trim()));
  writeFileSync(existing, `${theirs.certPem}${present.certPem}${next.certPem}`);
  t.equal((await merge()).file, existing);
});
