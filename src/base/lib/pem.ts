const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/** The certificates of a PEM text, each as a PEM text of its own, in their order; what stands around them is left out. */
export function certificatesIn(pem: string): readonly string[] {
  return pem.match(CERTIFICATE) ?? [];
}
