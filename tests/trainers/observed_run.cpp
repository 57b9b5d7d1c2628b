#include "tests/trainers/observed_run.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <mutex>
#include <regex>
#include <thread>

#include "easydel/core/files/file.h"
#include "easydel/core/log.h"
#include "easydel/data/dataset.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/io/hub/base64.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/trainers/objectives/policy_objective.h"
#include "easydel/trainers/trainer.h"
#include "tests/support/temporary_directory.h"

namespace easydel::testing_support {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kWords = 24;  // "w0" …, after the special tokens

// Words apart by spaces; texts begin with <s>, and a conversation says which words are the assistant's.
std::shared_ptr<const AutoTokenizer> make_tokenizer() {
  const TemporaryDirectory directory;
  Json vocabulary = Json::object({{"<pad>", 0}, {"<s>", 1}, {"</s>", 2}, {"<unk>", 3}, {"user", 4}, {"assistant", 5}});
  for (int64_t i = 0; i < kWords; ++i) vocabulary[concat("w", i)] = 6 + i;
  Json added = Json::array();
  for (const char* token : {"<pad>", "<s>", "</s>", "<unk>"}) {
    added.push_back(Json::object({{"id", vocabulary.at(token)},
                                  {"content", token},
                                  {"single_word", false},
                                  {"lstrip", false},
                                  {"rstrip", false},
                                  {"normalized", false},
                                  {"special", true}}));
  }
  const Json begins = Json::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}})");
  const Json model = Json::object({{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}});
  const Json file = Json::object({{"version", "1.0"},
                                  {"truncation", Json()},
                                  {"padding", Json()},
                                  {"added_tokens", added},
                                  {"normalizer", Json()},
                                  {"pre_tokenizer", Json::object({{"type", "WhitespaceSplit"}})},
                                  {"post_processor", begins},
                                  {"decoder", Json()},
                                  {"model", model}});
  const Json config = Json::object(
      {{"pad_token", "<pad>"},
       {"bos_token", "<s>"},
       {"eos_token", "</s>"},
       {"chat_template",
        "{% for m in messages %}{{ m.role }} {% if m.role == 'assistant' %}{% generation %}{{ m.content }} </s> "
        "{% endgeneration %}{% else %}{{ m.content }} {% endif %}{% endfor %}{% if add_generation_prompt %}assistant "
        "{% endif %}"}});
  write_file_atomically(directory / "tokenizer.json", file.dump());
  write_file_atomically(directory / "tokenizer_config.json", config.dump());
  return std::make_shared<const AutoTokenizer>(AutoTokenizer::from_directory(directory.path()));
}

std::string words(int64_t first, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += concat(text.empty() ? "" : " ", "w", (first + 5 * i) % kWords);
  return text;
}

// In base64: a BMP of 2 x 2 pixels, which differ with the number.
std::string image(char number) {
  std::string bytes("BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\2\0\0\0\2\0\0\0\1\0\x18", 30);
  bytes.resize(54);
  for (char i = 0; i < 16; ++i) bytes += static_cast<char>(i % 8 < 6 ? number + 9 * i : 0);
  return base64_encode(bytes);
}

