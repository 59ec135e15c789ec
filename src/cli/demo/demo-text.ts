import { VARIABLE_FORMATS } from '../clients/variable-formats.ts';
import { shellWord } from '../program-name.ts';
import type { DemoPlace } from './demo-place.ts';

/** What to do after the demo, when it has ended. @param gw how this program is called */
export function endText(gw: string): string {
  const next = [
    [`${gw} demo --keep`, 'the same, and it stays: point Claude Code, an SDK or curl at it'],
    [`${gw} init && ${gw} start`, 'a gateway for your own programs, with their own keys'],
    [`${gw} run -- COMMAND`, 'a program whose AI calls go through that gateway'],
  ] as const;
  const width = Math.max(...next.map(([command]) => command.length));
  const texts = next.map(([command, what]) => `  ${command.padEnd(width)}  ${what}\n`).join('');
  return `
All of it went as it should, and is gone again. What to do next:
${texts}`;
}

/** What a person can point at a demo that stays. @param gw how this program is called */
export function keptText(place: DemoPlace, gw: string): string {
  const { url, rootFile } = place;
  const quoted = (values: Readonly<Record<string, string>>) => (VARIABLE_FORMATS['sh']?.text(Object.entries(values)) ?? '').trimEnd();
  const found = quoted(findingSettings(place));
  return `
It keeps running until Ctrl-C. In another terminal${gw.startsWith('npx ') ? ' of this folder' : ''}, any key will do:

# Claude Code, by its base URL
ANTHROPIC_BASE_URL=${url}/proxy/anthropic ANTHROPIC_API_KEY=demo claude -p 'Say hello.'

# an OpenAI SDK, by its base URL
export OPENAI_BASE_URL=${url}/proxy/openai/v1 OPENAI_API_KEY=demo

# curl, through the proxy
curl --proxy ${url} --cacert ${shellWord(rootFile)} https://api.openai.com/v1/models -H 'Authorization: Bearer demo'

# every command of gw: the calls as they come, for example
${found}
${gw} logs --follow

# any program, through the proxy, behind the same exports: Node, Python, Go, ...
eval "$(${gw} env)"
export OPENAI_API_KEY=demo ANTHROPIC_API_KEY=demo

# Gemini CLI, by gw run, behind the same exports
GEMINI_API_KEY=demo ${gw} run -- gemini --skip-trust -p 'Say hello.'
`;
}

/** With these other commands find it. */
export function findingSettings({ settings }: DemoPlace): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(settings).filter(([name]) => /_(?:PORT|DATA_DIR|CA_DIR|POLICIES_DIR)$/.test(name)));
}
