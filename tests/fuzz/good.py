"""Definitions of all kinds that are right, from which the wrong ones are made."""

from __future__ import annotations

from typing import Any

from node_graphs import sizes

FLOW: dict[str, Any] = sizes()
"""A flow of Bedrock's."""

WHOLE_AGENT: dict[str, Any] = {
    "agentName": "whole",
    "instruction": "You answer questions of all kinds, as well as you can, and nothing else.",
    "foundationModel": "anthropic.claude-3-5-sonnet-20240620-v1:0",
    "idleSessionTTLInSeconds": 600,
    "actionGroups": [
        {
            "actionGroupName": "hr",
            "actionGroupExecutor": {"customControl": "RETURN_CONTROL"},
            "functionSchema": {
                "functions": [
                    {
                        "name": "book",
                        "description": "Books days.",
                        "requireConfirmation": "ENABLED",
                        "parameters": {"days": {"type": "integer", "required": True}},
                    }
                ]
            },
        },
        {
            "actionGroupName": "api",
            "actionGroupExecutor": {"lambda": "handler.py"},
            "apiSchema": {"payload": '{"openapi": "3.0.0", "paths": {}}'},
        },
    ],
    "knowledgeBases": [{"knowledgeBaseId": "HANDBOOK01", "description": "The handbook."}],
    "promptOverrideConfiguration": {
        "promptConfigurations": [
            {
                "promptType": "ORCHESTRATION",
                "promptCreationMode": "OVERRIDDEN",
                "promptState": "ENABLED",
                "basePromptTemplate": '{"messages": [{"role": "user", "content": "$question$"}]}',
                "inferenceConfiguration": {"temperature": 0.5, "stopSequences": ["x"]},
                "parserMode": "DEFAULT",
            }
        ]
    },
    "memoryConfiguration": {"enabledMemoryTypes": ["SESSION_SUMMARY"], "storageDays": 3},
}
GUARDRAIL: dict[str, Any] = {
    "name": "g",
    "blockedInputMessaging": "No.",
    "blockedOutputsMessaging": "No.",
    "wordPolicyConfig": {"wordsConfig": [{"text": "idiot"}]},
    "sensitiveInformationPolicyConfig": {
        "piiEntitiesConfig": [{"type": "EMAIL", "action": "ANONYMIZE"}],
        "regexesConfig": [{"name": "id", "pattern": "E-\\d+", "action": "BLOCK"}],
    },
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "pattern": "^[a-z]+(-[0-9]{2,3})?$", "maxLength": 9},
        "b": {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": 3},
        "c": {"anyOf": [{"type": "number", "multipleOf": 0.5}, {"enum": ["x", 1, None]}]},
        "d": {"$ref": "#/definitions/d"},
    },
    "required": ["a"],
    "definitions": {"d": {"type": ["boolean", "null"], "description": "D."}},
}
PPE_MESSAGES = 'system: "You are {{ who }}."\nuser: |\n  {{ x }}\nassistant: "{{ l }}"\n'
PPE = (
    'user: "Say {{ who }}"\nassistant: "[[kind:|a|b]]"\n$rate: {text: "?=kind"}\nuser: end\n',
    '$match(kind):\n  :"a":\n    - $set: {x: "b"}\n  :_:\n    - $set: {x: "c"}\nuser: "{{x}}"\n',
)
PL = (
    "FOR $x in $xs:\n    Say $x -> said\n    @log($said) >> logged\nEND\nEnd $logged -> out\n",
    'IF $a == "b" and not $c:\n    Ask it -> d\nelse:\n    @f(1, x="y") -> d\nEND\n',
)
PROMPTY = (
    "---\nname: greeting\nmodel: {id: gpt-4, options: {temperature: 0.3, maxOutputTokens: 9}}\n"
    "inputs: [{name: x, default: kind}, {name: l, kind: array}]\n"
    "tools: [{name: find, kind: function}]\n---\nsystem:\nBe {{ x }}.\n"
    '{% for y in l %}\nuser[name="{{ x }}"]:\n{{ y|upper }}\n{% endfor %}\n'
    'assistant[type="tool_call"]:\nid: a\nfunction: {name: f, arguments: {a: "-{{ x }}-"}}\n'
    "tool[tool_call_id=a]:\nR\nuser:\n![image](https://x/i.png)\n",
    "---\ntemplate: {parser: {options: {dialect: legacy}}}\n---\n"
    "system:\nBe kind.\nuser:\n{{ x }}\n",
    "---\ntemplate: {format: mustache}\n---\nuser:\n{{{x}}}{{#l}} {{{.}}}{{/l}}{{^x}}no{{/x}}\n",
)
SEMANTIC_KERNEL = (
    "<message role='system'>Be <b a='{{$x}}'>kind</b> &lt;</message>"
    "<message role='user'><text>{{$x}}</text><image uri='https://x/i.png'/></message>"
    "<message role='assistant'><function_call id='1' name='f'>{\"a\": \"b\"}</function_call>"
    "</message><message role='tool'><function_result id='1'><![CDATA[ r ]]></function_result>"
    "</message><!-- {{'<b>'}} -->"
)
SEMANTIC_KERNEL_YAML = (
    "name: n\ntemplate: '<message role=\"user\">{{$x}}</message>'\n"
    "template_format: semantic-kernel\ninput_variables:\n- {name: x, is_required: true}\n"
    "execution_settings:\n  default: {temperature: 0.5, max_tokens: 9}\n"
)
HANDLEBARS = (
    "{{#message role='user' name=x}}{{#each l}}{{this}} {{@root.x}}{{/each}}{{/message}}"
    "{{#if x}}<message role='system'>{{concat x 'a'}}{{set 'k' x}}{{k}}</message>{{/if}}"
    "{{#with x as |w|}}{{w}}{{/with}}{{json x}}"
)
JINJA2 = (
    "<message role='user'>{% for y in l %}{{ y|upper }}{% endfor %}</message>"
    "{% set z %}a{{ x }}{% endset %}{% macro m(q) %}[{{ q }}]{% endmacro %}"
    "{% if x %}<message role='system'>{{ m(z) ~ x|tojson }}</message>{% endif %}"
)