// Rows with every column that some trainer reads, of several lengths.
std::vector<Json> make_rows(const std::string& trainer_type, int64_t count) {
  std::vector<Json> rows;
  for (int64_t i = 0; i < count; ++i) {
    Json row = Json::object({{"other", words(i + 3, 4)}});
    if (learns_from_rewards(trainer_type) || distils_what_is_written(trainer_type)) {
      row["prompt"] = words(i, 3 + i % 4);
      row["answer"] = words(2 * i, 1);
    } else if (trainer_type == "prm") {
      row["prompt"] = words(i, 3 + i % 4);
      row["completions"] = Json::array({words(2 * i, 1 + i % 3), words(3 * i + 1, 2)});
      row["labels"] = Json::array({i % 3 != 0, i % 2 == 0});
    } else if (trainer_type == "gkd") {
      row["prompt"] = words(i, 3 + i % 4);
      row["completion"] = " " + words(2 * i, 2 + i % 5);
    } else if (trainer_type == "kto" || trainer_type == "bco") {
      row["prompt"] = words(i, 3 + i % 4);
      row["completion"] = " " + words(2 * i, 2 + i % 5);
      row["label"] = i % 3 != 0;
    } else if (trainer_type == "dpo" || trainer_type == "cpo" || trainer_type == "orpo" || trainer_type == "reward") {
      row["prompt"] = words(i, 3 + i % 4);
      row["chosen"] = " " + words(2 * i, 2 + i % 5);
      row["rejected"] = " " + words(3 * i + 1, 1 + i % 3);
      row["ref_chosen_logps"] = -4.0 - static_cast<double>(i);
      row["ref_rejected_logps"] = -5.0;
      row["margin"] = 0.5;
    } else if (trainer_type == "embedding") {
      row["query"] = words(i, 3 + i % 5);
      row["positive"] = words(2 * i, 4 + i % 4);
      row["negative"] = words(3 * i + 1, 2 + i % 6);
    } else if (trainer_type == "contrastive") {
      row["text"] = words(i, 3 + i % 5);
      row["image"] = image(static_cast<char>(20 * i));
      row["kind"] = image(static_cast<char>(7 * i + 3));
    } else if (trainer_type == "classification") {
      row["text"] = words(i, 3 + i % 5);
      row["label"] = i % 2;
      row["kind"] = (i + i / 2) % 2;
    } else if (i % 3 == 0) {
      row["text"] = words(i, 3 + i % 7);
    } else if (i % 3 == 1) {
      row["prompt"] = words(i, 3);
      row["completion"] = " " + words(2 * i, 3);
      row["text"] = words(i + 1, 2);
    } else {
      row["messages"] = Json::array({Json::object({{"role", "user"}, {"content", words(i, 2)}}),
                                     Json::object({{"role", "assistant"}, {"content", words(2 * i, 3)}})});
      row["text"] = words(i + 2, 3);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::shared_ptr<BaseModule> make_model(TaskType task, const Json& settings, uint64_t seed) {
  Json dict = Json::object({{"model_type", "mixtral"},
                            {"vocab_size", 6 + kWords},
                            {"hidden_size", 8},
                            {"intermediate_size", 8},
                            {"num_hidden_layers", 2},
                            {"num_attention_heads", 2},
                            {"num_key_value_heads", 1},
                            {"num_local_experts", 2},
                            {"num_experts_per_tok", 1},
                            {"max_position_embeddings", 64},
                            {"attention_dropout", 0.2},
                            {"initializer_range", 0.4},
                            {"pad_token_id", 0},
                            {"num_labels", task == TaskType::TokenClassification ? 2 : 1}});
  if (const Json* changes = settings.find("@model")) {
    for (const auto& [key, value] : changes->as_object()) dict[key] = value;
  }
  const Json* dtype = settings.find("@dtype");
  const DType chosen = parse_dtype(dtype ? dtype->as_string() : "float32");
  const auto model = Registry::instance().make_module(*AutoConfig::from_dict(dict), task);
  model->initialize({.dtype = chosen, .param_dtype = float32, .rngs = RandomKey(seed)});
  return model;
}

// Texts and images of two towers, and the directory of what reads the images.
std::shared_ptr<BaseModule> make_pair_model(const Json& settings, uint64_t seed) {
  const Json tower = Json::object({{"hidden_size", 8},
                                   {"intermediate_size", 8},
                                   {"num_hidden_layers", 1},
                                   {"num_attention_heads", 2},
                                   {"projection_dim", 8},
                                   {"attention_dropout", 0.2}});
  Json text = tower, vision = tower;
  text["vocab_size"] = 6 + kWords;
  text["max_position_embeddings"] = 16;
  text["eos_token_id"] = 2;
  vision["image_size"] = 4;
  vision["patch_size"] = 2;
  Json dict =
      Json::object({{"model_type", "clip"}, {"text_config", text}, {"vision_config", vision}, {"projection_dim", 8}});
  if (const Json* changes = settings.find("@model")) {
    for (const auto& [key, value] : changes->as_object()) dict[key] = value;
  }
  const Json* dtype = settings.find("@dtype");
  const auto model =
      Registry::instance().make_module(*AutoConfig::from_dict(dict), TaskType::ZeroShotImageClassification);
  model->initialize(
      {.dtype = parse_dtype(dtype ? dtype->as_string() : "float32"), .param_dtype = float32, .rngs = RandomKey(seed)});
  return model;
}

const fs::path& processor_directory() {
  static const TemporaryDirectory directory;
  static const fs::path path = directory.path();
  write_file_atomically(path / "preprocessor_config.json",
                        R"({"image_processor_type": "CLIPImageProcessor", "size": {"height": 4, "width": 4},
                            "do_center_crop": false, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]})");
  return path;
}

// Passes everything on, and remembers the batches.
class Recorder final : public Objective {
 public:
  explicit Recorder(std::shared_ptr<Objective> inner) : inner_(std::move(inner)) {}
  TaskType task() const override { return inner_->task(); }
  int64_t rows_per_example(const TrainingArguments& arguments) const override {
    return inner_->rows_per_example(arguments);
  }
  void link_rows(std::vector<BatchRow>& rows, const TrainingArguments& arguments) const override {
    inner_->link_rows(rows, arguments);
  }
  int64_t steps_of_generation(const TrainingArguments& arguments) const override {
    return inner_->steps_of_generation(arguments);
  }
  GeneratedRows generate(const std::shared_ptr<BaseModule>& model,
                         const std::vector<std::vector<data::Example>>& batches,
                         const GenerationContext& context) override {
    return inner_->generate(model, batches, context);
  }
  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    return inner_->transform(tokenizer, arguments);
  }
  bool packs(const TrainingArguments& arguments) const override { return inner_->packs(arguments); }
  bool joins_rows(const TrainingArguments& arguments) const override { return inner_->joins_rows(arguments); }
  std::optional<int64_t> padding_value(const TrainingArguments& arguments) const override {
    return inner_->padding_value(arguments);
  }
  std::vector<BatchRow> rows(const data::Example& example) const override { return inner_->rows(example); }
  double count_items(const std::vector<BatchRow>& rows) const override { return inner_->count_items(rows); }
  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    batches.push_back(Json::array({batch.input_ids.size(0), batch.input_ids.size(1),
                                   (batch.input_ids + 1)
                                       .mul(at::arange(batch.input_ids.numel()).view_as(batch.input_ids))
                                       .sum()
                                       .item<int64_t>()}));
    return inner_->loss(model, batch, context);
  }
  void prepare(const BaseModule& model, const TrainingArguments& arguments, const ObjectiveData& data) override {
    inner_->prepare(model, arguments, data);
  }
  Json state() const override { return inner_->state(); }
  void restore(const Json& saved) override { inner_->restore(saved); }
  std::shared_ptr<BaseModule> trained_along() const override { return inner_->trained_along(); }
  void after_step(const BaseModule& model, int64_t step) override { inner_->after_step(model, step); }
  std::shared_ptr<const BaseModule> moving_reference() const override { return inner_->moving_reference(); }

  mutable Json batches = Json::array();  // rows, columns, checksum

 private:
  std::shared_ptr<Objective> inner_;
};

