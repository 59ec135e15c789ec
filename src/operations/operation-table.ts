import { ADDON_OPERATIONS } from './addon-operations.ts';
import { AGENT_OPERATIONS } from './agent-operations.ts';
import { API_KEY_OPERATIONS } from './api-key-operations.ts';
import { APPROVAL_OPERATIONS } from './approval-operations.ts';
import { AUDIT_OPERATIONS } from './audit-operations.ts';
import { BILLING_OPERATIONS } from './billing-operations.ts';
import { BUDGET_OPERATIONS } from './budget-operations.ts';
import { CHAT_OPERATIONS } from './chat-operations.ts';
import { CONNECTOR_OPERATIONS } from './connector-operations.ts';
import { CONSOLE_OPERATIONS } from './console-operations.ts';
import { CREDENTIAL_OPERATIONS } from './credential-operations.ts';
import { DASHBOARD_OPERATIONS } from './dashboard-operations.ts';
import { DEAD_LETTER_OPERATIONS } from './dead-letter-operations.ts';
import { DELEGATION_OPERATIONS } from './delegation-operations.ts';
import { DISCOVERY_OPERATIONS } from './discovery-operations.ts';
import { HEALTH_OPERATIONS } from './health-operations.ts';
import { ALERT_CHANNEL_OPERATIONS } from './management/alert-channel-operations.ts';
import { ALERT_HISTORY_OPERATIONS } from './management/alert-history-operations.ts';
import { ALERT_SUBSCRIPTION_OPERATIONS } from './management/alert-subscription-operations.ts';
import { ATTRIBUTION_OPERATIONS } from './management/attribution-operations.ts';
import { BILLING_SUMMARY_OPERATIONS } from './management/billing-summary-operations.ts';
import { COST_REPORT_OPERATIONS } from './management/cost-report-operations.ts';
import { CUSTOM_CONNECTOR_OPERATIONS } from './management/custom-connector-operations.ts';
import { EXPORT_OPERATIONS } from './management/export-operations.ts';
import { KEY_OPERATIONS } from './management/key-operations.ts';
import { LIMIT_OPERATIONS } from './management/limit-operations.ts';
import { NODE_OPERATIONS } from './management/node-operations.ts';
import { NOW_OPERATIONS } from './management/now-operations.ts';
import { ORG_CREDENTIAL_OPERATIONS } from './management/org-credential-operations.ts';
import { ORG_DEFAULTS_OPERATIONS } from './management/org-defaults-operations.ts';
import { OVERLAY_OPERATIONS } from './management/overlay-operations.ts';
import { OVERVIEW_OPERATIONS } from './management/overview-operations.ts';
import { POLICY_CHECK_OPERATIONS } from './management/policy-check-operations.ts';
import { POLICY_RULE_OPERATIONS } from './management/policy-rule-operations.ts';
import { PRICING_OPERATIONS } from './management/pricing-operations.ts';
import { PROJECT_OPERATIONS } from './management/project-operations.ts';
import { PROVIDER_OPERATIONS } from './management/provider-operations.ts';
import { RECORD_EXPLAIN_OPERATIONS } from './management/record-explain-operations.ts';
import { RECORD_LIST_OPERATIONS } from './management/record-list-operations.ts';
import { WORKLOAD_LIMIT_OPERATIONS } from './management/workload-limit-operations.ts';
import type { GatewayOperation } from './operation.ts';
import { ORG_OPERATIONS } from './org-operations.ts';
import { ORG_PLAN_OPERATIONS } from './org-plan-operations.ts';
import { POLICY_OPERATIONS } from './policy-operations.ts';
import { POLICY_TEXT_OPERATIONS } from './policy-text-operations.ts';
import { PRICE_LIST_OPERATIONS } from './price-list-operations.ts';
import { QUARANTINE_OPERATIONS } from './quarantine-operations.ts';
import { RATE_LIMIT_OPERATIONS } from './rate-limit-operations.ts';
import { RECORD_OPERATIONS } from './record-operations.ts';
import { REPORT_OPERATIONS } from './report-operations.ts';
import { ROOT_OPERATIONS } from './root-operations.ts';
import { STOP_OPERATIONS } from './stop-operations.ts';
import { TELEMETRY_OPERATIONS } from './telemetry-operations.ts';
import { TRUST_OPERATIONS } from './trust-operations.ts';
import { WORKLOAD_OPERATIONS } from './workload-operations.ts';

/**
 * Everything that can be asked of the gateway and that this room answers. Of two paths that fit the first one counts.
 */
export const OPERATIONS: readonly GatewayOperation[] = [
  ...KEY_OPERATIONS,
  ...PROJECT_OPERATIONS,
  ...ORG_DEFAULTS_OPERATIONS,
  ...RECORD_LIST_OPERATIONS,
  ...RECORD_EXPLAIN_OPERATIONS,
  ...NOW_OPERATIONS,
  ...OVERVIEW_OPERATIONS,
  ...BILLING_SUMMARY_OPERATIONS,
  ...COST_REPORT_OPERATIONS,
  ...ATTRIBUTION_OPERATIONS,
  ...LIMIT_OPERATIONS,
  ...NODE_OPERATIONS,
  ...PRICING_OPERATIONS,
  ...RECORD_OPERATIONS,
  ...HEALTH_OPERATIONS,
  ...TRUST_OPERATIONS,
  ...ROOT_OPERATIONS,
  ...WORKLOAD_OPERATIONS,
  ...ORG_OPERATIONS,
  ...ORG_PLAN_OPERATIONS,
  ...ADDON_OPERATIONS,
  ...API_KEY_OPERATIONS,
  ...AUDIT_OPERATIONS,
  ...APPROVAL_OPERATIONS,
  ...CHAT_OPERATIONS,
  ...CONSOLE_OPERATIONS,
  ...AGENT_OPERATIONS,
  ...QUARANTINE_OPERATIONS,
  ...STOP_OPERATIONS,
  ...DELEGATION_OPERATIONS,
  ...POLICY_OPERATIONS,
  ...POLICY_TEXT_OPERATIONS,
  ...OVERLAY_OPERATIONS,
  ...POLICY_RULE_OPERATIONS,
  ...POLICY_CHECK_OPERATIONS,
  ...RATE_LIMIT_OPERATIONS,
  ...WORKLOAD_LIMIT_OPERATIONS,
  ...DISCOVERY_OPERATIONS,
  ...BUDGET_OPERATIONS,
  ...PRICE_LIST_OPERATIONS,
  ...CREDENTIAL_OPERATIONS,
  ...ORG_CREDENTIAL_OPERATIONS,
  ...CONNECTOR_OPERATIONS,
  ...CUSTOM_CONNECTOR_OPERATIONS,
  ...PROVIDER_OPERATIONS,
  ...DASHBOARD_OPERATIONS,
  ...BILLING_OPERATIONS,
  ...REPORT_OPERATIONS,
  ...ALERT_CHANNEL_OPERATIONS,
  ...ALERT_SUBSCRIPTION_OPERATIONS,
  ...ALERT_HISTORY_OPERATIONS,
  ...EXPORT_OPERATIONS,
  ...DEAD_LETTER_OPERATIONS,
  ...TELEMETRY_OPERATIONS,
];
