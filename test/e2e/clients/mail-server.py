"""A mail server: prints its port, then each message that it takes as one line of JSON. Arguments: certificate, key, user, password."""
import asyncio
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult

cert, key, user, password = sys.argv[1:5]


class Taken:
    async def handle_DATA(self, server, session, envelope):
        text = envelope.content.decode("utf-8", "replace")
        said = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "text": text,
            "tls": session.ssl is not None,
            "authenticated": bool(session.authenticated),
        }
        print(json.dumps(said), flush=True)
        return "250 taken"

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("nobody@"):
            return "550 no such mailbox"
        if address.startswith("busy@"):
            return "451 try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"


def judge(server, session, envelope, mechanism, data):
    good = data.login == user.encode() and data.password == password.encode()
    return AuthResult(success=good, handled=False)


async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(
            Taken(),
            hostname="mail.example.test",
            tls_context=context,
            require_starttls=True,
            authenticator=judge,
            auth_required=True,
        ),
        "127.0.0.1",
        0,
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
