/*
 * Coding agents as their pages in docs/guides/clients/ set them up: a test runs each so, and another holds the pages to
 * it.
 */
import type { PeerName } from './peers.ts';

export interface AgentWay {
  readonly env?: Readonly<Record<string, string>>;
  /** Below the home folder, by their paths there. */
  readonly files?: Readonly<Record<string, string>>;
}

export interface CodingAgent {
  readonly peer: PeerName;
  /** Below docs/guides/clients/. */
  readonly page: string;
  readonly args: readonly string[];
  readonly provider: string;
  readonly model: string;
  /** What only a test needs: a key that is none, and no traffic beside that of the model. */
  readonly quiet: AgentWay;
  /**
   * By its base URL; GATEWAY stands for the gateway's address. Absent: it has no such way that works without a person.
   */
  readonly baseUrl?: AgentWay;
}

const QUESTION = 'Say hello.';

export const CODING_AGENTS: readonly CodingAgent[] = [
  {
    peer: 'claude',
    page: 'claude-code.md',
    args: ['-p', QUESTION, '--model', 'claude-haiku-4-5'],
    provider: 'anthropic',
    model: 'claude-haiku-4-5',
    quiet: { env: { ANTHROPIC_API_KEY: 'sk-ant-fake', DISABLE_AUTOUPDATER: '1', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1' } },
    baseUrl: { env: { ANTHROPIC_BASE_URL: 'GATEWAY/proxy/anthropic' } },
  },
  {
    peer: 'codex',
    page: 'codex.md',
    args: ['exec', '--skip-git-repo-check', QUESTION],
    provider: 'openai',
    model: 'gpt-4.1-mini',
    quiet: {
      env: { CODEX_API_KEY: 'sk-fake', CODEX_HOME: 'HOME/.codex' },
      files: { '.codex/config.toml': 'model = "gpt-4.1-mini"\ncheck_for_update_on_startup = false\n' },
    },
    baseUrl: { files: { '.codex/config.toml': 'openai_base_url = "GATEWAY/proxy/openai/v1"\n' } },
  },
  {
    peer: 'gemini',
    page: 'gemini-cli.md',
    args: ['--skip-trust', '-p', QUESTION, '-m', 'gemini-2.5-flash'],
    provider: 'gemini',
    model: 'gemini-2.5-flash',
    quiet: {
      env: { GEMINI_API_KEY: 'AIza-fake' },
      files: {
        '.gemini/settings.json': JSON.stringify({
          security: { auth: { selectedType: 'gemini-api-key' } },
          privacy: { usageStatisticsEnabled: false },
          general: { enableAutoUpdate: false },
        }),
      },
    },
  },
  {
    peer: 'opencode',
    page: 'opencode.md',
    args: ['run', '-m', 'anthropic/claude-haiku-4-5', QUESTION],
    provider: 'anthropic',
    model: 'claude-haiku-4-5',
    quiet: { env: { ANTHROPIC_API_KEY: 'sk-ant-fake', OPENCODE_DISABLE_AUTOUPDATE: '1' } },
    baseUrl: {
      files: {
        '.config/opencode/opencode.json': '{ "provider": { "anthropic": { "options": { "baseURL": "GATEWAY/proxy/anthropic/v1" } } } }\n',
      },
    },
  },
  {
    peer: 'copilot',
    page: 'copilot.md',
    args: ['-p', QUESTION, '--allow-all-tools'],
    provider: 'openai',
    model: 'gpt-4.1-mini',
    quiet: {
      env: {
        COPILOT_AUTO_UPDATE: 'false',
        COPILOT_PROVIDER_TYPE: 'openai',
        COPILOT_PROVIDER_API_KEY: 'sk-fake',
        COPILOT_MODEL: 'gpt-4.1-mini',
        COPILOT_PROVIDER_BASE_URL: 'https://api.openai.com/v1',
      },
    },
    baseUrl: { env: { COPILOT_PROVIDER_BASE_URL: 'GATEWAY/proxy/openai/v1' } },
  },
];
