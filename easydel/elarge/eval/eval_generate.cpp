#include "easydel/elarge/eval/eval_generate.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>

#include "easydel/core/error.h"
#include "easydel/core/progress/progress.h"
#include "easydel/elarge/config/section_keys.h"
#include "easydel/tokenizers/auto_tokenizer.h"

namespace easydel {
namespace {

constexpr std::string_view kLengthKeys[] = {"max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"};
constexpr std::string_view kGenerationKwargs[] = {"until",
                                                  "do_sample",
                                                  "temperature",
                                                  "top_p",
                                                  "top_k",
                                                  "min_p",
                                                  "typical_p",
                                                  "max_gen_toks",
                                                  "max_new_tokens",
                                                  "max_tokens",
                                                  "max_completion_tokens",
                                                  "repetition_penalty",
                                                  "min_new_tokens",
                                                  "seed"};

class KwargsReader {
 public:
  KwargsReader(const EvalTask& task, const Json& kwargs) : where_(task.where("generation_kwargs")), kwargs_(kwargs) {
    for (const auto& [key, value] : kwargs.as_object()) {
      const std::string near = nearest_name(key, kGenerationKwargs);
      require<NotSupportedError>(among(key, kGenerationKwargs), where_, ".", key, " is not supported.",
                                 near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
    }
  }

  const Json* find(std::string_view key) const {
    const Json* value = kwargs_.find(key);
    return value && !value->is_null() ? value : nullptr;
  }
  void check(std::string_view key, const Json& value, bool is_right, std::string_view rule) const {
    require<ConfigError>(is_right, where_, ".", key, " must be ", rule, "; got ", value.dump(), ".");
  }
  void number(std::string_view key, double& target) const {
    if (const Json* value = find(key)) {
      check(key, *value, value->is_number(), "a number");
      target = value->as_double();
    }
  }
  void integer(std::string_view key, int64_t& target) const {
    if (const Json* value = find(key)) {
      check(key, *value, value->is_int() && value->as_int() >= 0, "an integer that is not negative");
      target = value->as_int();
    }
  }

 private:
  std::string where_;
  const Json& kwargs_;
};

std::vector<std::string> read_until(const KwargsReader& reader) {
  std::vector<std::string> until;
  const Json* given = reader.find("until");
  if (!given) return until;
  const Json list = given->is_array() ? *given : Json::array({*given});
  for (const Json& one : list.as_array()) {
    reader.check("until", *given, one.is_string(), "a string or a list of strings");
    if (!one.as_string().empty()) until.push_back(one.as_string());
  }
  return until;
}

// What special tokens there are among the texts that end an answer: they never show in the answer's text.
std::vector<int32_t> stop_ids(const AutoTokenizer& tokenizer, const std::vector<std::string>& until) {
  std::vector<int32_t> ids;
  std::vector<std::string> texts = until;
  if (const auto end = tokenizer.config().special_token("eos_token")) texts.push_back(*end);
  for (const std::string& text : texts) {
    const auto id = tokenizer->token_to_id(text);
    if (id && tokenizer->decode(std::vector<int32_t>{*id}, true).empty()) ids.push_back(*id);
  }
  return ids;
}

std::vector<int32_t> encode_prompt(const AutoTokenizer& tokenizer, const std::string& prompt, int64_t room) {
  const auto bos = tokenizer.config().special_token("bos_token");
  std::vector<int32_t> ids = tokenizer->encode_ids(prompt, !(bos && prompt.starts_with(*bos)));
  const auto excess = static_cast<std::ptrdiff_t>(ids.size()) - static_cast<std::ptrdiff_t>(room);
  if (excess > 0) ids.erase(ids.begin(), ids.begin() + excess);
  return ids;
}

// Counts answers as they end.
class AnswerBoard {
 public:
  AnswerBoard(std::size_t count, bool shows)
      : texts(count), missing_(count), progress_("eval", {.total = static_cast<int64_t>(count), .enabled = shows}) {}

  void take(std::size_t index, const serve::RequestOutput& output) {
    const std::lock_guard lock(mutex_);
    texts[index] += output.text;
    if (!output.finish) return;
    if (output.finish == serve::Finish::Error && error.empty()) error = output.error;
    progress_.advance();
    if (--missing_ == 0) ended_.notify_all();
  }
  void drop(std::size_t count) {
    const std::lock_guard lock(mutex_);
    missing_ -= count;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return missing_ == 0; });
  }

  std::vector<std::string> texts;
  std::string error;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t missing_;
  Progress progress_;
};

}  // namespace

