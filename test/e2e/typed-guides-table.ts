/* What typed-guides.test.ts needs to know of pages: which blocks cannot be typed on one machine, and what a page takes for granted. */
import type { StandInGateway } from '../support/stand-in-gateway.ts';

/** Where a page is typed. */
export interface GuidePlace {
  readonly gateway: StandInGateway;
  /** As the folder of the gateway. */
  readonly work: string;
  readonly env: Readonly<Record<string, string>>;
}

/** Programs of others that pages start; their own tests are those that start them for real (coding-agents, run-tool, everyday-clients). */
export const PROGRAMS_SHOWN = [
  'claude',
  'codex',
  'gemini',
  'copilot',
  'opencode',
  'aider',
  'cursor',
  'COMMAND',
  'node',
  'python',
  'go',
  'java',
  'chromium',
] as const;

/** Programs that would change this machine or need another one; what a line has besides is typed. */
export const PROGRAMS_NOT_RUN: Readonly<Record<string, string>> = {
  sudo: 'changes the machine; units.test.ts runs what install.sh and uninstall.sh do, in a folder',
  docker: 'needs a Docker engine; container.test.ts reads the files',
  kubectl: 'needs a cluster; kubernetes.test.ts reads the manifests',
  npm: 'installs, or runs the workshop of a clone; npm-package.test.ts packs and installs, process.test.ts starts by npm',
  certutil: 'changes the store of a browser; trust.test.ts does it in a folder',
  journalctl: 'needs a unit of systemd',
  jq: 'not on every machine',
};

/** Blocks with a part of each, and why they are not typed. */
export const NOT_TYPED: readonly (readonly [page: string, part: string, reason: string])[] = [
  ['README.md', 'git clone', 'it is the clone itself: the demo is run by onboarding.test.ts'],
  ['docs/guides/alerts.md', '# 2. Does it arrive?', 'it asks a chat of another company'],
  ['docs/guides/control-plane.md', 'gw control-plane demo', 'control-plane-demo.test.ts runs it, with what it prints'],
  ['docs/guides/deployment-modes.md', 'gw start', 'deployment-guide.test.ts types the whole page'],
];

const firstId = (command: string) => `$(${command} | first_id)`;

/** What a page takes for granted: made before, with the text that stands for it on the page. */
export const PREPARED: Readonly<Record<string, (place: GuidePlace) => Promise<Readonly<Record<string, string>>>>> = {
  'docs/guides/alerts.md': () =>
    Promise.resolve({
      'T…/B…/…': 'T1/B1/x',
      'CHANNEL=…': `CHANNEL=${firstId('gw alerts channels list --json')}`,
      'LIMIT=…': `LIMIT=${firstId('gw budgets list --json')}`,
    }),
  'docs/guides/api-keys.md': () => Promise.resolve({ 'gwk_…': 'gwk_x' }),
};
