"""A user's program: python-sdks.py makes calls with the official Python SDKs as they come, keys and addresses from the environment.

PROJECT, when it is set, is named in a default header, as a program does that says for whom it works. Prints one line of JSON for each call: what it gave
or raised, and what came over the wire (the SDKs speak through httpx or httpx2; both are watched from outside).
"""

import importlib
import json
import os

import anthropic
import openai
from google import genai

PROJECT = os.environ.get("PROJECT")
HEADERS = {"X-GW-Project-ID": PROJECT} if PROJECT else {}
ANSWERS = []


def watch(name):
    try:
        client = importlib.import_module(name).Client
    except ImportError:
        return
    send = client.send

    def watched(self, request, **options):
        response = send(self, request, **options)
        ANSWERS.append({"status": response.status_code, "record_id": response.headers.get("x-gw-record-id")})
        return response

    client.send = watched


for module in ("httpx", "httpx2"):
    watch(module)


def report(sdk, call, run):
    ANSWERS.clear()
    outcome = {}
    try:
        outcome["text"] = run()
    except Exception as error:
        outcome["error"] = {
            "type": type(error).__name__,
            "message": str(error),
            "status": getattr(error, "status_code", None) or getattr(error, "code", None),
        }
    print(json.dumps({"sdk": sdk, "call": call, **outcome, "answers": ANSWERS}), flush=True)


MESSAGES = [{"role": "user", "content": "hello"}]


def by_openai():
    client = openai.OpenAI(default_headers=HEADERS)
    chat = {"model": "gpt-4o", "messages": MESSAGES}

    def stream():
        text = ""
        for chunk in client.chat.completions.create(**chat, stream=True):
            assert len(chunk.choices) == 1 and chunk.usage is None, "nobody asked for usage"
            text += chunk.choices[0].delta.content or ""
        return text

    def helper():
        with client.chat.completions.stream(**chat) as events:
            return events.get_final_completion().choices[0].message.content

    def left():
        with client.chat.completions.create(**chat, stream=True) as events:
            return next(chunk.choices[0].delta.content for chunk in events if chunk.choices[0].delta.content)

    report("openai", "plain", lambda: client.chat.completions.create(**chat).choices[0].message.content)
    report("openai", "stream", stream)
    report("openai", "stream helper", helper)
    report("openai", "stream left", left)
    report("openai", "responses", lambda: client.responses.create(model="gpt-4o", input="hello").output_text)


def by_anthropic():
    client = anthropic.Anthropic(default_headers=HEADERS)
    message = {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": MESSAGES}

    def helper():
        with client.messages.stream(**message) as events:
            return events.get_final_text()

    def left():
        with client.messages.stream(**message) as events:
            return next(iter(events.text_stream))

    report("anthropic", "plain", lambda: client.messages.create(**message).content[0].text)
    report("anthropic", "stream helper", helper)
    report("anthropic", "stream left", left)


def by_gemini():
    client = genai.Client(http_options={"headers": HEADERS})
    ask = {"model": "gemini-2.5-flash", "contents": "hello"}
    report("gemini", "plain", lambda: client.models.generate_content(**ask).text)
    report("gemini", "stream", lambda: "".join(chunk.text or "" for chunk in client.models.generate_content_stream(**ask)))


by_openai()
by_anthropic()
by_gemini()
