#include "easydel/elarge/eval/evaluate.h"

#include <cmath>
#include <cstdio>
#include <set>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/json/strict_json.h"
#include "easydel/core/log.h"
#include "easydel/elarge/eval/eval_answers.h"
#include "easydel/elarge/eval/eval_data.h"
#include "easydel/elarge/eval/eval_filters.h"
#include "easydel/elarge/eval/eval_generate.h"
#include "easydel/elarge/eval/eval_metrics.h"
#include "easydel/elarge/eval/eval_prompt.h"
#include "easydel/elarge/eval/run_code.h"
#include "easydel/generation/generate.h"
#include "easydel/serve/engine/generation_params.h"
#include "easydel/sharding/world/world.h"
#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/template_error.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/trainers/objectives/score.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

using Ids = std::vector<int64_t>;

// Texts to ids by the harness's rules.
class Encoder {
 public:
  explicit Encoder(const AutoTokenizer& tokenizer) : tokenizer_(tokenizer) {
    for (const std::string name : {"bos_token", "eos_token"}) {
      const auto token = tokenizer.config().special_token(name);
      if (!token || prefix_) continue;
      prefix_ = tokenizer->token_to_id(*token);
      if (prefix_) prefix_text_ = tokenizer->decode(std::vector<int32_t>{*prefix_}, false);
    }
  }

  // What stands before a text of which all is predicted.
  int64_t prefix() const {
    require<ConfigError>(prefix_.has_value(),
                         "[eval] the tokenizer has no bos_token and no eos_token to put before a text.");
    return *prefix_;
  }

  // A text that brings the prefix gets no second one.
  Ids encode(std::string_view text) const { return encode(text, !(prefix_ && text.starts_with(prefix_text_))); }

  // The white space at the end of the context belongs to what follows it, and the two are encoded as one text: a token
  // may reach over the border.
  Continuation encode_pair(std::string context, std::string continuation, const std::string& place) const {
    Continuation pair;
    if (context.empty()) {
      pair.ids = encode(continuation, false);
      pair.context = {prefix()};
      if (!pair.ids.empty() && pair.ids[0] == prefix()) pair.ids.erase(pair.ids.begin());
    } else {
      std::size_t end = context.size();
      while (end > 0) {
        std::size_t before = end;
        if (!jinja::is_space(jinja::last_character(std::string_view(context).substr(0, end), before))) break;
        end = before;
      }
      continuation.insert(0, context, end);
      context.resize(end);
      const Ids whole = encode(context + continuation);
      pair.context = encode(context);
      if (pair.context.size() < whole.size())
        pair.ids.assign(whole.begin() + static_cast<std::ptrdiff_t>(pair.context.size()), whole.end());
    }
    require<FormatError>(!pair.ids.empty(), "[eval] ", place, ": the continuation \"", continuation,
                         "\" has no token of its own.");
    require<FormatError>(!pair.context.empty(), "[eval] ", place, ": the context has no token.");
    return pair;
  }

 private:
  Ids encode(std::string_view text, bool special) const {
    const std::vector<int32_t> ids = tokenizer_->encode_ids(text, special);
    return {ids.begin(), ids.end()};
  }

  const AutoTokenizer& tokenizer_;
  std::optional<int32_t> prefix_;
  std::string prefix_text_;
};

int64_t rows_of(const std::optional<double>& limit, int64_t size) {
  if (!limit) return size;
  require<ConfigError>(*limit > 0 && std::isfinite(*limit), "[eval] limit must be above 0; got ", *limit, ".");
  const double wanted = *limit < 1.0 ? std::ceil(static_cast<double>(size) * *limit) : std::floor(*limit);
  return wanted < static_cast<double>(size) ? static_cast<int64_t>(wanted) : size;
}

int64_t shots_of(const EvalTask& task, const EvaluateOptions& options) {
  const bool fixed = task.num_fewshot == 0;  // as the harness has it
  return fixed ? 0 : options.num_fewshot.value_or(task.num_fewshot.value_or(0));
}

