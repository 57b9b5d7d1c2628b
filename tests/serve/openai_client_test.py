"""The openai package of Python against `easydel serve`. usage: openai_client_test.py EASYDEL"""

import base64
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import typing
import unittest
import urllib.request

EASYDEL = sys.argv.pop(1)

import openai
import pydantic
import torch

from tiny_server import CONTEXT, KEY, MESSAGES, MODEL, PROMPTS, SECOND_TOOL, TOOL, Server, TinyModel

COUNT = 16
SCHEMA = {"type": "object", "properties": {"color": {"type": "string", "enum": ["red", "blue"]}, "ok": {"type": "boolean"}},
          "required": ["color", "ok"], "additionalProperties": False}
FUNCTION_TOOL = {"type": "function", "strict": True, **TOOL["function"]}  # as /v1/responses has it


class Answer(pydantic.BaseModel):
    color: typing.Literal["red", "blue"]
    ok: bool


def setUpModule():
    global folder, tiny, server, client
    folder = tempfile.TemporaryDirectory()
    tiny = TinyModel(pathlib.Path(folder.name) / "model")
    server = Server(EASYDEL, tiny.path).__enter__()
    client = openai.OpenAI(base_url=server.url + "/v1", api_key=KEY, max_retries=0, timeout=120)


def tearDownModule():
    server.__exit__()
    folder.cleanup()


def chat(**options):
    return client.chat.completions.create(**({"model": MODEL, "messages": MESSAGES, "temperature": 0, "max_tokens": COUNT} | options))


def complete(prompt, **options):
    return client.completions.create(**({"model": MODEL, "prompt": prompt, "temperature": 0, "max_tokens": COUNT} | options))


def respond(**options):
    return client.responses.create(**({"model": MODEL, "input": MESSAGES, "temperature": 0, "max_output_tokens": COUNT} | options))


def metric(name: str) -> float:
    request = urllib.request.Request(server.url + "/metrics", headers={"Authorization": f"Bearer {KEY}"})
    text = urllib.request.urlopen(request, timeout=60).read().decode()
    values = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.split("{")[0].split(" ")[0] == name]
    assert values, f"/metrics has no {name}:\n{text}"
    return sum(values)