// Matrix products and copies of tensors on this thread, since it was made.
class WorkCounter {
 public:
  WorkCounter() {
    counts() = {};
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&seen).scopes({at::RecordScope::FUNCTION}));
  }
  ~WorkCounter() { at::removeCallback(handle_); }
  Json seen() const { return Json::object({{"products", counts().products}, {"copies", counts().copies}}); }

 private:
  struct Counts {
    int64_t products = 0, copies = 0;
  };
  static Counts& counts() {
    thread_local Counts numbers;
    return numbers;
  }
  static std::unique_ptr<at::ObserverContext> seen(const at::RecordFunction& function) {
    const std::string_view name = function.name();
    if (name == "aten::mm" || name == "aten::addmm") ++counts().products;
    if (name == "aten::copy_" || name == "aten::clone") ++counts().copies;
    return nullptr;
  }
  at::CallbackHandle handle_;
};

// The least of a few: a thread that was joined may still be listed for a moment.
int64_t count_threads() {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 3; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const fs::directory_iterator tasks("/proc/self/task");
    least = std::min<int64_t>(least, std::distance(begin(tasks), end(tasks)));
  }
  return least;
}

// What depends on the clock or on the machine does not count.
const std::vector<std::string> kVarying = {"second", "memory", "mfu", "flops"};

