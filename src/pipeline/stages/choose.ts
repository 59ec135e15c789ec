import { registeredConnectorId } from '../../base/catalogue/connector-id.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { PipelineSettings } from '../parts/call-services.ts';
import type { CallRoute, Parts } from '../parts/parts.ts';
import { deny, Refusal } from '../parts/refusal.ts';
import { defineStage } from '../parts/stage.ts';
import { type Connected, connect } from '../route/call-connector.ts';
import { settleRoute } from '../route/settle-route.ts';

type Read = Pick<Parts, 'arrival' | 'claims' | 'action' | 'offer' | 'judgement'>;

/** Takes the connector and the credential that policy selected (decisions 5.4, 6.6, 6.9, 6.10). */
export const choose = defineStage({
  name: 'choose',
  reads: ['arrival', 'claims', 'target', 'action', 'offer', 'asked', 'judgement'],
  makes: ['chosen'],
  run(parts, pipeline) {
    const { offer, asked, judgement } = parts;
    const call = selected(parts, pipeline.settings);
    if (call instanceof Refusal) return call;
    const { select_credential: select } = judgement.verdict.effects;
    if (call === offer && select === undefined) return { chosen: offer };
    return { chosen: settleRoute({ ...parts, call, content: asked, select, active: judgement.active }, pipeline) };
  },
});

/** With `select_connector` of a matching rule; a hint of the caller wins over it (decision 5.4). */
function selected({ arrival, claims, action, offer, judgement }: Read, settings: PipelineSettings): CallRoute | Connected | Refusal {
  const selectConnector = judgement.verdict.effects.select_connector;
  if (selectConnector === undefined || action.request.connector_hint !== undefined || selectConnector === offer.connectorId) return offer;
  if (registeredConnectorId(claims.catalogue, selectConnector) === undefined)
    return deny('connector_not_available', `Policy selected ${selectConnector}, which this org does not have, or has switched off.`);
  try {
    return connect({ arrival, claims, action, call: offer, by: { selectConnector }, meantFor: offer.meantFor }, settings);
  } catch (error) {
    if (!(error instanceof GatewayError) || error.code !== 'invalid_request') throw error;
    return deny(
      'connector_without_host',
      `Policy selected ${selectConnector}, which has a host per customer, and the call names none of them.`,
    );
  }
}
