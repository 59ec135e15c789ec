/** Text with or without the colours of a terminal. */
export interface Paint {
  red(text: string): string;
  yellow(text: string): string;
  green(text: string): string;
  blue(text: string): string;
  bold(text: string): string;
  dim(text: string): string;
}

const plain = (text: string) => text;
const sgr = (on: number, off: number) => (text: string) => `\u001b[${on}m${text}\u001b[${off}m`;

const PLAIN: Paint = { red: plain, yellow: plain, green: plain, blue: plain, bold: plain, dim: plain };
const COLOURS: Paint = {
  red: sgr(31, 39),
  yellow: sgr(33, 39),
  green: sgr(32, 39),
  blue: sgr(34, 39),
  bold: sgr(1, 22),
  dim: sgr(2, 22),
};

export function paintFor(colours: boolean | undefined): Paint {
  return colours === true ? COLOURS : PLAIN;
}