Json visible(const Metrics& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics) {
    bool varies = false;
    for (const std::string& part : kVarying) varies |= name.find(part) != std::string::npos;
    json[name] = varies ? Json("a number") : std::isfinite(value) ? Json(value) : Json("not finite");
  }
  return json;
}

// Names and, of tensors and event files, sizes.
Json list_files(const fs::path& directory) {
  std::map<std::string, int64_t> files;
  std::string title;
  int64_t lines = 0;
  if (!fs::is_directory(directory)) return Json::object();
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    std::string name = fs::relative(entry.path(), directory).string();
    if (name.starts_with("wandb/")) name = concat("wandb", entry.path().extension().string());  // dates and sums
    if (name.starts_with("trackio/")) name = "trackio";
    const bool is_event = name.find("events.out") != std::string::npos;
    if (is_event) name = "tensorboard";
    files[name] = is_event || name.ends_with(".safetensors") ? static_cast<int64_t>(entry.file_size()) : 0;
    if (name == "metrics.jsonl") {
      const std::string text = read_file(entry.path());
      lines += std::count(text.begin(), text.end(), '\n');
    } else if (name == "report.html") {
      const std::string text = read_file(entry.path());
      const std::size_t begin = text.find("<title>"), end = text.find("</title>");
      if (begin < end && end != std::string::npos) title = text.substr(begin, end - begin);
    }
  }
  Json json = Json::object({{"title", title}, {"lines", lines}});
  for (const auto& [name, size] : files) json[name] = size;
  return json;
}

double checksum_of(const BaseModule& model) {
  double sum = 0;
  for (const auto& [path, parameter] : model.named_parameters())
    sum += parameter->value().detach().to(at::kDouble).square().sum().item<double>();
  return sum;
}

class LogLines {
 public:
  explicit LogLines(const std::string& directory) {
    log::set_sink([this, directory](log::Level, const std::string& line) {
      const std::lock_guard lock(mutex_);
      std::string text = line.starts_with("[dashboard]") ? "[dashboard]" : line;  // its port is any
      for (std::size_t at; (at = text.find(directory)) != std::string::npos;) text.replace(at, directory.size(), "DIR");
      for (const std::string& part : kVarying) {
        if (text.find(part) == std::string::npos) continue;
        text = std::regex_replace(text, std::regex(concat("(\\S*", part, "\\S*) [-+.e0-9]+")), "$1 a number");
      }
      lines_.push_back(Json(text));
    });
  }
  ~LogLines() { log::set_sink({}); }
  Json lines() const { return lines_; }

 private:
  std::mutex mutex_;
  Json lines_ = Json::array();
};

