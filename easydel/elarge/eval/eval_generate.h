// Answers of a model to the questions of a task, through the engine: all at once, batched as the engine sees fit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/elarge/eval/eval_task.h"
#include "easydel/serve/engine/engine.h"

namespace easydel {

class AutoTokenizer;

// How a task's answers are generated.
struct EvalGeneration {
  serve::SamplingParams sampling;
  std::vector<std::string> until;
  int64_t max_tokens = 256;
};

// The task's generation_kwargs, with `changes` over them. `base`: what the model samples by, where they say nothing.
// ConfigError on a wrong value, NotSupportedError on a key that is not here.
EvalGeneration read_generation(const EvalTask& task, const Json& changes, const serve::SamplingParams& base);

// The answers to each prompt, task.repeats of them, up to the first of `until`. Of a prompt that leaves no room for
// max_tokens within `max_length` the end is kept. Error when a request fails.
std::vector<std::vector<std::string>> generate_answers(serve::Engine& engine, const AutoTokenizer& tokenizer,
                                                       const EvalTask& task, const EvalGeneration& generation,
                                                       const std::vector<std::string>& prompts, int64_t max_length,
                                                       bool show_progress);

// "temperature=0.5,max_gen_toks=32", or a JSON object.
Json parse_gen_kwargs(const std::string& text);

}  // namespace easydel
