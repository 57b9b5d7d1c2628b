// Greedy and beam search token for token as transformers generates, with tiny models of every family.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>

#include "easydel/core/json/json.h"
#include "easydel/core/log.h"
#include "easydel/generation/generate.h"
#include "easydel/infra/auto_model.h"
#include "easydel/io/safetensors/safetensors.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

TEST(GenerateParity, GivesTheTokensOfTransformers) {
  log::set_level(log::Level::Error);
  const TemporaryDirectory directory;
  const char* draws = std::getenv("EASYDEL_DRAWS");
  run_python("generation_peer.py", {"generate", directory.path().string(), "8", draws ? draws : "4"});
  const Json cases = Json::parse_file(directory / "cases.json");
  const auto tensors = SafetensorsFile::open(directory / "cases.safetensors");
  std::map<std::string, std::shared_ptr<BaseModule>> models;
  int64_t ties = 0, beams = 0, rows = 0, stopped = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Json& entry = cases.at(i);
    SCOPED_TRACE(concat(i, ": ", entry.dump()));
    auto& model = models[entry.at("model").as_string()];
    if (!model)
      model = AutoModelForAnyTask::from_pretrained(directory / entry.at("model").as_string(), {.verbose = false});
    const auto tensor = [&](const char* name) { return tensors->tensor(concat(i, ".", name)); };

    const GenerationConfig model_config = GenerationConfig::from_pretrained(directory / entry.at("model").as_string());
    GenerationConfig config = GenerationConfig::from_dict(entry.at("config")).over(model_config);
    const GenerateOutput out =
        generate(*model, tensor("ids"), {.generation_config = config, .inputs = {.attention_mask = tensor("mask")}});
    // Without an end token transformers fills rows with -1, which is no token.
    at::Tensor expected = tensor("sequences");
    expected = at::where(expected.eq(-1), config.pad_token_id.value_or(0), expected);
    const bool searched = config.beams() > 1;
    beams += searched;
    rows += expected.size(0);
    stopped += std::count(out.finish_reasons.begin(), out.finish_reasons.end(), FinishReason::Stop);
    const bool same = at::equal(out.sequences, expected) &&
                      (!searched || (at::equal(out.beam_indices, tensor("origins")) &&
                                     is_close(out.sequences_scores, tensor("scores"), {.rtol = 1e-4, .atol = 1e-4})));
    // Where transformers itself had two choices that nearly tie, rounding decides.
    if (!same && entry.at("margin").as_double() < 1e-3) {
      ++ties;
      continue;
    }
    ASSERT_TRUE(at::equal(out.sequences, expected)) << out.sequences << "\nexpected\n" << expected;
    if (!searched) continue;
    ASSERT_TRUE(at::equal(out.beam_indices, tensor("origins"))) << out.beam_indices << "\nexpected\n"
                                                                << tensor("origins");
    ASSERT_TRUE(is_close(out.sequences_scores, tensor("scores"), {.rtol = 1e-4, .atol = 1e-4}));
  }
  const auto count = static_cast<int64_t>(cases.size());
  std::cout << count << " cases, " << beams << " with beams; " << stopped << " of " << rows << " rows end early; "
            << ties << " set aside for a near tie\n";
  EXPECT_GE(models.size(), 40);
  EXPECT_LE(ties * 50, count);
  EXPECT_GT(beams * 3, count);
  EXPECT_GT(stopped * 5, rows);
}

}  // namespace
}  // namespace easydel
