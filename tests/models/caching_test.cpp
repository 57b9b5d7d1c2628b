// What a model gives token by token, with a cache, is what it gives for the whole sequence: dense and in pages, for
// random models, chunks and meshes, in float64. EASYDEL_DRAWS, EASYDEL_SEED and EASYDEL_TEST_DEVICE as in
// one_answer_test.cpp.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <mutex>

#include "easydel/caching/recurrent_states.h"
#include "easydel/core/error.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/layers/recurrent/recurrent_mixer.h"
#include "easydel/sharding/world/world.h"
#include "tests/support/one_answer.h"

namespace easydel {
namespace {

using at::Tensor;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::Draw;
using testing_support::Problem;

constexpr double kTolerance = 1e-9;

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::string difference(const std::string& what, const Tensor& got, const Tensor& want) {
  if (got.sizes() != want.sizes()) return concat("\n  ", what, ": shape ", got.sizes(), " for ", want.sizes());
  const double scale = std::max(want.abs().max().item<double>(), 1e-300);
  const double error = (got - want).abs().max().item<double>() / scale;
  return error < kTolerance ? "" : concat("\n  ", what, ": off by ", error);
}

// Without labels and packing, which are not supported with a cache. Pages hold no states of recurrent layers.
Problem draw_cached(uint64_t seed, bool in_pages = false) {
  Problem p;
  for (uint64_t n = 0;; ++n) {
    p = testing_support::draw_problem(seed + 1000003 * n, std::getenv("EASYDEL_TEST_DEVICE") ? 1 : 0);
    // Tables that depend on the length would be made anew for all tokens only without a cache.
    const bool by_length = operations::rope_depends_on_length(p.config->rope);
    if (p.task == TaskType::CausalLM && !p.inputs.segment_ids.defined() && !by_length &&
        !(in_pages && testing_support::has_states(*p.config)))
      break;
  }
  p.inputs.labels.reset();
  p.inputs.loss_config.reset();
  p.inputs.output_logits.reset();
  return p;
}

std::shared_ptr<BaseModule> on_mesh(const Problem& p) {
  auto model = testing_support::make_model(p);
  if (p.mesh.size() > 1) model->shard_model(p.rules, p.mesh);
  return model;
}

std::string run_dense(const Problem& p, const Tensor& expected) {
  const at::NoGradGuard no_grad;
  const auto model = on_mesh(p);
  Draw draw(p.seed + 17);
  const Tensor& ids = p.inputs.input_ids;
  const int64_t tokens = ids.size(1);
  const auto cache = model->init_cache(ids.size(0), tokens + draw.between(0, 5));
  std::string wrong;
  for (int64_t at = 0; at < tokens;) {
    const int64_t count = draw.chance(0.6) ? 1 : draw.between(1, tokens - at);
    ModelInputs step{.input_ids = ids.narrow(1, at, count), .past_key_values = cache};
    if (p.inputs.position_ids.defined()) step.position_ids = p.inputs.position_ids.narrow(1, at, count);
    if (p.inputs.attention_mask.defined()) step.attention_mask = p.inputs.attention_mask.narrow(1, 0, at + count);
    wrong +=
        difference(concat("tokens ", at, " to ", at + count), (*model)(step).logits, expected.narrow(1, at, count));
    at += count;
    // A token that is taken back leaves no trace.
    const bool has_window = std::any_of(cache->metadata().layers.begin(), cache->metadata().layers.end(),
                                        [](const LayerKeys& layer) { return layer.window > 0; });
    if (!has_window && !has_recurrent_states(*cache) && at > 1 && draw.chance(0.1)) cache->crop(--at);
  }
  return wrong;
}

std::string run_paged(const Problem& p, const std::vector<Tensor>& sequences, const std::vector<Tensor>& expected) {
  const at::NoGradGuard no_grad;
  const auto model = on_mesh(p);
  Draw draw(p.seed + 29);
  RaggedPagesMetadata metadata = model->create_paged_metadata(0.01, draw.between(1, 5), 16);
  metadata.num_pages = 80;
  const auto cache = model->init_ragged_pages(metadata);
  struct Running {
    std::size_t index;
    int64_t sequence, done = 0;
  };
  std::vector<Running> running;
  std::string wrong;
  for (std::size_t next = 0; next < sequences.size() || !running.empty();) {
    while (next < sequences.size() && (running.empty() || draw.chance(0.4)))
      running.push_back({next++, cache->add_sequence()});
    const auto batch = std::make_shared<RaggedBatch>();
    std::vector<Tensor> ids, wanted;
    for (Running& each : running) {
      const int64_t left = sequences[each.index].numel() - each.done;
      if (!batch->parts.empty() && draw.chance(0.2)) continue;  // waits
      const int64_t count = draw.chance(0.5) ? 1 : draw.between(1, left);
      batch->parts.push_back({each.sequence, count});
      ids.push_back(sequences[each.index].narrow(0, each.done, count));
      wanted.push_back(expected[each.index].narrow(0, each.done, count));
      each.done += count;
    }
    ModelInputs step{.input_ids = at::cat(ids).unsqueeze(0), .past_key_values = cache, .cache_metadata = batch};
    const bool last_only = draw.chance(0.5);
    if (last_only) step.logit_indices = batch->last_tokens();
    Tensor want = at::cat(wanted);
    if (last_only) want = want.index_select(0, batch->last_tokens().to(want.device()));
    wrong +=
        difference(concat("a step of ", batch->parts.size(), " sequences"), (*model)(step).logits.squeeze(0), want);
    std::erase_if(running, [&](const Running& each) {
      if (each.done < sequences[each.index].numel()) return false;
      cache->free_sequence(each.sequence);
      return true;
    });
  }
  if (cache->free_pages() != metadata.num_pages) wrong += "\n  pages are lost";
  return wrong;
}

using Prepare = std::function<std::function<std::string()>(const Problem&)>;

void check(uint64_t seed, const Prepare& prepare, bool in_pages) {
  const Problem p = draw_cached(seed, in_pages);
  try {
    const std::function<std::string()> run = prepare(p);
    std::mutex mutex;
    std::string wrong;
    run_ranks(p.mesh.size(), [&](World& world) {
      const std::string found = run();
      const std::lock_guard lock(mutex);
      if (!found.empty()) wrong += concat("\nrank ", world.rank(), ":", found);
    });
    EXPECT_TRUE(wrong.empty()) << p.to_string() << wrong << "\nEASYDEL_SEED=" << seed << " repeats it.";
  } catch (const std::exception& error) {
    ADD_FAILURE() << p.to_string() << "\n" << error.what() << "\nEASYDEL_SEED=" << seed << " repeats it.";
  }
}

class Caching : public testing::TestWithParam<uint64_t> {
 protected:
  void each_seed(const Prepare& prepare, bool in_pages = false) {
    if (const uint64_t seed = number_from("EASYDEL_SEED", 0); seed != 0) {
      if (GetParam() == 0) check(seed, prepare, in_pages);
      return;
    }
    const uint64_t draws = number_from("EASYDEL_DRAWS", 240);
    for (uint64_t seed = 1 + GetParam(); seed <= draws && !HasFailure(); seed += 4) check(seed, prepare, in_pages);
  }
};

TEST_P(Caching, DenseStepsGiveWhatTheWholeSequenceGives) {
  each_seed([](const Problem& p) {
    const at::NoGradGuard no_grad;
    const Tensor expected = (*testing_support::make_model(p))(p.inputs).logits;
    return [&p, expected] { return run_dense(p, expected); };
  });
}

TEST_P(Caching, PagedStepsOfManySequencesGiveWhatEachGivesAlone) {
  each_seed(
      [](const Problem& p) {
        const at::NoGradGuard no_grad;
        const auto model = testing_support::make_model(p);
        std::vector<Tensor> sequences, expected;
        Draw draw(p.seed + 5);
        for (int64_t row = 0; row < p.inputs.input_ids.size(0); ++row) {
          const int64_t tokens = draw.between(1, p.inputs.input_ids.size(1));
          sequences.push_back(p.inputs.input_ids[row].narrow(0, 0, tokens));
          expected.push_back((*model)({.input_ids = sequences.back().unsqueeze(0)}).logits.squeeze(0));
        }
        return [&p, sequences, expected] { return run_paged(p, sequences, expected); };
      },
      /*in_pages=*/true);
}

// A Llama of one layer, to be asked for what cannot be.
std::shared_ptr<BaseModule> tiny() {
  Problem p = draw_cached(1);
  p.config = AutoConfig::from_dict(Json::parse(
      R"({"model_type": "llama", "vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
          "intermediate_size": 8, "max_position_embeddings": 32})"));
  return testing_support::make_model(p);
}
Tensor ids(int64_t rows, int64_t tokens) {
  return at::ones({rows, tokens}, at::TensorOptions(at::kLong).device(testing_support::device()));
}

TEST(CacheErrors, OfADenseCache) {
  const auto model = tiny();
  EXPECT_THAT([&] { model->init_cache(0, 4); }, ThrowsMessage<ConfigError>(HasSubstr("must be positive; got 0 and 4")));
  EXPECT_THAT([&] { model->init_cache(1, int64_t{1} << 40); }, ThrowsMessage<ConfigError>(HasSubstr("GiB are free")));
  EXPECT_THAT([&] { model->init_cache(2, 4, at::zeros({3}, at::kLong)); },
              ThrowsMessage<ShapeError>("[init_cache] starts must be [2]; got [3]."));
  const auto cache = model->init_cache(2, 4);
  EXPECT_THAT([&] { (*model)({.input_ids = ids(3, 1), .past_key_values = cache}); },
              ThrowsMessage<ShapeError>("[cache] it was created for 2 rows; got 3."));
  EXPECT_THAT([&] { (*model)({.input_ids = ids(2, 5), .past_key_values = cache}); },
              ThrowsMessage<ShapeError>(
                  "[cache] its max_length is 4 tokens and it has 0; got 5 more. Create it with a larger max_length."));
  EXPECT_THAT([&] { (*model)({.input_ids = ids(2, 2), .segment_ids = ids(2, 2).cumsum(1), .past_key_values = cache}); },
              ThrowsMessage<NotSupportedError>(HasSubstr("packed segments are not supported with a cache")));
  EXPECT_EQ(cache->length(), 0);  // a step that fails does not count
  (*model)({.input_ids = ids(2, 3), .past_key_values = cache});
  EXPECT_EQ(cache->length(), 3);
  EXPECT_THAT([&] { cache->crop(4); },
              ThrowsMessage<ConfigError>("[cache] the length to crop to must be from 0 to 3; got 4."));
}

TEST(CacheErrors, OfPages) {
  const auto model = tiny();
  EXPECT_THAT([&] { model->create_paged_metadata(1.5, 4, 16); },
              ThrowsMessage<ConfigError>(HasSubstr("in (0, 1]; got 1.5")));
  EXPECT_THAT([&] { model->create_paged_metadata(0.5, 0, 16); }, ThrowsMessage<ConfigError>(HasSubstr("got 0 and 16")));
  RaggedPagesMetadata metadata = model->create_paged_metadata(0.01, 2, 8);
  metadata.num_pages = 3;
  const auto cache = model->init_ragged_pages(metadata);
  const int64_t a = cache->add_sequence(), b = cache->add_sequence();
  const auto step = [&](std::vector<RaggedBatch::Part> parts, int64_t tokens) {
    const auto batch = std::make_shared<RaggedBatch>();
    batch->parts = std::move(parts);
    (*model)({.input_ids = ids(1, tokens), .past_key_values = cache, .cache_metadata = batch});
  };
  EXPECT_THAT([&] { (*model)({.input_ids = ids(1, 2), .past_key_values = cache}); },
              ThrowsMessage<ConfigError>(HasSubstr("needs cache_metadata: a RaggedBatch")));
  EXPECT_THAT([&] { step({{a, 3}}, 2); }, ThrowsMessage<ShapeError>(HasSubstr("have 3 tokens; input_ids has 2")));
  EXPECT_THAT([&] { step({{77, 2}}, 2); }, ThrowsMessage<ConfigError>(HasSubstr("unknown sequence 77")));
  EXPECT_THAT([&] { step({{a, 1}, {a, 1}}, 2); }, ThrowsMessage<ConfigError>(HasSubstr("appears twice")));
  EXPECT_THAT([&] { step({{a, 9}}, 9); }, ThrowsMessage<ShapeError>(HasSubstr("max_model_length is 8")));
  EXPECT_THAT([&] { step({{a, 4}, {b, 3}}, 7); },
              ThrowsMessage<Error>("[pages] this call needs 4 more pages of 2 tokens; 3 of 3 are free. Free a sequence "
                                   "first."));
  EXPECT_EQ(cache->free_pages(), 3);
  step({{a, 4}, {b, 1}}, 5);
  EXPECT_EQ(cache->free_pages(), 0);
  cache->free_sequence(a);
  EXPECT_EQ(cache->free_pages(), 2);
  EXPECT_THAT([&] { cache->free_sequence(a); }, ThrowsMessage<ConfigError>(HasSubstr("already freed")));
  EXPECT_THAT([&] { cache->reorder(at::zeros({1}, at::kLong)); },
              ThrowsMessage<NotSupportedError>(HasSubstr("beam search")));
}

TEST(CacheErrors, OfRecurrentLayers) {
  Problem p = draw_cached(1);
  p.config = AutoConfig::from_dict(Json::parse(
      R"({"model_type": "mamba", "vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 2, "state_size": 3})"));
  const auto model = testing_support::make_model(p);
  EXPECT_THAT([&] { model->create_paged_metadata(0.01, 2, 8); },
              ThrowsMessage<NotSupportedError>(HasSubstr("MambaForCausalLM has recurrent layers")));
  const auto cache = model->init_cache(2, 8);
  EXPECT_EQ(cache->metadata().bytes(), 0);
  EXPECT_THAT([&] { (*model)({.input_ids = ids(2, 2), .segment_ids = ids(2, 2).cumsum(1), .past_key_values = cache}); },
              ThrowsMessage<NotSupportedError>(HasSubstr("packed segments are not supported with a cache")));
  const Tensor every_pair = at::ones({2, 1, 3, 3}, ids(1, 1).options().dtype(at::kBool)).tril();
  EXPECT_THAT([&] { (*model)({.input_ids = ids(2, 3), .attention_mask = every_pair}); },
              ThrowsMessage<NotSupportedError>(HasSubstr("got one for each pair of tokens")));
  const Tensor first = (*model)({.input_ids = ids(2, 3), .past_key_values = cache}).logits;
  EXPECT_THAT([&] { cache->crop(2); }, ThrowsMessage<ConfigError>(HasSubstr("no state of earlier tokens")));
  cache->crop(0);
  EXPECT_TRUE(at::equal((*model)({.input_ids = ids(2, 3), .past_key_values = cache}).logits, first));
}

INSTANTIATE_TEST_SUITE_P(Draws, Caching, testing::Range<uint64_t>(0, 4));

}  // namespace
}  // namespace easydel
