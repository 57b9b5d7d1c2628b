// What the options of trainers, batches and scores do.
#include "easydel/trainers/trainer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "easydel/core/files/file.h"
#include "easydel/layers/linear.h"
#include "easydel/optim/optimizers.h"
#include "easydel/optim/transformation.h"
#include "easydel/trainers/objectives/score.h"
#include "easydel/trainers/run/batch.h"
#include "easydel/trainers/run/run_lock.h"
#include "tests/infra/tiny_llama.h"
#include "tests/support/probe.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/word_tokenizer.h"

namespace easydel::trainers_probes {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::is_refused;
using testing_support::LogLines;
using testing_support::progress_of;

// Remembers the width of each batch, and passes everything on.
class Widths final : public Objective {
 public:
  TaskType task() const override { return inner_->task(); }
  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    return inner_->transform(tokenizer, arguments);
  }
  std::vector<BatchRow> rows(const data::Example& example) const override { return inner_->rows(example); }
  double count_items(const std::vector<BatchRow>& rows) const override { return inner_->count_items(rows); }
  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    seen.push_back(batch.input_ids.size(1));
    return inner_->loss(model, batch, context);
  }
  mutable std::vector<int64_t> seen;

 private:
  std::shared_ptr<Objective> inner_ = make_objective("sft");
};

std::shared_ptr<const data::Dataset> texts(std::vector<std::string> texts) {
  std::vector<Json> rows;
  for (const std::string& text : texts) rows.push_back(Json::object({{"text", text}}));
  return std::make_shared<const data::Dataset>(
      std::vector<data::SourcePtr>{data::make_source(std::move(rows), "texts")}, data::MixtureOptions());
}

// A run of two steps, whose options a probe changes before it begins.
class ShortRun {
 public:
  ShortRun() {
    LlamaConfig config = tiny_config();
    config.vocab_size = testing_support::kWordTokens;
    options = {.arguments = TrainingArguments::from_json("sft", Json::object({{"max_training_steps", 2},
                                                                              {"total_batch_size", 2},
                                                                              {"learning_rate", 0.1},
                                                                              {"max_length", 16},
                                                                              {"async_save", false},
                                                                              {"shuffle_train_dataset", false},
                                                                              {"progress_bar_type", "none"},
                                                                              {"save_directory", path().string()}})),
               .model = make_model<LlamaForCausalLM>(config),
               .objective = objective,
               .tokenizer = std::make_shared<const AutoTokenizer>(testing_support::word_tokenizer()),
               .train_dataset = texts({"a b c", "d e f", "g h i", "j k l"})};
  }
  fs::path path() const { return directory_ / "run"; }
  at::Tensor weight() const { return options.model->params().at("lm_head.weight").detach(); }
  TrainResult train() {
    const LogLines quiet;
    return Trainer(options).train();
  }

  std::shared_ptr<Widths> objective = std::make_shared<Widths>();
  TrainerOptions options;

 private:
  TemporaryDirectory directory_;
};

