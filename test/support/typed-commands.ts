import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually, launch } from './child.ts';
import { requirePeer } from './peers.ts';
import { isInstalled, programUnderTest } from './program-under-test.ts';
import { type HasTeardown, tempDir } from './temp-dir.ts';

/**
 * Starts a process that runs commands of `gw`, one after the other, for shells that type many: each would load the same
 * modules anew. What goes on until it is stopped, and what starts a program, is a process of its own; so is every
 * command of the package.
 * @returns a part of a shell that stands for `gw "$@"`: the command has the shell's folder, variables and input, and
 * ends with its exit code
 * @throws Error with everything that the process said when it does not start
 */
export async function startTypedCommands(t: HasTeardown): Promise<string> {
  const ownProcess = `exec '${process.execPath}' '${programUnderTest()}' "$@"`;
  if (isInstalled()) return ownProcess;
  const dir = tempDir(t);
  const [socket, script] = [join(dir, 'commands.sock'), join(dir, 'gw')];
  const program = fileURLToPath(new URL('./typed-commands-program.js', import.meta.url));
  const child = launch(t, process.execPath, [program, socket], { timeoutMs: 3_600_000 });
  await eventually('the process of commands', () => {
    if (child.stderr !== '') throw new Error(child.stderr);
    return child.stdout === '' ? undefined : true;
  });
  // Input is read where it is asked for: that of a shell is what is typed next.
  writeFileSync(
    script,
    `case " $* " in
  *" --follow "*|*" --watch "*) ${ownProcess} ;;
  " start "|" run "*|" demo "*|" control-plane start "*|" control-plane demo "*) ${ownProcess} ;;
esac
typed=$(mktemp -d '${dir}/XXXXXX')
printf '%s\\0' "$@" > "$typed/words"
env -0 > "$typed/variables"
pwd > "$typed/folder"
case " $* " in
  *" - "*|" policy explain "*) cat ;;
esac > "$typed/stdin"
code=$('${requirePeer('curl')}' --silent --noproxy '*' --unix-socket '${socket}' "http://commands$typed")
cat "$typed/stdout"
cat "$typed/stderr" >&2
exit "$code"
`,
  );
  return `exec sh '${script}' "$@"`;
}
