interface Glob<T> {
  /** What the host must end with: the part behind the star, so that most hosts cost one comparison. */
  readonly tail: string;
  readonly regex: RegExp;
  readonly value: T;
}

/** Host patterns with one star, which stands for one label of a host or for a part of it: `bedrock-runtime.*.amazonaws.com`, `*-aiplatform.googleapis.com`. */
export class HostGlobs<T> {
  readonly #globs: Glob<T>[] = [];

  /** @param pattern in canonical form but for its one star */
  add(pattern: string, value: T): void {
    const [head = '', tail = ''] = pattern.split('*');
    this.#globs.push({ tail, regex: new RegExp(`^${escapeDots(head)}[a-z0-9-]+${escapeDots(tail)}$`), value });
  }

  /** @param host canonical */
  find(host: string): T | undefined {
    for (const glob of this.#globs) {
      if (host.endsWith(glob.tail) && glob.regex.test(host)) return glob.value;
    }
    return undefined;
  }
}

function escapeDots(text: string): string {
  return text.replaceAll('.', '\\.');
}