PROBE(TrainerOptions, trainer_type) {
  for (const char* type : {"sft", "base"}) {
    ShortRun run;
    run.options.trainer_type = type;
    const fs::path checkpoint = run.train().checkpoint;
    EXPECT_EQ(Json::parse_file((checkpoint / "trainer.json").string()).at("trainer_type"), Json(type));
  }
  ShortRun run;
  run.options.trainer_type = "sftt";
  EXPECT_TRUE(is_refused("sftt", [&] { run.train(); }));
}
PROBE(TrainerOptions, arguments) {
  ShortRun run;
  run.options.arguments.max_training_steps = 1;
  EXPECT_EQ(run.train().step, 1);
}
PROBE(TrainerOptions, model) {
  ShortRun run;
  const at::Tensor before = run.weight().clone();
  run.train();
  EXPECT_FALSE(at::equal(run.weight(), before));
  run.options.model = nullptr;
  EXPECT_TRUE(is_refused("a model is needed", [&] { run.train(); }));
}
PROBE(TrainerOptions, objective) {
  ShortRun run;
  run.train();
  EXPECT_EQ(run.objective->seen.size(), 2U);
  run.options.objective = nullptr;
  EXPECT_TRUE(is_refused("an objective is needed", [&] { run.train(); }));
}
PROBE(TrainerOptions, tokenizer) {
  ShortRun run;
  run.options.tokenizer = nullptr;
  EXPECT_TRUE(is_refused("a tokenizer is needed", [&] { run.train(); }));
}
PROBE(TrainerOptions, train_dataset) {
  ShortRun run;
  run.options.train_dataset = texts({"a b c d e f g h", "a b"});
  run.train();
  EXPECT_THAT(run.objective->seen, ElementsAre(10, 10));  // with <s> and </s>
  run.options.train_dataset = nullptr;
  EXPECT_TRUE(is_refused("train_dataset", [&] { run.train(); }));
}
PROBE(TrainerOptions, eval_dataset) {
  ShortRun run;
  const LogLines quiet;
  EXPECT_TRUE(is_refused("eval_dataset", [&] { Trainer(run.options).evaluate(); }));
  run.options.eval_dataset = texts({"a b"});
  EXPECT_GT(Trainer(run.options).evaluate().at("eval_loss"), 0);
}
PROBE(TrainerOptions, tokenizer_directory) {
  ShortRun plain, with;
  const TemporaryDirectory files;
  testing_support::write_word_tokenizer(files.path());
  with.options.tokenizer_directory = files.path();
  EXPECT_FALSE(fs::exists(plain.train().checkpoint / "tokenizer.json"));
  EXPECT_TRUE(fs::exists(with.train().checkpoint / "tokenizer.json"));
}
PROBE(TrainerOptions, tx) {
  ShortRun run;
  run.options.tx = optim::set_to_zero();
  const at::Tensor before = run.weight().clone();
  run.train();
  EXPECT_TRUE(at::equal(run.weight(), before));
}
PROBE(TrainerOptions, hooks) {
  ShortRun run;
  std::vector<int64_t> steps;
  run.options.hooks.after_step = [&](int64_t step, const Metrics&) { steps.push_back(step); };
  run.train();
  EXPECT_THAT(steps, ElementsAre(1, 2));
}
PROBE(TrainerOptions, rows) {
  ShortRun run;
  run.options.rows = {.pad_to_max_length = true};
  run.train();
  EXPECT_THAT(run.objective->seen, ElementsAre(16, 16));
}
PROBE(TrainerOptions, run_config) {
  ShortRun run;
  run.options.run_config = Json::object({{"a_word_of_mine", 7}});
  run.train();
  EXPECT_THAT(read_file(run.path() / "report.html"), HasSubstr("a_word_of_mine"));
}
// Another run has the directory, unless its lock is handed over.
PROBE(TrainerOptions, lock) {
  ShortRun run;
  auto lock = std::make_shared<RunLock>(run.path());
  EXPECT_TRUE(is_refused(run.path().string(), [&] { run.train(); }));
  run.options.lock = std::move(lock);
  EXPECT_EQ(run.train().step, 2);
}

// Threads of this process while a step runs, beyond those that there were before.
int64_t threads_of(const RowOptions& rows) {
  const auto count = [] {
    int64_t threads = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/task")) ++threads;
    return threads;
  };
  ShortRun run;
  run.options.rows = rows;
  const int64_t before = count();
  int64_t during = 0;
  run.options.hooks.before_step = [&](int64_t step) {
    if (step <= 1) during = count();
  };
  run.train();
  return during - before;
}

PROBE(RowOptions, prefetch_workers) {
  threads_of({});  // threads that are made once and stay
  const int64_t none = threads_of({.prefetch_workers = 0});
  EXPECT_EQ(threads_of({.prefetch_workers = 1}), none + 1);
  EXPECT_EQ(threads_of({.prefetch_workers = 2}), none + 2);
}
PROBE(RowOptions, prefetch_buffer_size) {
  threads_of({});
  EXPECT_EQ(threads_of({.prefetch_workers = 2, .prefetch_buffer_size = 0}), threads_of({.prefetch_workers = 0}));
}
PROBE(RowOptions, pad_to_max_length) {
  ShortRun run;
  run.train();
  EXPECT_THAT(run.objective->seen, ElementsAre(5, 5));
  run.objective->seen.clear();
  run.options.rows.pad_to_max_length = true;
  run.options.arguments.resume_if_possible = false;
  run.options.arguments.save_directory = std::nullopt;
  run.train();
  EXPECT_THAT(run.objective->seen, ElementsAre(16, 16));
}

PROBE(TrainingArguments, ignored_keys) {
  TrainingArguments arguments;
  arguments.ignored_keys = {"jax_distributed_config"};
  EXPECT_THAT(arguments.unsupported_notes(), testing::Contains("jax_distributed_config has no effect here."));
}

// Batches ------------------------------------------------------------------------------------------------------------

Batch batch_of(const BatchOptions& options) {
  const std::vector<BatchRow> rows = {{.input_ids = {7, 8, 9}, .labels = {7, 8, 9}}, {.input_ids = {7}, .labels = {7}}};
  return make_batch(rows, options, nullptr);
}

