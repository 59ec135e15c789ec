/** Of callers who have shown nothing (decision 7.11). */
export const STRANGER_METRICS = {
  recordsSummed: {
    name: 'gw_records_summed_total',
    type: 'counter',
    labels: ['org_id'],
    help: 'Refused requests of callers who have shown nothing that have no record of their own, because too many came (`GW_STRANGER_RECORDS`): a record of the minute counts them.',
  },
} as const;
