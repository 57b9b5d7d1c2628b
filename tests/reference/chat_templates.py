"""Chat templates of the kinds that are published, written for these tests, and random conversations for them."""

import random

TEMPLATES = {
    "chatml": """{%- for message in messages %}
{%- if loop.first and message.role != 'system' %}
{{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
{%- if message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' }}{% generation %}{{ message['content'] }}{{ '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}
{%- else %}
{{- '<|im_start|>' ~ message.role ~ '\\n' ~ message['content'] ~ '<|im_end|>' ~ '\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    "inst": """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}
{% for message in loop_messages %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('Roles must alternate: user, assistant, user, assistant') }}
    {% endif %}
    {% if loop.index0 == 0 and system_message != false %}
        {% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}
    {% else %}
        {% set content = message['content'] %}
    {% endif %}
    {% if message['role'] == 'user' %}
        {{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
    {%- elif message['role'] == 'assistant' %}
        {{ ' ' }}{% generation %}{{ content.strip() + ' ' + eos_token }}{% endgeneration %}
    {%- endif %}
{% endfor %}
""",
    "headers": """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Today: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {{- 'Answer with {"name": function name, "parameters": {...}}.\\n\\n' }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("Cannot put tools in the first user message when there's no first user message!") }}
    {%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' -}}
    {%- for t in tools %}
        {{- t | tojson }}
        {{- "\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>" }}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {% generation %}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {% endgeneration %}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "mistral": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{#- Tool results do not count when roles are checked. #}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, conversation roles must alternate user/assistant/user/assistant/...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {{- ", " if not loop.last else "]" + eos_token }}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " }}{% generation %}{{- message["content"]|trim + eos_token }}{% endgeneration %}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- set content = message.content.content if message.content is mapping and message.content.content is defined else message.content %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id|default("none", true) + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}
    {%- endif %}
{%- endfor %}
""",
    "reasoning": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {{- '<|im_start|>' + message.role + '\\n' }}
        {%- generation %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or (not loop.last and reasoning_content)) %}
            {{- '<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
        {%- endgeneration %}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
""",
    "turns": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\\n'}}
{%- endif -%}
""",
    "documents": """{{ bos_token }}{% macro document_turn(documents) -%}
{# Documents as the result of a search. #}
<results>
{%- for doc in documents %}

    {% if not loop.first %},
    {% endif %}Document: {{ loop.index0 }}
    {%- for key, value in doc | dictsort %}

{{ key }}: {{ value | string | indent(2) }}
    {%- endfor %}
{%- endfor %}

</results>
{%- endmacro %}
{%- macro type_of(spec) -%}
    {%- if spec.type is defined and spec.type == 'array' -%}
        List[{{ type_of(spec['items'] if 'items' in spec else {}) }}]
    {%- elif spec.type is string -%}
        {{ {'string': 'str', 'integer': 'int', 'number': 'float', 'boolean': 'bool'}.get(spec.type, spec.type|capitalize) }}
    {%- else -%}
        Any
    {%- endif -%}
{%- endmacro %}
{%- if messages[0].role == 'system' %}{% set preamble = messages[0].content %}{% set rest = messages[1:] %}{% else %}{% set preamble = 'You help.' %}{% set rest = messages %}{% endif %}
<|SYSTEM|>{{ preamble }}
{% if tools %}
{% for tool in tools -%}
```python
def {{ tool.function.name }}(
{%- for name, spec in tool.function.parameters.properties|items -%}
{{ name }}: {{ type_of(spec) }}{% if name not in tool.function.parameters.required|default([]) %} = None{% endif %}{{ ', ' if not loop.last }}
{%- endfor %}) -> {{ type_of(tool.function['return']) if 'return' in tool.function else 'Any' }}:
    \"\"\"{{ tool.function.description|default('', true) }}\"\"\"
```
{% endfor %}
{% endif %}
{% filter trim %}
{% if documents %}
{{ document_turn(documents) }}
{% endif %}
{% endfilter %}

{% set sep = joiner('\\n') %}
{% for m in rest if m.content %}
{% set text %}
{% if m.content is string %}{{ m.content }}{% else %}{{ m.content|selectattr('type', 'eq', 'text')|map(attribute='text')|join(' ') }}{% endif %}
{% endset %}
{{ sep() }}<|{{ m.role|upper }}|>{{ loop.cycle('', ' ') }}{% if m.role == 'assistant' %}{% generation %}{{ text|trim }}{% endgeneration %}{% else %}{{ text|trim }}{% endif %}
{% else %}
nothing
{% endfor %}
{% if add_generation_prompt %}<|CHATBOT|>{% endif %}
""",
    "pieces": """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='', is_first_sp=true) %}{%- for message in messages %}{%- if message['role'] == 'system' %}{%- if ns.is_first_sp %}{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% set ns.is_first_sp = false %}{%- else %}{% set ns.system_prompt = ns.system_prompt + '\\n\\n' + message['content'] %}{%- endif %}{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{ '<|User|>' + message['content'] }}{%- endif %}{%- if message['role'] == 'assistant' and 'tool_calls' in message and message['tool_calls'] is not none %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls'] %}{%- if not ns.is_first %}{%- if message['content'] is none %}{{ '<|Assistant|><|calls|><|call|>' + tool['type'] + '<|sep|>' + tool['function']['name'] + '\\n```json\\n' + tool['function']['arguments']|string + '\\n```<|end|>' }}{%- else %}{{ '<|Assistant|>' + message['content'] + '<|calls|><|call|>' + tool['type'] + '<|sep|>' + tool['function']['name'] + '\\n' }}{%- endif %}{%- set ns.is_first = true -%}{%- else %}{{ '\\n<|call|>' + tool['type'] + '<|sep|>' + tool['function']['name'] }}{%- endif %}{%- endfor %}{{ '<|callsend|>' + eos_token }}{%- endif %}{%- if message['role'] == 'assistant' and 'tool_calls' not in message %}{%- if ns.is_tool %}{{ '<|outputsend|>' + message['content'] + eos_token }}{%- set ns.is_tool = false -%}{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{ '<|Assistant|>' }}{% generation %}{{ content + eos_token }}{% endgeneration %}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{ '<|outputs|><|output|>' + message['content'] + '<|outputend|>' }}{%- set ns.is_output_first = false %}{%- else %}{{ '<|output|>' + message['content'] + '<|outputend|>' }}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{ '<|outputsend|>' }}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{ '<|Assistant|><think>\\n' }}{% endif %}""",
    "schema": """{%- macro render_type(spec, depth=0) -%}
    {%- if depth > 4 -%}any{%- elif spec is not mapping -%}any
    {%- elif 'enum' in spec -%}{{ spec.enum|map('tojson')|join(' | ') }}
    {%- elif spec.type is sequence and spec.type is not string -%}{{ spec.type|unique|join(' | ') }}
    {%- elif spec.type == 'object' and spec.properties is defined -%}
        {{- '{' }}
        {%- for name, inner in spec.properties.items()|sort %}
            {{- ' ' ~ name ~ ('' if name in spec.get('required', []) else '?') ~ ': ' ~ render_type(inner, depth + 1) }}{{ ';' if not loop.last }}
        {%- endfor %}
        {{- ' }' }}
    {%- elif spec.type == 'array' -%}{{ render_type(spec['items'], depth + 1) }}[]
    {%- else -%}{{ spec.type|default('any') }}{%- endif -%}
    {%- if spec.default is defined %} /* {{ spec.default|tojson }} */{% endif -%}
{%- endmacro -%}
{%- set names = tools|default([], true)|map(attribute='function.name')|list -%}
{%- set roles = messages|map(attribute='role')|list -%}
<|start|>system<|message|>Roles: {{ roles|unique|sort|join(',') }}, longest {{ messages|map(attribute='role')|map('length')|max }}.
{%- if names %}

// {{ names|length }} tool{{ 's' if names|length != 1 }}: {{ names|join(', ') }}
{%- for tool in tools|sort(attribute='function.name') %}

type {{ tool.function.name }} = (_: {{ render_type(tool.function.parameters) }}) => any;
{%- endfor %}
{%- endif %}
{%- for role, group in messages|groupby('role') %} {{ role }}={{ group|length }}{% endfor %}<|end|>
{%- for message in messages %}
    {%- if message.role == 'developer' %}{% continue %}{% endif %}
    {%- if message.content is none and not message.tool_calls %}{% break %}{% endif %}
    {%- with text = (message.content if message.content is string else '') %}
    {%- if message.role == 'assistant' %}
        {%- if message.thinking is defined and message.thinking and loop.nextitem is undefined %}
            {{- '<|start|>assistant<|channel|>analysis<|message|>' ~ message.thinking ~ '<|end|>' }}
        {%- endif %}
        {{- '<|start|>assistant<|message|>' }}{% generation %}{{ text }}{% for call in message.tool_calls or [] %}{{ '\\n' if not loop.first }}{{ call.function.name }}({% for k, v in call.function.arguments.items() %}{{ k }}={{ v|tojson(ensure_ascii=true) }}{{ ', ' if not loop.last }}{% endfor %}){% endfor %}<|end|>{% endgeneration %}
    {%- else %}
        {{- '<|start|>%s<|message|>%s<|end|>' % (message.role, text) }}
        {%- if loop.previtem is defined and loop.previtem.role == message.role %}{{ '<!-- %d -->'|format(loop.index) }}{% endif %}
    {%- endif %}
    {%- endwith %}
{%- endfor %}
{%- if add_generation_prompt %}<|start|>assistant{% endif %}""",
}  # fmt: skip

TEXTS = ["Hello", "", " leading and trailing \n", "línea\nuno\n\n  dos", "日本語のテキスト", "😀 <|im_end|>", "{{ not }} {% code %}", "a'b\"c\\d", "<think>\nhmm\n</think>\n\nanswer", "CRLF\r\nend", "tab\there", "Ünïcödé ΑΣ", "\u2028 \xa0x\x85", "<tool_response>ok</tool_response>", "&<>'"]
NAMES = ["get_weather", "sum", "größe"]


def random_text(rng: random.Random) -> str:
    return "".join(rng.choice(TEXTS) for _ in range(rng.choice([1, 1, 1, 2, 3])))


def random_json(rng: random.Random, depth: int = 2):
    kind = rng.randrange(8 if depth else 6)
    if kind == 6:
        return [random_json(rng, depth - 1) for _ in range(rng.randrange(3))]
    if kind == 7:
        return {rng.choice(["a", "b", "ключ", "x y"]): random_json(rng, depth - 1) for _ in range(rng.randrange(3))}
    return [None, True, rng.randrange(-5, 1000), rng.choice([0.5, 1e-7, 1e20, 3.0, -2.25]), random_text(rng), "plain"][kind]


def random_content(rng: random.Random):
    kind = rng.randrange(12)
    if kind == 0:
        return None
    if kind == 1:
        return [rng.choice([{"type": "text", "text": random_text(rng)}, {"type": "image"}]) for _ in range(rng.randrange(1, 4))]
    return random_text(rng)


def random_spec(rng: random.Random, depth: int = 2) -> dict:
    kind = rng.choice(["string", "integer", "number", "boolean", "array", "object"] if depth else ["string", "integer"])
    spec: dict = {"type": kind}
    if rng.random() < 0.5:
        spec["description"] = random_text(rng)
    if kind == "array":
        spec["items"] = random_spec(rng, depth - 1)
    elif kind == "object":
        spec["properties"] = {rng.choice(["p", "q", "r"]): random_spec(rng, depth - 1) for _ in range(rng.randrange(3))}
        if rng.random() < 0.5:
            spec["required"] = ["p"]
    elif rng.random() < 0.3:
        spec["enum"] = ["x", "é", "z"]
    if rng.random() < 0.2:
        spec["default"] = random_json(rng, 1)
    return spec


def random_tool(rng: random.Random) -> dict:
    parameters = {"type": "object", "properties": {name: random_spec(rng) for name in rng.sample(["city", "unit", "n", "opts"], rng.randrange(4))}}
    if rng.random() < 0.6:
        parameters["required"] = list(parameters["properties"])[:1]
    function = {"name": rng.choice(NAMES), "description": random_text(rng), "parameters": parameters}
    if rng.random() < 0.3:
        function["return"] = random_spec(rng, 1)
    return {"type": "function", "function": function}


def random_message(rng: random.Random, role: str) -> dict:
    message: dict = {"role": role, "content": random_content(rng)}
    if role == "assistant":
        if rng.random() < 0.2:
            message["tool_calls"] = [
                {"type": "function", "id": rng.choice(["abc123def", "short"]), "function": {"name": rng.choice(NAMES), "arguments": rng.choice([{"city": random_text(rng), "n": random_json(rng)}, {}, "{\"a\": 1}"])}}
                for _ in range(rng.choice([1, 1, 2]))
            ]  # fmt: skip
        if rng.random() < 0.2:
            message[rng.choice(["reasoning_content", "thinking", "reasoning"])] = rng.choice([random_text(rng), None])
    if role == "tool" and rng.random() < 0.7:
        message["tool_call_id"] = "abc123def"
        message["name"] = rng.choice(NAMES)
    if rng.random() < 0.03:
        del message["content"]
    return message


def random_chat(rng: random.Random) -> dict:
    roles = ["system"] if rng.random() < 0.4 else []
    for _ in range(rng.randrange(1, 4)):
        roles += ["user", "assistant"] + (["tool", "assistant"] if rng.random() < 0.2 else [])
    if rng.random() < 0.5:
        roles.pop()
    if rng.random() < 0.15:
        roles.insert(rng.randrange(len(roles) + 1), rng.choice(["user", "assistant", "tool", "developer", "system"]))
    chat: dict = {"messages": [random_message(rng, role) for role in roles]}
    if rng.random() < 0.4:
        chat["tools"] = [random_tool(rng) for _ in range(rng.randrange(3))]
    if rng.random() < 0.3:
        chat["documents"] = [{"title": random_text(rng), "text": random_text(rng), "Score": rng.randrange(9)} for _ in range(rng.randrange(1, 3))]
    if rng.random() < 0.4:
        chat["add_generation_prompt"] = True
    if rng.random() < 0.25:
        chat["continue_final_message"] = rng.choice([True, True, True, "content", "reasoning_content", "thinking"])
    variables: dict = {}
    if rng.random() < 0.3:
        variables["enable_thinking"] = rng.choice([True, False])
    if rng.random() < 0.1:
        variables["tools_in_user_message"] = True
    if rng.random() < 0.1:
        variables["date_string"] = "1 Jan 2000"
    if rng.random() < 0.1:
        variables["bos_token"] = "<other>"
    chat["variables"] = variables
    return chat
