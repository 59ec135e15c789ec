"""A user's program: http-clients.py CLIENT TRUST makes one call with requests or httpx and prints one line of JSON about it.

TRUST is `variables` (nothing but the environment says whom to trust) or `strict` (the program makes its own context, as Python 3.13 does by default).
"""

import json
import os
import ssl
import sys

URL = "https://api.openai.com/v1/chat/completions"
BODY = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}]}
HEADERS = {"Authorization": "Bearer sk-test"}


def strict_context():
    context = ssl.create_default_context(cafile=os.environ["BUNDLE"])
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def by_requests(strict):
    import requests
    from requests.adapters import HTTPAdapter

    class StrictAdapter(HTTPAdapter):
        def init_poolmanager(self, *args, **kwargs):
            return super().init_poolmanager(*args, ssl_context=strict_context(), **kwargs)

        def proxy_manager_for(self, *args, **kwargs):
            return super().proxy_manager_for(*args, ssl_context=strict_context(), **kwargs)

    session = requests.Session()
    if strict:
        session.mount("https://", StrictAdapter())
    return session.post(URL, json=BODY, headers=HEADERS)


def by_httpx(strict):
    import httpx

    with httpx.Client(**({"verify": strict_context()} if strict else {})) as client:
        return client.post(URL, json=BODY, headers=HEADERS)


client, trust = sys.argv[1:]
answer = {"requests": by_requests, "httpx": by_httpx}[client](trust == "strict")
print(
    json.dumps(
        {
            "status": answer.status_code,
            "text": answer.json()["choices"][0]["message"]["content"],
            "record_id": answer.headers["X-GW-Record-ID"],
        }
    )
)
