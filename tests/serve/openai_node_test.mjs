// The openai package of npm against `easydel serve`. usage: tiny_server.py EASYDEL node --test openai_node_test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";

import OpenAI from "openai";

const { EASYDEL_SERVER: server, EASYDEL_KEY: apiKey, EASYDEL_MODEL: model } = process.env;
const expected = JSON.parse(process.env.EASYDEL_EXPECTED);
const client = new OpenAI({ baseURL: `${server}/v1`, apiKey, maxRetries: 0 });
const greedy = { model, temperature: 0, max_tokens: expected.max_tokens };
const chat = (options) => client.chat.completions.create({ ...greedy, messages: expected.messages, ...options });
const schema = {
  type: "object",
  properties: { color: { type: "string", enum: ["red", "blue"] }, ok: { type: "boolean" } },
  required: ["color", "ok"],
  additionalProperties: false,
};

async function all(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

test("chat answers as transformers does", async () => {
  const done = await chat();
  assert.equal(done.choices[0].message.content, expected.chat);
  assert.equal(done.usage.prompt_tokens, expected.prompt_tokens);
  assert.equal(done.usage.completion_tokens, expected.completion_tokens);
});

test("a stream gives the same text, and the usage", async () => {
  const chunks = await all(await chat({ stream: true, stream_options: { include_usage: true } }));
  const last = chunks.pop();
  assert.deepEqual(last.choices, []);
  assert.equal(last.usage.completion_tokens, expected.completion_tokens);
  assert.equal(chunks.map((chunk) => chunk.choices[0].delta.content ?? "").join(""), expected.chat);
});

test("the stream helper puts a message together", async () => {
  const { max_tokens, ...rest } = greedy;
  const message = await client.chat.completions
    .stream({ ...rest, max_completion_tokens: max_tokens, messages: expected.messages }).finalMessage();
  assert.equal(message.content, expected.chat);
});

test("completions of texts and of token ids", async () => {
  for (const { prompt, ids, text } of expected.prompts)
    for (const given of [prompt, ids]) {
      assert.equal((await client.completions.create({ ...greedy, prompt: given })).choices[0].text, text);
      const chunks = await all(await client.completions.create({ ...greedy, prompt: given, stream: true }));
      assert.equal(chunks.map((chunk) => chunk.choices[0]?.text ?? "").join(""), text);
    }
});

test("echo and log-probabilities", async () => {
  const { prompt, ids } = expected.prompts[0];
  const done = await client.completions.create({ ...greedy, prompt, echo: true, logprobs: 1, max_tokens: 1 });
  assert.ok(done.choices[0].text.startsWith(prompt));
  assert.equal(done.choices[0].logprobs.token_logprobs.length, ids.length + 1);
  assert.equal(done.choices[0].logprobs.token_logprobs[0], null);
  const logprobs = (await chat({ logprobs: true, top_logprobs: 2 })).choices[0].logprobs.content;
  assert.equal(logprobs.length, expected.completion_tokens);
  assert.equal(logprobs[0].top_logprobs[0].token, logprobs[0].token);
});

test("n answers, and a stop string", async () => {
  const done = await chat({ n: 2 });
  assert.deepEqual(done.choices.map((choice) => choice.message.content), [expected.chat, expected.chat]);
  const stop = expected.chat.slice(2, 5);
  const stopped = (await chat({ stop })).choices[0];
  assert.equal(stopped.message.content, expected.chat.slice(0, expected.chat.indexOf(stop)));
  assert.equal(stopped.finish_reason, "stop");
});

test("tools: required, named, streamed", async () => {
  const options = { tools: expected.tools, temperature: 1, seed: 1, max_tokens: 400, parallel_tool_calls: false };
  const required = (await chat({ ...options, tool_choice: "required" })).choices[0];
  assert.equal(required.finish_reason, "tool_calls");
  JSON.parse(required.message.tool_calls[0].function.arguments);
  const tool_choice = { type: "function", function: { name: "switch" } };
  const named = (await chat({ ...options, tool_choice })).choices[0].message.tool_calls[0].function;
  assert.equal(named.name, "switch");
  assert.equal(typeof JSON.parse(named.arguments).on, "boolean");
  const streamed = (await client.chat.completions.stream({ model, messages: expected.messages, ...options, tool_choice })
    .finalMessage()).tool_calls[0].function;
  assert.deepEqual(JSON.parse(streamed.arguments), JSON.parse(named.arguments));
});

test("a JSON schema binds the answer", async () => {
  const response_format = { type: "json_schema", json_schema: { name: "answer", schema, strict: true } };
  const done = await chat({ response_format, temperature: 1, seed: 2, max_tokens: 300 });
  assert.deepEqual(Object.keys(JSON.parse(done.choices[0].message.content)).sort(), ["color", "ok"]);
});

test("embeddings have length one", async () => {
  const done = await client.embeddings.create({ model, input: expected.prompts.map(({ prompt }) => prompt) });
  assert.equal(done.data.length, expected.prompts.length);
  for (const { embedding } of done.data)
    assert.ok(Math.abs(embedding.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-4);
  const floats = await client.embeddings.create({ model, input: expected.prompts[0].ids, encoding_format: "float" });
  const difference = floats.data[0].embedding.map((x, i) => Math.abs(x - done.data[0].embedding[i]));
  assert.ok(Math.max(...difference) < 1e-5);  // another batch may round otherwise
});

test("responses: created, streamed, kept, deleted", async () => {
  const options = { model, input: expected.messages, temperature: 0, max_output_tokens: expected.max_tokens };
  const done = await client.responses.create(options);
  assert.equal(done.output_text, expected.chat);
  const events = await all(await client.responses.create({ ...options, stream: true }));
  assert.equal(events[0].type, "response.created");
  assert.equal(events.at(-1).type, `response.${done.status}`);
  assert.equal(events.filter(({ type }) => type === "response.output_text.delta").map(({ delta }) => delta).join(""), expected.chat);
  assert.equal((await client.responses.retrieve(done.id)).output_text, expected.chat);
  await client.responses.delete(done.id);
  await assert.rejects(client.responses.retrieve(done.id), OpenAI.NotFoundError);
});

test("errors have the classes of the package", async () => {
  const stranger = new OpenAI({ baseURL: `${server}/v1`, apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
  await assert.rejects(chat({ model: "other" }), OpenAI.NotFoundError);
  await assert.rejects(chat({ temperature: "hot" }), (error) => error instanceof OpenAI.BadRequestError && /temperature/.test(error.message));
  await assert.rejects(chat({ messages: [{ role: "user", content: "it was ".repeat(5000) }] }), OpenAI.BadRequestError);
});

test("leaving a stream stops the request", async () => {
  const stream = await client.completions.create({ model, prompt: "It was", max_tokens: 4000, ignore_eos: true, stream: true });
  for await (const _ of stream) break;
  const running = async () => {
    const text = await (await fetch(`${server}/metrics`, { headers: { Authorization: `Bearer ${apiKey}` } })).text();
    return Number(/^vllm:num_requests_running\S* (\S+)$/m.exec(text)[1]);
  };
  const limit = Date.now() + 60000;
  while ((await running()) > 0) assert.ok(Date.now() < limit, "the request still runs");
});
