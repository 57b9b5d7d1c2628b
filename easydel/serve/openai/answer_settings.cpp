#include "easydel/serve/openai/answer_settings.h"

#include <algorithm>

#include "easydel/core/json/strict_json.h"

namespace easydel::serve {
namespace {

constexpr std::size_t kAnswerIdBytes = 256;  // of a request_id

void answer_stream_options(Fields& fields, AnswerSettings& settings) {
  const Json* given = fields.object("stream_options");
  if (!given) return;
  require_field(settings.stream, "stream_options", "stream_options needs stream=true.");
  Fields options(*given, "stream_options.");
  settings.include_usage = options.boolean("include_usage", false);
  settings.continuous_usage = options.boolean("continuous_usage_stats", false) && settings.include_usage;
  require_field(!options.boolean("include_obfuscation", false), "stream_options.include_obfuscation",
                "stream_options.include_obfuscation must be false: chunks are not padded.");
  options.refuse_rest();
}

// Accepted with the value that changes nothing.
void answer_neutral(Fields& fields) {
  fields.string("user");
  fields.object("metadata");
  fields.string("safety_identifier");
  fields.string("prompt_cache_key");
  require_field(!fields.boolean("store", false), "store", "store must be false: answers are not kept.");
  const auto tier = fields.string("service_tier");
  require_field(!tier || *tier == "auto" || *tier == "default", "service_tier",
                "service_tier must be auto or default; got \"", tier.value_or(""), "\".");
  const auto retention = fields.string("prompt_cache_retention");
  require_field(!retention || *retention == "in_memory" || *retention == "in-memory", "prompt_cache_retention",
                "prompt_cache_retention must be in_memory; got \"", retention.value_or(""), "\".");
  require_field(!fields.boolean("use_beam_search", false), "use_beam_search",
                "use_beam_search is not supported: beam search does not run in a batch of requests.");
  const auto length_penalty = fields.number("length_penalty", -1e6, 1e6);
  require_field(length_penalty.value_or(1.0) == 1.0, "length_penalty", "length_penalty must be 1 without beam search.");
  require_field(fields.boolean("spaces_between_special_tokens", true), "spaces_between_special_tokens",
                "spaces_between_special_tokens must be true.");
}

}  // namespace

AnswerSettings read_answer_settings(Fields& fields, const ServiceContext& context, std::string_view id_prefix) {
  AnswerSettings settings{.id = make_id(id_prefix),
                          .created = unix_time(),
                          .model = choose_model(context, fields),
                          .fingerprint = context.fingerprint,
                          .truncate_prompt_tokens = {}};
  settings.stream = fields.boolean("stream", false);
  answer_stream_options(fields, settings);
  settings.n = fields.integer("n", 1, context.options.max_choices).value_or(1);
  const auto best_of = fields.integer("best_of", 1);
  require_field(!best_of || *best_of == settings.n, "best_of",
                "best_of must equal n: answers are not ranked; got best_of ", best_of.value_or(0), " and n ",
                settings.n, ".");
  settings.priority = fields.integer("priority").value_or(0);
  settings.tokens_as_ids = fields.boolean("return_tokens_as_token_ids", false);
  settings.return_token_ids = fields.boolean("return_token_ids", false);
  settings.truncate_prompt_tokens = fields.integer("truncate_prompt_tokens", -1);
  require_field(settings.truncate_prompt_tokens != 0, "truncate_prompt_tokens",
                "truncate_prompt_tokens must be -1 or at least 1; got 0.");
  if (const auto request_id = fields.string("request_id")) {
    require_field(request_id->size() <= kAnswerIdBytes, "request_id", "request_id must have at most ", kAnswerIdBytes,
                  " bytes; got ", request_id->size(), ".");
    settings.id = concat(id_prefix, *request_id);
  }
  answer_neutral(fields);
  return settings;
}

void truncate_prompt(std::vector<int32_t>& tokens, const AnswerSettings& settings, const ServiceContext& context) {
  if (!settings.truncate_prompt_tokens) return;
  int64_t keep = *settings.truncate_prompt_tokens;
  if (keep < 0) keep = std::max<int64_t>(context.engine->info().max_model_len - 1, 1);
  const auto size = static_cast<int64_t>(tokens.size());
  if (size > keep) tokens.erase(tokens.begin(), tokens.begin() + (size - keep));
}

Json answer_json(const AnswerSettings& settings, std::string_view object, Json choices) {
  return Json::object({{"id", settings.id},
                       {"object", object},
                       {"created", settings.created},
                       {"model", settings.model.name},
                       {"system_fingerprint", settings.fingerprint},
                       {"choices", std::move(choices)}});
}

std::string chunk_head(const AnswerSettings& settings, std::string_view object) {
  std::string text = dump_strict(answer_json(settings, object, Json::array()));
  text.resize(text.size() - std::string_view("[]}").size());
  return text;
}

std::string chunk_text(const AnswerSettings& settings, std::string_view head, std::string_view choice) {
  std::string text(head);
  text += '[';
  text += choice;
  text += settings.include_usage ? "], \"usage\": null}" : "]}";
  return text;
}

void join_output(RequestOutput& all, const RequestOutput& next) {
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  append(all.tokens, next.tokens);
  append(all.logprobs, next.logprobs);
  append(all.prompt_logprobs, next.prompt_logprobs);
  all.text += next.text;
  all.finish = next.finish;
  all.stop_reason = next.stop_reason;
}

Json stop_reason_json(const RequestOutput& output) {
  if (const auto* token = std::get_if<int32_t>(&output.stop_reason)) return *token;
  if (const auto* text = std::get_if<std::string>(&output.stop_reason)) return *text;
  return {};
}

Request choice_request(const Request& request, int64_t index) {
  Request choice = request;
  if (choice.sampling.seed) *choice.sampling.seed += static_cast<uint64_t>(index);
  return choice;
}

void UsageCounter::take(std::size_t index, const RequestOutput& output) {
  Usage& usage = outputs_[index];
  usage.prompt_tokens = output.prompt_tokens;
  usage.cached_tokens = std::max(usage.cached_tokens, output.cached_tokens);
  usage.completion_tokens = output.output_tokens;
}

Usage UsageCounter::of(std::size_t index) const { return outputs_[index]; }

Usage UsageCounter::total() const {
  Usage total;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    total.completion_tokens += outputs_[i].completion_tokens;
    if (i % per_prompt_ != 0) continue;
    total.prompt_tokens += outputs_[i].prompt_tokens;
    total.cached_tokens += outputs_[i].cached_tokens;
  }
  return total;
}

void send_failure(const HttpReply& reply, EventStream* stream, const ApiError& error) {
  if (!stream || !stream->has_begun()) return reply.send(error_response(error));
  stream->data(error_body(error.status(), error.what(), error.param(), error.code()));
  stream->done();
}

}  // namespace easydel::serve