// Where the template refuses a system message, the conversation goes without it, as in the harness.
ChatFormat chat_format(const AutoTokenizer& tokenizer, const EvaluateOptions& options) {
  if (!options.apply_chat_template) return {};
  require<ConfigError>(tokenizer.has_chat_template(),
                       "[eval] apply_chat_template is set; the model has no chat template.");
  return [&tokenizer, &options](const Json& messages, bool continues) {
    ChatInput input{.messages = messages,
                    .add_generation_prompt = !continues,
                    .continue_final_message = continues ? "content" : "",
                    .variables = options.chat_template_args};
    try {
      return tokenizer.apply_chat_template(input).text;
    } catch (const jinja::TemplateError&) {
      std::erase_if(input.messages.as_array(),
                    [](const Json& message) { return message.at("role") == Json("system"); });
      return tokenizer.apply_chat_template(input).text;
    }
  };
}

PromptOptions prompt_options(const AutoTokenizer& tokenizer, const EvalTask& task, const EvaluateOptions& options) {
  return {.num_fewshot = shots_of(task, options),
          .fewshot_random_seed = options.fewshot_random_seed,
          .system_instruction = options.system_instruction,
          .chat = chat_format(tokenizer, options),
          .fewshot_as_multiturn = options.fewshot_as_multiturn};
}

struct TaskResults {
  Json metrics;           // {"acc,none": …}
  int64_t size = 0;       // of the split
  int64_t effective = 0;  // rows that were evaluated
};

// Rank 0 asks; the other ranks compute with it until its engine is gone.
TaskResults generate_task(const std::shared_ptr<BaseModule>& model, const AutoTokenizer& tokenizer,
                          const EvalTask& task, const EvaluateOptions& options) {
  const data::SourcePtr source = open_split(task, task.test_split ? *task.test_split : *task.validation_split);
  PromptBuilder builder(task, source, prompt_options(tokenizer, task, options));
  const int64_t max_length = max_length_of(*model);
  const EvalGeneration generation =
      read_generation(task, options.gen_kwargs, serve::to_sampling_params(generation_config(*model)));
  TaskResults results{
      .size = source->size(),
      .effective = rows_of(options.limit ? options.limit : task.limit, source->size()),
  };
  std::vector<EvalAnswers> rows;
  std::vector<std::string> prompts;
  for (int64_t i = 0; i < results.effective; ++i) {
    EvalQuestion question = builder.build(i);
    rows.push_back({{source->row(i), source.get(), i}, std::move(question.answer), {}});
    prompts.push_back(std::move(question.requests[0].context));
  }
  for (const EvalFilter& filter : task.filters) AnswerFilter(task, filter);  // refuses before the work
  const auto engine = serve::make_engine(
      model, tokenizer.shared(),
      {.max_num_seqs = options.batch_size > 0 ? options.batch_size : 256, .max_model_len = max_length});
  if (World::current()->rank() != 0) {
    while (!engine->drain(std::chrono::hours(1))) continue;
    return results;
  }
  std::vector<std::vector<std::string>> answers =
      generate_answers(*engine, tokenizer, task, generation, prompts, max_length, options.show_progress);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].answers = std::move(answers[i]);
  results.metrics = aggregate_answers(
      task, rows,
      {.bootstrap_iters = options.bootstrap_iters,
       .python = find_python(),
       .code_timeout = std::chrono::milliseconds(static_cast<int64_t>(options.code_eval_timeout * 1000))});
  return results;
}