class Chat(unittest.TestCase):
    def setUp(self):
        self.ids = tiny.chat_ids(MESSAGES)
        self.answer = tiny.greedy(self.ids, COUNT)
        self.text = tiny.text(self.answer)

    def test_a_greedy_answer_is_that_of_transformers(self):
        done = chat()
        self.assertEqual((done.object, done.model), ("chat.completion", MODEL))
        choice = done.choices[0]
        self.assertEqual((choice.message.role, choice.message.content), ("assistant", self.text))
        self.assertEqual(choice.finish_reason, "stop" if self.answer[-1] == 1 else "length")
        usage = done.usage
        self.assertEqual((usage.prompt_tokens, usage.completion_tokens), (len(self.ids), len(self.answer)))
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)

    def test_parts_of_text_are_one_message(self):
        parts = [MESSAGES[0], {"role": "user", "content": [{"type": "text", "text": "It was "}, {"type": "text", "text": "the age"}]}]
        joined = [MESSAGES[0], {"role": "user", "content": "It was the age"}]
        lines = [MESSAGES[0], {"role": "user", "content": "It was \nthe age"}]  # as vLLM joins them
        self.assertIn(chat(messages=parts).choices[0].message.content,
                      [chat(messages=messages).choices[0].message.content for messages in (joined, lines)])

    def test_a_stream_gives_the_same_text_and_the_usage(self):
        chunks = list(chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual({chunk.object for chunk in chunks}, {"chat.completion.chunk"})
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), self.text)
        reasons = [c.choices[0].finish_reason for c in chunks if c.choices]
        self.assertEqual(reasons[-1], chat().choices[0].finish_reason)
        self.assertEqual(set(reasons[:-1]), {None})
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, len(self.answer))
        self.assertTrue(all(chunk.usage is None for chunk in chunks[:-1]))
        self.assertTrue(all(chunk.usage is None for chunk in chat(stream=True)))

    def test_log_probabilities_are_those_of_transformers(self):
        theirs = tiny.logprobs(self.ids + self.answer)[len(self.ids) - 1:-1]
        entries = chat(logprobs=True, top_logprobs=3).choices[0].logprobs.content
        self.assertEqual(len(entries), len(self.answer))
        for row, token, entry in zip(theirs, self.answer, entries):
            self.assertAlmostEqual(entry.logprob, row[token].item(), delta=2e-4)
            self.assertEqual([round(top.logprob, 3) for top in entry.top_logprobs],
                             [round(value, 3) for value in row.topk(3).values.tolist()])
            self.assertEqual(entry.top_logprobs[0].token, entry.token)
        spoken = [bytes(e.bytes) for e, token in zip(entries, self.answer) if token > 2]
        self.assertEqual(b"".join(spoken).decode(errors="replace"), self.text)
        streamed = [e for c in chat(logprobs=True, top_logprobs=3, stream=True) if c.choices and c.choices[0].logprobs
                    for e in c.choices[0].logprobs.content]
        self.assertEqual([e.token for e in streamed], [e.token for e in entries])
        self.assertIsNone(chat().choices[0].logprobs)

    def test_n_answers_follow_the_seed(self):
        draw = lambda seed: [c.message.content for c in chat(n=3, temperature=1.5, seed=seed).choices]
        first = draw(5)
        self.assertEqual(len(set(first)), 3)
        self.assertEqual(draw(5), first)
        self.assertNotEqual(draw(6), first)
        both = chat(n=2)
        self.assertEqual([(c.index, c.message.content) for c in both.choices], [(0, self.text), (1, self.text)])
        self.assertEqual(both.usage.completion_tokens, 2 * len(self.answer))
        texts = ["", "", ""]
        for chunk in chat(n=3, temperature=1.5, seed=5, stream=True):
            texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
        self.assertEqual(texts, first)

    def test_a_stop_string_ends_the_answer_before_it(self):
        stop = self.text[3:6]
        done = chat(stop=[stop, "never written by anybody"]).choices[0]
        self.assertEqual(done.message.content, self.text[:self.text.index(stop)])
        self.assertEqual(done.finish_reason, "stop")
        streamed = "".join(c.choices[0].delta.content or "" for c in chat(stop=stop, stream=True))
        self.assertEqual(streamed, done.message.content)

    def test_a_bias_decides_the_token(self):
        token = tiny.ids("wisdom")[0]
        done = chat(logit_bias={str(token): 100}, max_tokens=3)
        self.assertEqual(done.choices[0].message.content, tiny.text([token] * 3))

    def test_a_schema_binds_the_answer(self):
        form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
        for seed in range(5):
            done = chat(response_format=form, temperature=1, seed=seed, max_tokens=200)
            self.assertEqual(done.choices[0].finish_reason, "stop")
            given = json.loads(done.choices[0].message.content)
            self.assertEqual(sorted(given), ["color", "ok"])
            self.assertIn(given["color"], ("red", "blue"))
            self.assertIsInstance(given["ok"], bool)
        parsed = client.chat.completions.parse(model=MODEL, messages=MESSAGES, seed=1, max_tokens=200, response_format=Answer)
        self.assertIsInstance(parsed.choices[0].message.parsed, Answer)

    def test_a_json_object(self):
        done = chat(response_format={"type": "json_object"}, temperature=1, seed=3, max_tokens=2000)
        if done.choices[0].finish_reason == "stop":
            self.assertIsInstance(json.loads(done.choices[0].message.content), dict)
        else:
            self.assertEqual(done.choices[0].message.content.lstrip()[:1], "{")

    def check_call(self, call, name: str):
        self.assertEqual((call.type, call.function.name), ("function", name))
        given = json.loads(call.function.arguments)
        if name == "weather":
            self.assertIn(given["city"], ("Paris", "Rome", "東京"))
            self.assertIn(given["days"], range(1, 10))
        else:
            self.assertEqual({key: type(value) for key, value in given.items()}, {"on": bool})

    def test_a_tool_must_be_called(self):
        for seed in range(4):
            options = dict(tools=[TOOL, SECOND_TOOL], tool_choice="required", temperature=1, seed=seed, max_tokens=400,
                           parallel_tool_calls=False)
            done = chat(**options).choices[0]
            self.assertEqual((done.finish_reason, len(done.message.tool_calls)), ("tool_calls", 1))
            call = done.message.tool_calls[0]
            self.check_call(call, call.function.name)
            name, arguments, ids, reason = "", "", set(), None
            for chunk in chat(stream=True, **options):
                for delta in chunk.choices[0].delta.tool_calls or []:
                    self.assertEqual(delta.index, 0)
                    name += delta.function.name or ""
                    arguments += delta.function.arguments or ""
                    ids |= {delta.id} - {None}
                reason = chunk.choices[0].finish_reason or reason
            self.assertEqual((name, json.loads(arguments)), (call.function.name, json.loads(call.function.arguments)))
            self.assertEqual((len(ids), reason), (1, "tool_calls"))

    def test_a_named_tool_is_called(self):
        for name in ("weather", "switch"):
            done = chat(tools=[TOOL, SECOND_TOOL], tool_choice={"type": "function", "function": {"name": name}}, temperature=1,
                        seed=2, max_tokens=400).choices[0]
            self.assertIn(done.finish_reason, ("tool_calls", "stop"))  # OpenAI says stop here, vLLM either
            self.check_call(done.message.tool_calls[0], name)

    def test_a_call_and_its_result_are_part_of_the_prompt(self):
        messages = [{"role": "user", "content": "times"},
                    {"role": "assistant", "content": None, "tool_calls": [
                        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome", "days": 2}'}}]},
                    {"role": "tool", "tool_call_id": "call_1", "content": "wisdom"}]
        done = chat(messages=messages, tools=[TOOL])
        objects = json.loads(json.dumps(messages))
        objects[1]["tool_calls"][0]["function"]["arguments"] = {"city": "Rome", "days": 2}
        ids = tiny.chat_ids(objects, tools=[TOOL])
        self.assertEqual(done.usage.prompt_tokens, len(ids))
        self.assertEqual(done.choices[0].message.content or "", tiny.text(tiny.greedy(ids, COUNT)))


class Completions(unittest.TestCase):
    def test_a_greedy_text_is_that_of_generate_and_of_transformers(self):
        for prompt in PROMPTS:
            ids = tiny.ids(prompt)
            want = tiny.text(tiny.greedy(ids, COUNT))
            run = subprocess.run([EASYDEL, "generate", tiny.path, "--prompt", prompt, "--max-new-tokens", str(COUNT), "--json"],
                                 capture_output=True, text=True, check=True)
            self.assertEqual(json.loads(run.stdout)["sequences"][0]["text"], want)
            for given in (prompt, ids):
                done = complete(given)
                self.assertEqual((done.object, done.choices[0].text), ("text_completion", want))
                self.assertEqual(done.usage.prompt_tokens, len(ids))
                self.assertEqual("".join(c.choices[0].text for c in complete(given, stream=True) if c.choices), want)

    def test_several_prompts_have_a_choice_each(self):
        for prompts in (PROMPTS, [tiny.ids(prompt) for prompt in PROMPTS]):
            done = complete(prompts, n=2)
            self.assertEqual([c.index for c in done.choices], list(range(2 * len(PROMPTS))))
            self.assertEqual([c.text for c in done.choices],
                             [tiny.text(tiny.greedy(tiny.ids(prompt), COUNT)) for prompt in PROMPTS for _ in range(2)])

    def test_an_echo_has_the_log_probabilities_of_the_prompt(self):
        ids = tiny.ids("It was the worst of times")
        for count in (0, 1, 5):
            done = complete(ids, echo=True, logprobs=2, max_tokens=count).choices[0]
            answer = tiny.greedy(ids, count) if count else []
            self.assertEqual(done.text, tiny.text(ids + answer))
            theirs = tiny.logprobs(ids + answer)
            self.assertEqual(len(done.logprobs.tokens), len(ids + answer))
            self.assertIsNone(done.logprobs.token_logprobs[0])
            for row, token, ours, top in zip(theirs, (ids + answer)[1:], done.logprobs.token_logprobs[1:], done.logprobs.top_logprobs[1:]):
                self.assertAlmostEqual(ours, row[token].item(), delta=2e-4)
                self.assertAlmostEqual(max(top.values()), row.max().item(), delta=2e-4)
                self.assertEqual(ours == max(top.values()), row.argmax().item() == token)
            self.assertEqual(done.logprobs.text_offset[:3], [len(tiny.text(ids[:i])) for i in range(3)])

    def test_a_suffix_is_refused_by_name(self):
        with self.assertRaises(openai.BadRequestError) as refused:
            complete("a", suffix="b")
        self.assertIn("suffix", str(refused.exception))


class Embeddings(unittest.TestCase):
    def test_are_the_last_hidden_state_with_length_one(self):
        ids = [tiny.ids(prompt) for prompt in PROMPTS]
        want = [torch.nn.functional.normalize(tiny.last_hidden(row), dim=0) for row in ids]
        for given in (PROMPTS, ids):
            done = client.embeddings.create(model=MODEL, input=given)  # base64, decoded by the package
            self.assertEqual([row.index for row in done.data], [0, 1, 2])
            for row, theirs in zip(done.data, want):
                torch.testing.assert_close(torch.tensor(row.embedding), theirs, rtol=1e-4, atol=1e-5)
            self.assertEqual(done.usage.prompt_tokens, sum(map(len, ids)))
        one = client.embeddings.create(model=MODEL, input=PROMPTS[0], encoding_format="float", dimensions=5).data[0].embedding
        torch.testing.assert_close(torch.tensor(one), torch.nn.functional.normalize(want[0][:5], dim=0), rtol=1e-4, atol=1e-5)
        raw = client.embeddings.create(model=MODEL, input=ids[0], encoding_format="base64").data[0].embedding
        self.assertEqual(len(struct.unpack("<32f", base64.b64decode(raw))), 32)

    def test_scores_and_ranks_are_by_the_angle_of_embeddings(self):
        query, *documents = (tiny.last_hidden(tiny.ids(text)) for text in ("It was", *PROMPTS))
        want = [torch.nn.functional.cosine_similarity(query, document, dim=0).item() for document in documents]
        post = lambda path, **body: client.post(path, cast_to=object, body={"model": MODEL, **body})
        for path in ("/score", server.url + "/score"):
            data = post(path, text_1="It was", text_2=PROMPTS)["data"]
            for row, score in zip(data, want):
                self.assertAlmostEqual(row["score"], score, delta=1e-4)
        order = sorted(range(len(want)), key=lambda i: -want[i])
        for path in ("/rerank", server.url + "/rerank"):
            results = post(path, query="It was", documents=PROMPTS, top_n=2)["results"]
            self.assertEqual([row["index"] for row in results], order[:2])
            self.assertEqual([row["document"]["text"] for row in results], [PROMPTS[i] for i in order[:2]])
            self.assertAlmostEqual(results[0]["relevance_score"], want[order[0]], delta=1e-4)

    def test_bad_inputs_are_refused(self):
        for bad in (dict(input=""), dict(input=[]), dict(input="a", dimensions=33), dict(input="a", dimensions=0),
                    dict(input="a", encoding_format="int4"), dict(input=[[999999]])):
            with self.assertRaises(openai.BadRequestError, msg=str(bad)):
                client.embeddings.create(model=MODEL, **bad)


class Responses(unittest.TestCase):
    def test_an_answer_is_that_of_chat(self):
        want = chat().choices[0].message.content
        for given in (dict(), dict(input=MESSAGES[1]["content"], instructions=MESSAGES[0]["content"]),
                      dict(input=[{"role": "user", "content": [{"type": "input_text", "text": MESSAGES[1]["content"]}]}],
                           instructions=MESSAGES[0]["content"])):
            done = respond(**given)
            self.assertEqual((done.object, done.output_text), ("response", want))
            self.assertEqual(done.usage.input_tokens, chat().usage.prompt_tokens)
            self.assertEqual(done.usage.output_tokens, chat().usage.completion_tokens)
            if chat().choices[0].finish_reason == "length":
                self.assertEqual((done.status, done.incomplete_details.reason), ("incomplete", "max_output_tokens"))
            else:
                self.assertEqual(done.status, "completed")

    def test_a_stream_has_the_typed_events_in_order(self):
        done = respond()
        events = list(respond(stream=True))
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        kinds = [event.type for event in events]
        self.assertEqual(kinds[:4], ["response.created", "response.in_progress", "response.output_item.added",
                                     "response.content_part.added"])
        middle = kinds[4:-4]
        self.assertEqual(set(middle), {"response.output_text.delta"})
        self.assertEqual(kinds[-4:], ["response.output_text.done", "response.content_part.done", "response.output_item.done",
                                      "response." + done.status])
        self.assertEqual("".join(event.delta for event in events[4:-4]), done.output_text)
        self.assertEqual(events[-1].response.output_text, done.output_text)
        with client.responses.stream(model=MODEL, input=MESSAGES, temperature=0, max_output_tokens=COUNT) as stream:
            self.assertIn("response.output_text.delta", [event.type for event in stream])

    def test_a_tool_call_and_its_output(self):
        options = dict(tools=[FUNCTION_TOOL], tool_choice="required", temperature=1, max_output_tokens=400, parallel_tool_calls=False)
        done = respond(**options)
        calls = [item for item in done.output if item.type == "function_call"]
        self.assertEqual([(call.name, call.status) for call in calls], [("weather", "completed")])
        self.assertIn(json.loads(calls[0].arguments)["city"], ("Paris", "Rome", "東京"))
        arguments, finished = "", None
        for event in respond(stream=True, **options):
            if event.type == "response.function_call_arguments.delta":
                arguments += event.delta
            if event.type == "response.function_call_arguments.done":
                finished = event.arguments
        self.assertEqual(arguments, finished)
        self.assertIn(json.loads(arguments)["days"], range(1, 10))
        named = respond(**(options | {"tool_choice": {"type": "function", "name": "weather"}}))
        self.assertEqual([item.name for item in named.output if item.type == "function_call"], ["weather"])
        then = respond(previous_response_id=done.id, tools=[FUNCTION_TOOL], tool_choice="none",
                       input=[{"type": "function_call_output", "call_id": calls[0].call_id, "output": "wisdom"}])
        call = {"type": "function", "function": {"name": "weather", "arguments": json.loads(calls[0].arguments)}}
        whole = [*MESSAGES, {"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "content": "wisdom"}]
        self.assertEqual(then.usage.input_tokens, len(tiny.chat_ids(whole)))  # without tools, as none may be called
        self.assertEqual(then.output_text, tiny.text(tiny.greedy(tiny.chat_ids(whole), COUNT)))

    def test_a_schema_binds_the_answer(self):
        done = respond(text={"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}}, temperature=1,
                       max_output_tokens=300)
        self.assertEqual(done.status, "completed")
        self.assertEqual(sorted(json.loads(done.output_text)), ["color", "ok"])

    def test_responses_are_kept_and_continued(self):
        first = respond(input="times", store=True)
        self.assertEqual(client.responses.retrieve(first.id).output_text, first.output_text)
        second = respond(input="and so on", previous_response_id=first.id)
        whole = [{"role": "user", "content": "times"}, {"role": "assistant", "content": first.output_text},
                 {"role": "user", "content": "and so on"}]
        self.assertEqual(second.usage.input_tokens, len(tiny.chat_ids(whole)))
        self.assertEqual(second.output_text, tiny.text(tiny.greedy(tiny.chat_ids(whole), COUNT)))
        client.responses.delete(first.id)
        with self.assertRaises(openai.NotFoundError):
            client.responses.retrieve(first.id)
        unkept = respond(input="times", store=False)
        with self.assertRaises(openai.NotFoundError):
            client.responses.retrieve(unkept.id)

    def test_what_is_not_supported_is_refused_by_name(self):
        for field, value in (("background", True), ("conversation", "conv_1"), ("truncation", "auto"),
                             ("tools", [{"type": "web_search"}]), ("prompt", {"id": "p"}), ("temprature", 1)):
            with self.assertRaises(openai.BadRequestError, msg=field) as refused:
                respond(extra_body={field: value})
            self.assertIn(field, str(refused.exception))


class Errors(unittest.TestCase):
    def refused(self, kind, call, *words):
        with self.assertRaises(kind) as refused:
            call()
        body = refused.exception.body  # the package takes what is under "error"
        self.assertEqual(set(body) & {"message", "type", "code"}, {"message", "type", "code"})
        for word in words:
            self.assertIn(word, body["message"])

    def test_a_wrong_key(self):
        for path in ("chat.completions", "completions", "embeddings", "responses"):
            stranger = openai.OpenAI(base_url=server.url + "/v1", api_key="wrong", max_retries=0)
            given = {"chat.completions": dict(messages=MESSAGES), "completions": dict(prompt="a")}.get(path, dict(input="a"))
            resource = stranger.chat.completions if path == "chat.completions" else getattr(stranger, path)
            self.refused(openai.AuthenticationError, lambda: resource.create(model=MODEL, **given))
        self.refused(openai.AuthenticationError, lambda: list(stranger.models.list()))

    def test_an_unknown_model(self):
        self.refused(openai.NotFoundError, lambda: chat(model="other"), "other")
        self.refused(openai.NotFoundError, lambda: complete("a", model="other"), "other")
        self.refused(openai.NotFoundError, lambda: client.embeddings.create(model="other", input="a"), "other")
        self.refused(openai.NotFoundError, lambda: respond(model="other"), "other")
        self.refused(openai.NotFoundError, lambda: client.models.retrieve("other"), "other")

    def test_a_prompt_that_is_too_long(self):
        ids = [5] * (CONTEXT + 1)
        self.refused(openai.BadRequestError, lambda: complete(ids), str(CONTEXT), str(CONTEXT + 1))
        self.refused(openai.BadRequestError, lambda: chat(messages=[{"role": "user", "content": "it was " * CONTEXT}]), str(CONTEXT))
        self.refused(openai.BadRequestError, lambda: complete([5], max_tokens=CONTEXT), str(CONTEXT))

    def test_bad_values(self):
        for field, value in (("temperature", "hot"), ("temperature", -1), ("top_p", 2), ("n", 0), ("max_tokens", "7"), ("messages", "hello"),
                             ("messages", []), ("stop", 3), ("stream", "yes"), ("logit_bias", {"a": 1}), ("top_logprobs", 3),
                             ("tools", {}), ("tool_choice", "weather"), ("response_format", {"type": "yaml"}), ("seed", 1.5)):
            self.refused(openai.BadRequestError, lambda: chat(extra_body={field: value}), field)

    def test_models(self):
        self.assertEqual([model.id for model in client.models.list()], [MODEL])
        self.assertEqual(client.models.retrieve(MODEL).object, "model")


class Leaving(unittest.TestCase):
    def test_a_client_that_leaves_stops_its_request(self):
        before = metric("vllm:generation_tokens_total")
        stream = complete("It was", max_tokens=CONTEXT - 10, stream=True, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.response.close()
        limit = time.monotonic() + 60
        while metric("vllm:num_requests_running") > 0:
            self.assertLess(time.monotonic(), limit, "the request still runs")
        self.assertLess(metric("vllm:generation_tokens_total") - before, CONTEXT - 10)
        self.assertEqual(complete("It was").choices[0].text, tiny.text(tiny.greedy(tiny.ids("It was"), COUNT)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