Json run_once(const std::string& trainer_type, const Json& settings, const fs::path& directory) {
  static const std::shared_ptr<const AutoTokenizer> tokenizer = make_tokenizer();
  Json given = Json::object({{"max_training_steps", 3},
                             {"total_batch_size", 4},
                             {"learning_rate", 0.01},
                             {"save_directory", directory.string()},
                             {"shuffle_train_dataset", false},
                             {"max_length", 16},
                             {"async_save", false},
                             {"progress_bar_type", "none"}});
  for (const auto& [key, value] : settings.as_object()) {
    if (!key.starts_with("@")) given[key] = value;
  }
  if (given.at("save_directory") == Json("elsewhere")) given["save_directory"] = (directory / "elsewhere").string();
  const bool generates = learns_from_rewards(trainer_type), writes = distils_what_is_written(trainer_type);
  const bool has_prompts = trainer_type == "dpo" || trainer_type == "kto" || trainer_type == "bco" ||
                           trainer_type == "cpo" || trainer_type == "orpo";
  if (has_prompts && !given.contains("max_prompt_length")) given["max_prompt_length"] = 3;
  if (trainer_type == "prm" && !given.contains("step_separator")) given["step_separator"] = "w7";
  if (trainer_type == "gkd" && !given.contains("max_new_tokens")) given["max_new_tokens"] = 3;
  if (trainer_type == "rlvr" && !given.contains("mask_truncated_completions"))
    given["mask_truncated_completions"] = false;  // few of five tokens end
  if (writes) {
    for (const char* key : {"max_prompt_length", "max_completion_length"}) {
      if (!given.contains(key)) given[key] = 5;
    }
  }
  if (generates) {
    const Json length = Json::object({{"type", "length"}, {"target", 3}});
    for (const auto& [key, value] :
         std::map<std::string, Json>{{"max_prompt_length", 5}, {"max_completion_length", 5}, {"rewards", length}}) {
      if (!given.contains(key)) given[key] = value;
    }
  }

  Json seen = Json::object();
  TrainerOptions options{.trainer_type = trainer_type, .arguments = TrainingArguments::from_json(trainer_type, given)};
  const TrainingArguments& arguments = options.arguments;
  const bool needs_other = has_teacher(trainer_type) || trainer_type == "kto" || trainer_type == "bco" || generates ||
                           settings.contains("@reference");
  const auto other = needs_other ? make_model(TaskType::CausalLM, Json::object(), 7) : nullptr;
  const auto pairs = trainer_type == "contrastive" ? make_pair_model(settings, 1) : nullptr;
  const auto recorder = std::make_shared<Recorder>(
      trainer_type == "ppo"
          ? make_policy_objective(
                "ppo", {.reference = other, .value_model = make_model(TaskType::SequenceClassification, settings, 5)})
      : pairs ? make_objective(trainer_type, nullptr, {.model = pairs.get(), .files = processor_directory()})
              : make_objective(trainer_type, other));
  options.objective = recorder;
  options.model = pairs ? pairs : make_model(recorder->task(), settings, 1);
  options.tokenizer = tokenizer;
  data::MixtureOptions mixture{.seed = static_cast<uint64_t>(arguments.shuffle_seed_train)};
  if (arguments.shuffle_train_dataset) mixture.shuffle_buffer_size = 100;
  const auto dataset = [&](int64_t rows, const data::MixtureOptions& how) {
    return std::make_shared<const data::Dataset>(
        std::vector<data::SourcePtr>{data::make_source(make_rows(trainer_type, rows), "rows")}, how);
  };
  options.train_dataset = dataset(10, mixture);
  options.eval_dataset = dataset(9, {});
  for (const char* list : {"steps", "evaluations", "saves", "logs"}) seen[list] = Json::array();
  const Json* slow = settings.find("@slow");
  int64_t threads = 0;
  options.hooks.before_step = [&](int64_t) {
    if (threads == 0 && !arguments.text.packing) threads = count_threads();
    if (slow) std::this_thread::sleep_for(std::chrono::duration<double>(slow->as_double()));
  };
  options.hooks.after_step = [&](int64_t step, const Metrics& metrics) {
    seen["steps"].push_back(Json::array({step, visible(metrics)}));
  };
  options.hooks.on_evaluate = [&](int64_t step, const Metrics& metrics) {
    seen["evaluations"].push_back(Json::array({step, visible(metrics)}));
  };
  options.hooks.on_save = [&](int64_t step, const fs::path&) { seen["saves"].push_back(Json(step)); };
  options.hooks.on_log = [&](int64_t step, const Metrics&) { seen["logs"].push_back(Json(step)); };

  ::setenv("TRACKIO_DIR", (directory / "trackio").c_str(), 1);
  const LogLines lines(directory.string());
  const WorkCounter work;
  testing::internal::CaptureStderr();
  TrainResult result;
  try {
    Trainer trainer(options);
    result = trainer.train();
  } catch (...) {
    testing::internal::GetCapturedStderr();
    throw;
  }
  const std::string shown = testing::internal::GetCapturedStderr();
  seen["shown"] = Json::array({!shown.empty(), shown.find('{') != std::string::npos});
  seen["work"] = work.seen();
  seen["threads"] = threads;
  seen["batches"] = recorder->batches;
  seen["log"] = lines.lines();
  const double weights = checksum_of(*options.model);
  seen["weights"] = std::isfinite(weights) ? Json(weights) : Json("not finite");
  seen["end"] = Json::array({result.step, to_string(result.stopped_by), visible(result.metrics)});
  return seen;
}

}  // namespace

Json observe_run(const std::string& trainer_type, const Json& settings) {
  at::set_num_threads(1);
  const TemporaryDirectory directory(memory_directory());
  if (const Json* before = settings.find("@before")) run_once(trainer_type, *before, directory.path());
  Json seen = run_once(trainer_type, settings, directory.path());
  seen["files"] = list_files(directory.path());
  return seen;
}

}  // namespace easydel::testing_support