TaskResults score(const BaseModule& model, const AutoTokenizer& tokenizer, const Encoder& encoder, const EvalTask& task,
                  const EvaluateOptions& options) {
  const data::SourcePtr source = open_split(task, task.test_split ? *task.test_split : *task.validation_split);
  PromptBuilder builder(task, source, prompt_options(tokenizer, task, options));
  std::vector<EvalScore> rows;
  const bool rolling = task.output == EvalOutput::LoglikelihoodRolling;
  const int64_t max_length = max_length_of(model);
  std::vector<Continuation> requests;
  std::vector<std::size_t> counts;  // requests of a row
  const int64_t count = rows_of(options.limit ? options.limit : task.limit, source->size());
  for (int64_t i = 0; i < count; ++i) {
    EvalQuestion question = builder.build(i);
    const std::size_t before = requests.size();
    EvalScore row{.choices = std::move(question.choices), .gold = std::move(question.gold)};
    if (rolling) {
      const std::string& text = question.requests[0].continuation;
      row.words = count_words(text);
      row.bytes = static_cast<int64_t>(text.size());
      for (Continuation& window : rolling_windows(encoder.encode(text), encoder.prefix(), max_length))
        requests.push_back(std::move(window));
    } else {
      for (EvalQuestion::Request& request : question.requests) {
        requests.push_back(
            encoder.encode_pair(std::move(request.context), std::move(request.continuation), question.place));
        const std::size_t tokens = requests.back().ids.size();
        require<FormatError>(static_cast<int64_t>(tokens) <= max_length, "[eval] ", question.place,
                             ": the continuation has ", tokens, " tokens; the model's maximum length is ", max_length,
                             ".");
      }
    }
    counts.push_back(requests.size() - before);
    rows.push_back(std::move(row));
  }
  bool greedy = false;
  for (const EvalMetric& metric : task.metrics)
    greedy = greedy || (metric.name == "acc" && task.output == EvalOutput::Loglikelihood);
  const std::vector<ContinuationScore> scores = score_continuations(model, requests,
                                                                    {.max_length = max_length,
                                                                     .batch_size = options.batch_size,
                                                                     .find_greedy = greedy,
                                                                     .show_progress = options.show_progress});
  std::size_t next = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    EvalScore& row = rows[i];
    if (rolling) row.log_likelihoods = {0.0};
    for (const std::size_t end = next + counts[i]; next < end; ++next) {
      if (rolling) {
        row.log_likelihoods[0] += scores[next].log_likelihood;
      } else {
        row.log_likelihoods.push_back(scores[next].log_likelihood);
        row.is_greedy = scores[next].is_greedy;
      }
    }
  }
  return {World::current()->rank() == 0 ? aggregate(task, rows, options.bootstrap_iters) : Json(), source->size(),
          count};
}

}  // namespace

void check_eval_options(const std::vector<EvalTask>& tasks, const EvaluateOptions& options) {
  require<ConfigError>(options.gen_kwargs.is_object(), "[eval] gen_kwargs must be a mapping; got ",
                       options.gen_kwargs.dump(), ".");
  require<ConfigError>(!options.fewshot_as_multiturn || options.apply_chat_template,
                       "[eval] fewshot_as_multiturn needs apply_chat_template.");
  require<ConfigError>(options.code_eval_timeout > 0 && options.code_eval_timeout < 1e6,
                       "[eval] code_eval_timeout must be seconds above 0; got ", options.code_eval_timeout, ".");
  for (const EvalTask& task : tasks) {
    if (!runs_code(task)) continue;
    require<ConfigError>(options.confirm_run_unsafe_code, "[eval] ", task.file.string(), ": ", task.name,
                         " runs model-generated Python code with the user's permissions and without a sandbox. Confirm "
                         "it with --confirm-run-unsafe-code or eval.confirm_run_unsafe_code.");
    require<ConfigError>(find_python().has_value(), "[eval] ", task.file.string(), ": ", task.name,
                         " needs a python3 in PATH, and there is none.");
  }
}

std::vector<EvalTask> read_eval_tasks(const std::vector<std::string>& names, const std::vector<fs::path>& directories) {
  require<ConfigError>(!names.empty(), "[eval] tasks must name at least one task.");
  std::vector<EvalTask> tasks;
  for (const std::string& name : names) {
    EvalTask task = read_eval_task(find_eval_task(name, directories));
    for (const EvalTask& other : tasks)
      require<ConfigError>(other.name != task.name, "[eval] ", other.file.string(), " and ", task.file.string(),
                           " have the same name: task: ", task.name, ".");
    tasks.push_back(std::move(task));
  }
  return tasks;
}

