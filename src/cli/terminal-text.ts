/** Characters that a terminal obeys instead of showing them, and those that turn the direction of what follows. */
const OBEYED = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/** Text of somebody else on a terminal: nothing in it moves the cursor, changes a colour or hides what stands beside it. */
export function terminalText(text: string): string {
  return text.replace(OBEYED, (sign) => `\\u{${(sign.codePointAt(0) ?? 0).toString(16)}}`);
}

/** The same for a text that may have more than one line. */
export function terminalLines(text: string): string {
  return text.split('\n').map(terminalText).join('\n');
}
