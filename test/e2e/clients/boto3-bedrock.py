"""Calls Amazon Bedrock with boto3 as it comes: by HTTPS_PROXY and AWS_CA_BUNDLE, signed with the key of the environment. One JSON line for each call."""

import json

import boto3
from botocore.exceptions import ClientError

bedrock = boto3.client("bedrock-runtime", region_name="eu-west-1")
CLAUDE = "eu.anthropic.claude-3-haiku-20240307-v1:0"
PROFILE = "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/abc"
HELLO = [{"role": "user", "content": [{"text": "hello é"}]}]
BODY = json.dumps({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": []})


def converse(model):
    return bedrock.converse(modelId=model, messages=HELLO)["usage"]["outputTokens"]


def converse_stream():
    answer = bedrock.converse_stream(modelId=CLAUDE, messages=HELLO)
    return [name for event in answer["stream"] for name in event]


def invoke():
    return json.loads(bedrock.invoke_model(modelId=CLAUDE, body=BODY)["body"].read())["usage"]["output_tokens"]


def invoke_stream():
    answer = bedrock.invoke_model_with_response_stream(modelId=CLAUDE, body=BODY)
    return [json.loads(event["chunk"]["bytes"])["type"] for event in answer["body"]]


CALLS = {
    "converse": lambda: converse(CLAUDE),
    "profile": lambda: converse(PROFILE),
    "converse_stream": converse_stream,
    "invoke": invoke,
    "invoke_stream": invoke_stream,
    "downgraded": lambda: converse("anthropic.claude-opus-4-8"),
}

for name, call in CALLS.items():
    try:
        print(json.dumps({"call": name, "said": call()}), flush=True)
    except ClientError as error:
        print(json.dumps({"call": name, "error": type(error).__name__, "message": str(error)}), flush=True)
