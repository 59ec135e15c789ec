const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/** The certificates of a PEM text, each as a PEM text of its own, in their order, without what stands around them. */
export function certificatesIn(pem: string): readonly string[] {
  return pem.match(CERTIFICATE) ?? [];
}