PROBE(BatchOptions, rows) {
  EXPECT_EQ(batch_of({.rows = 2}).input_ids.size(0), 2);
  EXPECT_TRUE(is_refused("this rank has 3 rows", [] { batch_of({.rows = 3}); }));
}
PROBE(BatchOptions, width) {
  EXPECT_EQ(batch_of({.rows = 2}).input_ids.size(1), 3);
  EXPECT_EQ(batch_of({.rows = 2, .width = 6}).input_ids.size(1), 6);
}
PROBE(BatchOptions, pad_token_id) {
  EXPECT_EQ(batch_of({.rows = 2, .pad_token_id = 42}).input_ids[1][2].item<int64_t>(), 42);
}
PROBE(BatchOptions, multiple) { EXPECT_EQ(batch_of({.rows = 2, .multiple = 4}).input_ids.size(1), 4); }
PROBE(BatchOptions, joins_rows) {
  const Batch batch = batch_of({.rows = 2, .width = 6, .joins_rows = true});
  EXPECT_TRUE(batch.input_ids.equal(at::tensor({7, 8, 9, 7}, at::kLong).view({1, 4})));
  EXPECT_TRUE(batch.segment_ids.equal(at::tensor({0, 0, 0, 1}, at::kLong).view({1, 4})));
  EXPECT_TRUE(batch.position_ids.equal(at::tensor({0, 1, 2, 0}, at::kLong).view({1, 4})));
  EXPECT_EQ(batch.tokens, 4);
}
PROBE(BatchOptions, device) { EXPECT_TRUE(batch_of({.rows = 2, .device = at::kMeta}).input_ids.is_meta()); }

// Scores -------------------------------------------------------------------------------------------------------------

std::vector<int64_t> some_text() {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 20; ++i) ids.push_back((7 * i * i + 3 * i) % 29);
  return ids;
}
double nll(const ScoreOptions& options) {
  const TextScore score = score_text(*tiny_llama(), some_text(), options);
  EXPECT_EQ(score.tokens, 19);
  return score.nll;
}
// Of tokens that see all that came before.
double whole_nll() {
  const at::Tensor ids = at::tensor(some_text(), at::kLong).unsqueeze(0);
  const at::Tensor logits = logits_of(*tiny_llama(), {.input_ids = ids});
  return at::cross_entropy_loss(logits[0].narrow(0, 0, 19), ids[0].narrow(0, 1, 19), {}, at::Reduction::Sum)
      .item<double>();
}

PROBE(ScoreOptions, window) {
  EXPECT_NEAR(nll({.window = 20, .show_progress = false}), whole_nll(), 1e-3);
  EXPECT_GT(std::abs(nll({.window = 4, .show_progress = false}) - whole_nll()), 1e-2);
  EXPECT_TRUE(is_refused("window", [] { nll({.window = 33}); }));
}
PROBE(ScoreOptions, stride) {
  const double near = nll({.window = 8, .stride = 1, .show_progress = false});
  EXPECT_GT(std::abs(near - nll({.window = 8, .stride = 7, .show_progress = false})), 1e-3);
  EXPECT_TRUE(is_refused("stride", [] { nll({.window = 8, .stride = 8}); }));
}
PROBE(ScoreOptions, show_progress) {
  EXPECT_THAT(progress_of([] { nll({}); }), HasSubstr("eval"));
  EXPECT_EQ(progress_of([] { nll({.show_progress = false}); }), "");
}

// Two requests, of which the first goes on as the model itself would.
std::vector<Continuation> requests() {
  const std::vector<int64_t> context = some_text();
  const at::Tensor logits = logits_of(*tiny_llama(), {.input_ids = at::tensor(context, at::kLong).unsqueeze(0)});
  const int64_t best = logits[0][19].argmax().item<int64_t>();
  return {{context, {best}}, {context, {(best + 1) % 29}}};
}
std::vector<ContinuationScore> scores(ContinuationOptions options) {
  options.show_progress = false;
  return score_continuations(*tiny_llama(), requests(), options);
}

PROBE(ContinuationOptions, max_length) {
  EXPECT_GT(std::abs(scores({.max_length = 2})[0].log_likelihood - scores({})[0].log_likelihood), 1e-3);
}

class CallCounter : public LinearAdapter {
 public:
  at::Tensor operator()(const at::Tensor&, const at::Tensor& y) const override {
    ++calls;
    return y;
  }
  at::Tensor merged(const at::Tensor& matrix) const override { return matrix; }
  mutable int64_t calls = 0;
};

PROBE(ContinuationOptions, batch_size) {
  const auto calls = [](int64_t batch_size) {
    const auto model = tiny_llama();
    const auto counter = std::make_shared<CallCounter>();
    for (const auto& [path, module] : model->named_modules()) {
      if (path == "model.layers.0.mlp.down_proj") dynamic_cast<Linear&>(*module).set_adapter(counter);
    }
    score_continuations(*model, requests(), {.batch_size = batch_size, .show_progress = false});
    return counter->calls;
  };
  EXPECT_EQ(calls(0), 1);
  EXPECT_EQ(calls(1), 2);
}
PROBE(ContinuationOptions, find_greedy) {
  EXPECT_FALSE(scores({})[0].is_greedy);
  EXPECT_TRUE(scores({.find_greedy = true})[0].is_greedy);
  EXPECT_FALSE(scores({.find_greedy = true})[1].is_greedy);
}
PROBE(ContinuationOptions, show_progress) {
  EXPECT_THAT(progress_of([] { score_continuations(*tiny_llama(), requests()); }), HasSubstr("eval"));
  EXPECT_EQ(progress_of([] { scores({}); }), "");
}

}  // namespace
}  // namespace easydel::trainers_probes