Json evaluate(const std::shared_ptr<BaseModule>& model, const AutoTokenizer& tokenizer,
              const std::vector<EvalTask>& tasks, const EvaluateOptions& options) {
  check_eval_options(tasks, options);
  const bool first = World::current()->rank() == 0;
  const Encoder encoder(tokenizer);
  Json results = Json::object(), configs = Json::object(), versions = Json::object(), shots = Json::object(),
       higher = Json::object(), samples = Json::object();
  for (const EvalTask& task : tasks) {
    for (const std::string& key : task.ignored) {
      if (first) log::warning(task.where(key), " has no effect here.");
    }
    const TaskResults found = task.output == EvalOutput::GenerateUntil
                                  ? generate_task(model, tokenizer, task, options)
                                  : score(*model, tokenizer, encoder, task, options);
    if (!first) continue;
    Json& result = results[task.name] =
        Json::object({{"name", task.name}, {"alias", task.alias}, {"sample_len", found.effective}});
    for (const auto& [key, value] : found.metrics.as_object()) result[key] = value;
    configs[task.name] = task.config;
    configs[task.name]["num_fewshot"] = shots_of(task, options);
    versions[task.name] = task.version;
    shots[task.name] = shots_of(task, options);
    for (const EvalMetric& metric : task.metrics) higher[task.name][metric.name] = metric.higher_is_better;
    samples[task.name] = Json::object({{"original", found.size}, {"effective", found.effective}});
  }
  if (!first) return {};
  Json config = Json::object({{"model", options.model_name},
                              {"batch_size", options.batch_size > 0 ? Json(options.batch_size) : Json("auto")},
                              {"limit", options.limit ? Json(*options.limit) : Json()},
                              {"bootstrap_iters", options.bootstrap_iters},
                              {"gen_kwargs", options.gen_kwargs.size() > 0 ? options.gen_kwargs : Json()},
                              {"fewshot_seed", static_cast<int64_t>(options.fewshot_random_seed)}});
  return Json::object({{"results", results},
                       {"group_subtasks", Json::object()},
                       {"configs", configs},
                       {"versions", versions},
                       {"n-shot", shots},
                       {"higher_is_better", higher},
                       {"n-samples", samples},
                       {"config", config},
                       {"max_length", max_length_of(*model)}});
}

void write_eval_results(const Json& results, const fs::path& path) {
  if (path.has_parent_path()) make_directory(path.parent_path());
  write_file_atomically(path, dump_strict(results, 2) + "\n");
}

std::vector<std::vector<std::string>> eval_table(const Json& results) {
  const auto number = [](const Json& value) {
    if (!value.is_number()) return value.is_string() ? value.as_string() : value.dump();
    char text[64];
    std::snprintf(text, sizeof text, "%.4f", value.as_double());
    return std::string(text);
  };
  bool has_filters = false;
  for (const auto& [name, result] : results.at("results").as_object()) {
    for (const auto& [key, value] : result.as_object())
      has_filters = has_filters || (key.find(',') != std::string::npos && !key.ends_with(",none"));
  }
  std::vector<std::vector<std::string>> rows = {{"Tasks", "Version", "n-shot", "Metric", "", "Value", "Stderr"}};
  if (has_filters) rows[0].insert(rows[0].begin() + 2, "Filter");
  for (const auto& [name, result] : results.at("results").as_object()) {
    bool is_first = true;
    for (const auto& [key, value] : result.as_object()) {
      const std::size_t comma = key.find(',');
      if (comma == std::string::npos || key.substr(0, comma).ends_with("_stderr")) continue;
      const std::string metric = key.substr(0, comma), filter = key.substr(comma + 1);
      const Json* up = results.at("higher_is_better").at(name).find(metric);
      const Json& version = results.at("versions").at(name);
      rows.push_back({is_first ? result.at("alias").as_string() : "",
                      !is_first             ? ""
                      : version.is_string() ? version.as_string()
                                            : version.dump(),
                      is_first ? results.at("n-shot").at(name).dump() : "", metric, !up || up->as_bool() ? "↑" : "↓",
                      number(value), number(result.at(metric + "_stderr," + filter))});
      if (has_filters) rows.back().insert(rows.back().begin() + 2, filter);
      is_first = false;
    }
  }
  return rows;
}

}  // namespace easydel
