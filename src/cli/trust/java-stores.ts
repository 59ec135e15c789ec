import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { shellVariable } from '../../base/config/settings-reader.ts';
import { certificatesIn } from '../../base/lib/pem.ts';
import { findProgram } from './run-program.ts';
import { derOf, type Machine, NAME, ROOT_FILE, runOn, type TrustPlace } from './trust-place.ts';

/** Where packages put Java. */
const FOLDERS = ['/usr/lib/jvm', '/usr/lib64/jvm', '/opt/java', '/Library/Java/JavaVirtualMachines'];
/** Below the home of a Java, in this order. */
const STORES = ['lib/security/cacerts', 'jre/lib/security/cacerts', 'Contents/Home/lib/security/cacerts'];
/** Of every cacerts that nobody has changed; it protects nothing. */
const PASSWORD = 'changeit';

/** The roots of each Java that is there, each file once: packages let several share one. */
export function javaStores(machine: Machine): readonly TrustPlace[] {
  if (machine.root !== '') return [];
  const given = shellVariable('JAVA_HOME', machine.env);
  const installed = FOLDERS.filter((folder) => existsSync(folder)).flatMap((folder) =>
    readdirSync(folder).map((name) => join(folder, name)),
  );
  const homes = given === undefined ? installed : [given];
  const files = homes.flatMap((home) => STORES.map((path) => join(home, path)).filter((path) => existsSync(path)));
  return [...new Set(files.map((file) => realpathSync(file)))].map((file) => javaPlace(file, homes, machine));
}

function javaPlace(file: string, homes: readonly string[], machine: Machine): TrustPlace {
  const beside = [...homes.map((home) => join(home, 'bin')), join(dirname(file), '../../bin')];
  const keytool = findProgram('keytool', { PATH: beside.join(':') }, []) ?? findProgram('keytool', machine.env);
  const base = ['-keystore', file, '-storepass', PASSWORD];
  // Debian puts what its system trusts in here under names of its own.
  const all = async () => {
    const list = await runOn(machine, keytool ?? 'keytool', ['-list', '-rfc', ...base]);
    const parts = list.stdout.split(/^Alias name: /m).slice(1);
    return parts
      .map((part) => ({ name: part.split(/\r?\n/, 1)[0] ?? '', pem: certificatesIn(part)[0] }))
      .flatMap(({ name, pem }) => (pem === undefined ? [] : [{ name, der: derOf(pem) }]));
  };
  return {
    store: 'java',
    where: file,
    covers: 'programs that this Java runs; Maven, Gradle, Kotlin and Scala tools',
    lacks: keytool === undefined ? 'keytool is not there: it comes with Java' : undefined,
    guard: file,
    entries: async () => (await all()).filter(({ name }) => name.startsWith(NAME)),
    trusts: async (root) => (await all()).some(({ der }) => der.equals(root)),
    add: (name) => [
      { run: [keytool ?? 'keytool', '-importcert', '-noprompt', '-trustcacerts', '-alias', name, '-file', ROOT_FILE, ...base] },
    ],
    remove: ({ name }) => [{ run: [keytool ?? 'keytool', '-delete', '-noprompt', '-alias', name, ...base] }],
  };
}
