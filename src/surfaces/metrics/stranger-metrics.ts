/** Of records of refused calls that are kept within bounds (decision 7.11). */
export const STRANGER_METRICS = {
  recordsSummed: {
    name: 'gw_records_summed_total',
    type: 'counter',
    labels: ['org_id'],
    help: 'Refused requests of callers who have shown nothing that have no record of their own, because too many came (`GW_STRANGER_RECORDS`): a record of the minute counts them.',
  },
  recordsShortened: {
    name: 'gw_records_shortened_total',
    type: 'counter',
    labels: ['org_id'],
    help: 'Records of refused requests of callers who have shown a token or a key that were cut to 4 KiB, because their org has had too many long ones.',
  },
} as const;
