import type { SettingValues } from '../../base/config/settings.ts';
import type { RiskSettings } from '../../decide/risk/risk-score.ts';

/** What the scorer is told by the settings `GW_RISK_*`. */
export function riskSettings(config: SettingValues): RiskSettings {
  return {
    minSamples: config.riskMinSamples,
    weights: {
      rate_spike: config.riskWeightRateSpike,
      cost_anomaly: config.riskWeightCostAnomaly,
      new_target: config.riskWeightNewTarget,
      off_hours: config.riskWeightOffHours,
      deny_burst: config.riskWeightDenyBurst,
      prompt_size_anomaly: config.riskWeightPromptSizeAnomaly,
    },
    thresholds: {
      rate_spike: config.riskRateSpikeThreshold,
      cost_anomaly: config.riskCostAnomalyThreshold,
      new_target: config.riskNewTargetThreshold,
      off_hours: config.riskOffHoursThreshold,
      deny_burst: config.riskDenyBurstThreshold,
      prompt_size_anomaly: config.riskPromptSizeAnomalyThreshold,
    },
  };
}