EvalGeneration read_generation(const EvalTask& task, const Json& changes, const serve::SamplingParams& base) {
  Json kwargs = task.generation_kwargs;
  for (const auto& [key, value] : changes.as_object()) {
    // A length that is given wins over the task's, whatever it is called there.
    if (among(key, kLengthKeys))
      for (const std::string_view other : kLengthKeys) kwargs.as_object().erase(other);
    kwargs[key] = value;
  }
  const KwargsReader reader(task, kwargs);
  EvalGeneration generation{.sampling = base, .until = read_until(reader)};
  serve::SamplingParams& sampling = generation.sampling;
  for (auto key = std::rbegin(kLengthKeys); key != std::rend(kLengthKeys); ++key)
    reader.integer(*key, generation.max_tokens);  // the first of them wins
  require<ConfigError>(generation.max_tokens > 0, task.where("generation_kwargs"),
                       ".max_gen_toks must be above 0; got ", generation.max_tokens, ".");
  double temperature = 0;
  reader.number("temperature", temperature);
  bool samples = temperature > 0;
  if (const Json* given = reader.find("do_sample")) {
    reader.check("do_sample", *given, given->is_bool(), "true or false");
    require<ConfigError>(!given->as_bool() || temperature > 0 || !reader.find("temperature"),
                         task.where("generation_kwargs"), ".do_sample: true needs a temperature above 0; got ",
                         temperature, ".");
    samples = given->as_bool();
    if (samples && !reader.find("temperature")) temperature = base.temperature > 0 ? base.temperature : 1.0;
  }
  sampling.temperature = samples ? temperature : 0.0;
  reader.number("top_p", sampling.top_p);
  reader.integer("top_k", sampling.top_k);
  reader.number("min_p", sampling.min_p);
  reader.number("typical_p", sampling.typical_p);
  reader.number("repetition_penalty", sampling.repetition_penalty);
  reader.integer("min_new_tokens", sampling.min_tokens);
  if (int64_t seed = -1; reader.find("seed")) {
    reader.integer("seed", seed);
    sampling.seed = static_cast<uint64_t>(seed);
  }
  sampling.max_tokens = generation.max_tokens;
  sampling.stop = generation.until;
  sampling.include_stop_str_in_output = false;
  return generation;
}

std::vector<std::vector<std::string>> generate_answers(serve::Engine& engine, const AutoTokenizer& tokenizer,
                                                       const EvalTask& task, const EvalGeneration& generation,
                                                       const std::vector<std::string>& prompts, int64_t max_length,
                                                       bool show_progress) {
  const int64_t room = max_length - generation.max_tokens;
  require<ConfigError>(room > 0, task.where("generation_kwargs"), ".max_gen_toks must be below ", max_length,
                       ", the model's maximum length; got ", generation.max_tokens, ".");
  serve::SamplingParams sampling = generation.sampling;
  for (const int32_t id : stop_ids(tokenizer, generation.until)) sampling.stop_token_ids.push_back(id);
  const auto repeats = static_cast<std::size_t>(task.repeats);
  AnswerBoard board(prompts.size() * repeats, show_progress);
  std::vector<serve::RequestId> ids;
  try {
    for (const std::string& prompt : prompts) {
      const std::vector<int32_t> tokens = encode_prompt(tokenizer, prompt, room);
      for (std::size_t i = 0; i < repeats; ++i) {
        serve::Request request{.prompt = tokens, .sampling = sampling};
        if (sampling.seed) request.sampling.seed = *sampling.seed + ids.size();  // repeats differ
        const std::size_t index = ids.size();
        ids.push_back(engine.submit(
            std::move(request), [&board, index](const serve::RequestOutput& output) { board.take(index, output); }));
      }
    }
  } catch (...) {  // the callbacks of those before refer to what is local here
    board.drop(prompts.size() * repeats - ids.size());
    for (const serve::RequestId id : ids) engine.cancel(id);
    board.wait();
    throw;
  }
  board.wait();
  require<Error>(board.error.empty(), "[eval] ", task.name, ": an answer failed: ", board.error);
  std::vector<std::vector<std::string>> answers(prompts.size());
  for (std::size_t i = 0; i < board.texts.size(); ++i) {
    std::string& text = board.texts[i];
    for (const std::string& end : generation.until) text.resize(std::min(text.size(), text.find(end)));
    answers[i / repeats].push_back(std::move(text));
  }
  return answers;
}

Json parse_gen_kwargs(const std::string& text) {
  if (text.starts_with("{")) return Json::parse(text, {.where = "--gen-kwargs"});
  Json kwargs = Json::object();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size()), equals = text.find('=', at);
    require<UsageError>(equals < comma && equals > at, "--gen-kwargs must be key=value, several of them separated by ",
                        "commas, or a JSON object; got \"", text, "\".");
    const std::string key = text.substr(at, equals - at), value = text.substr(equals + 1, comma - equals - 1);
    try {
      kwargs[key] = value == "True" || value == "False" ? Json(value == "True") : Json::parse(value);
    } catch (const FormatError&) {
      kwargs[key] = value;
    }
    at = comma + 1;
  }
  return kwargs;
}

}  // namespace easydel
