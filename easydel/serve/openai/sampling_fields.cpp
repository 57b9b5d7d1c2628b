#include "easydel/serve/openai/sampling_fields.h"

#include <algorithm>
#include <charconv>

namespace easydel::serve {
namespace {

constexpr double kSamplingMost = 1e6;  // of values that have no bound of their own

template <class T>
void sampling_set(T& value, const std::optional<T>& given) {
  if (given) value = *given;
}

void sampling_set_above_zero(Fields& fields, std::string_view name, double most, double& value) {
  const auto given = fields.number(name, 0.0, most);
  require_field(!given || *given > 0.0, fields.path(name), fields.path(name), " must be above 0; got 0.");
  sampling_set(value, given);
}

std::map<int32_t, double> sampling_bias(const Json& object, int64_t vocab_size) {
  std::map<int32_t, double> bias;
  for (const auto& [key, value] : object.as_object()) {
    int32_t token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    const bool is_token = error == std::errc() && end == key.data() + key.size() && token >= 0 && token < vocab_size;
    require_field(is_token, "logit_bias", "logit_bias must map token ids below ", vocab_size, " to numbers; got \"",
                  key, "\".");
    require_field(value.is_number() && value.as_double() >= -100.0 && value.as_double() <= 100.0, "logit_bias",
                  "logit_bias must have values from -100 to 100; got ", value.dump(), " for token ", key, ".");
    bias[token] = value.as_double();
  }
  return bias;
}

void sampling_stops(Fields& fields, SamplingParams& sampling, int64_t vocab_size) {
  if (fields.find("stop")) sampling.stop = fields.strings("stop");
  for (const std::string& stop : sampling.stop) {
    require_field(!stop.empty(), "stop", "stop must not have an empty string.");
  }
  if (fields.find("stop_token_ids")) sampling.stop_token_ids = fields.tokens("stop_token_ids");
  for (const int32_t id : sampling.stop_token_ids) {
    require_field(id < vocab_size, "stop_token_ids", "stop_token_ids must be below ", vocab_size, "; got ", id, ".");
  }
  sampling_set(sampling.include_stop_str_in_output, fields.boolean("include_stop_str_in_output"));
  sampling_set(sampling.ignore_eos, fields.boolean("ignore_eos"));
}

GrammarSpec sampling_schema(const Json& schema, const std::string& path) {
  if (schema.is_string()) return {.kind = GrammarSpec::Kind::JsonSchema, .text = schema.as_string(), .choices = {}};
  require_field(schema.is_object() || schema.is_bool(), path, path, " must be a JSON schema; got ", schema.type_name(),
                ".");
  return {.kind = GrammarSpec::Kind::JsonSchema, .text = schema.dump(), .choices = {}};
}

// The kinds of grammars of vLLM: under "structured_outputs", and as guided_… in the request itself.
void sampling_guided(Fields& fields, const std::string& prefix, std::vector<GrammarSpec>& found) {
  using Kind = GrammarSpec::Kind;
  if (const Json* schema = fields.find(prefix + "json")) {
    found.push_back(sampling_schema(*schema, fields.path(prefix + "json")));
  }
  if (const auto regex = fields.string(prefix + "regex")) {
    found.push_back({.kind = Kind::Regex, .text = *regex, .choices = {}});
  }
  if (const Json* choices = fields.array(prefix + "choice")) {
    require_field(choices->size() > 0, fields.path(prefix + "choice"), fields.path(prefix + "choice"),
                  " must have at least one string.");
    found.push_back({.kind = Kind::Choice, .text = {}, .choices = fields.strings(prefix + "choice")});
  }
  if (const auto grammar = fields.string(prefix + "grammar")) {
    found.push_back({.kind = Kind::Ebnf, .text = *grammar, .choices = {}});
  }
}

void sampling_structured(const Json& object, std::vector<GrammarSpec>& found) {
  Fields fields(object, "structured_outputs.");
  sampling_guided(fields, "", found);
  if (fields.boolean("json_object", false)) found.push_back({});
  if (const Json* tag = fields.find("structural_tag")) {
    found.push_back({.kind = GrammarSpec::Kind::StructuralTag,
                     .text = tag->is_string() ? tag->as_string() : tag->dump(),
                     .choices = {}});
  }
  fields.refuse_rest();
}

}  // namespace

SamplingParams read_sampling(Fields& fields, const ServiceContext& context) {
  SamplingParams sampling = context.options.default_sampling;
  const int64_t vocab_size = context.engine->info().vocab_size;
  sampling_set(sampling.temperature, fields.number("temperature", 0.0, kSamplingMost));
  sampling_set_above_zero(fields, "top_p", 1.0, sampling.top_p);
  if (const auto top_k = fields.integer("top_k", -1)) sampling.top_k = std::max<int64_t>(*top_k, 0);
  sampling_set(sampling.min_p, fields.number("min_p", 0.0, 1.0));
  sampling_set_above_zero(fields, "typical_p", 1.0, sampling.typical_p);
  sampling_set_above_zero(fields, "repetition_penalty", kSamplingMost, sampling.repetition_penalty);
  sampling_set(sampling.presence_penalty, fields.number("presence_penalty", -2.0, 2.0));
  sampling_set(sampling.frequency_penalty, fields.number("frequency_penalty", -2.0, 2.0));
  if (const Json* bias = fields.object("logit_bias")) sampling.logit_bias = sampling_bias(*bias, vocab_size);
  if (const auto seed = fields.integer("seed")) sampling.seed = static_cast<uint64_t>(*seed);
  sampling_set(sampling.min_tokens, fields.integer("min_tokens", 0));
  sampling_stops(fields, sampling, vocab_size);
  sampling_set(sampling.skip_special_tokens, fields.boolean("skip_special_tokens"));
  if (const auto count = fields.integer("prompt_logprobs", 0, context.options.max_logprobs)) {
    sampling.prompt_logprobs = count;
  }
  return sampling;
}

std::optional<GrammarSpec> read_format(const Json& format, const std::string& path, bool flat) {
  using Kind = GrammarSpec::Kind;
  Fields fields(format, path + ".");
  const std::string type = fields.string("type").value_or("");
  if (type == "text") return std::nullopt;
  if (type == "json_object") return GrammarSpec{};
  if (type == "structural_tag") return GrammarSpec{.kind = Kind::StructuralTag, .text = format.dump(), .choices = {}};
  require_field(type == "json_schema", path + ".type", path,
                ".type must be text, json_object, json_schema or structural_tag; got \"", type, "\".");
  const Json* holder = flat ? &format : fields.object("json_schema");
  const std::string inside = flat ? path : path + ".json_schema";
  require_field(holder != nullptr, inside, inside, " is required when the type is json_schema.");
  Fields schema(*holder, inside + ".");
  schema.accept({"name", "description", "strict", "type"});  // strict or not, the schema is followed
  const Json* found = schema.find("schema");
  schema.refuse_rest();
  require_field(found != nullptr, inside + ".schema", inside, ".schema is required.");
  return sampling_schema(*found, inside + ".schema");
}

std::optional<GrammarSpec> read_grammar(Fields& fields) {
  std::vector<GrammarSpec> found;
  if (const Json* format = fields.find("response_format")) {
    if (auto grammar = read_format(*format, "response_format")) found.push_back(std::move(*grammar));
  }
  if (const Json* structured = fields.object("structured_outputs")) sampling_structured(*structured, found);
  sampling_guided(fields, "guided_", found);
  require_field(found.size() <= 1, "response_format",
                "a request may have one of response_format, structured_outputs and guided_*; got ", found.size(), ".");
  return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

int64_t token_limit(const ServiceContext& context, int64_t prompt_tokens, std::optional<int64_t> asked,
                    const std::string& field) {
  const int64_t most = context.engine->info().max_model_len;
  const int64_t room = most - prompt_tokens;
  if (room < 1) {
    throw ApiError(400,
                   concat("This model's maximum context length is ", most, " tokens. However, your input has ",
                          prompt_tokens, " tokens. Please reduce its length."),
                   field == "max_tokens" ? "prompt" : "messages", "context_length_exceeded");
  }
  if (asked && *asked > room) {
    throw ApiError(400,
                   concat("This model's maximum context length is ", most, " tokens. However, you requested ",
                          static_cast<uint64_t>(prompt_tokens) + static_cast<uint64_t>(*asked), " tokens (",
                          prompt_tokens, " in the input, ", *asked, " in the completion). Please reduce ", field, "."),
                   field, "context_length_exceeded");
  }
  return asked ? *asked : std::min(room, context.options.default_sampling.max_tokens.value_or(room));
}

}  // namespace easydel::serve
