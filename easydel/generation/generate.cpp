#include "easydel/generation/generate.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/generation/search.h"
#include "easydel/generation/seq2seq_step.h"
#include "easydel/infra/encoder/seq2seq_inputs.h"
#include "easydel/infra/files/companions.h"
#include "easydel/sharding/parallel.h"

namespace easydel {
namespace {

// The longest sequence that is begun: beyond it a count of bytes would overflow somewhere.
constexpr int64_t kMaxLength = int64_t{1} << 40;
constexpr int64_t kMaxRows = 65536;

// max_length and min_length with the prompt counted, as transformers resolves them.
void resolve_lengths(GenerationConfig& config, const GenerationConfig& given, const BaseConfig& model, int64_t prompt) {
  const int64_t context = model.max_position_embeddings;
  if (config.max_new_tokens) {
    config.max_length = prompt + std::min(*config.max_new_tokens, kMaxLength);
  } else if (!given.max_length) {
    config.max_length = *config.max_length + prompt;
    if (context > 0) config.max_length = std::min(*config.max_length, context);
  }
  config.max_length = std::min(*config.max_length, kMaxLength);
  require<ConfigError>(prompt < *config.max_length, "[generate] the prompt has ", prompt, " tokens, and max_length is ",
                       *config.max_length, given.max_length || config.max_new_tokens ? "" : ", the model's context",
                       ": no room for a new one. Shorten the prompt or set max_new_tokens.");
  if (context > 0 && *config.max_length > context) {
    // A table of positions ends there; rotations go on, at a loss of quality.
    require<ConfigError>(!model.get("rope_parameters").is_null(), "[generate] a prompt of ", prompt,
                         " tokens and up to ", *config.max_length - prompt, " new ones exceed the ", context,
                         " positions of the model. Set max_new_tokens to at most ",
                         std::max<int64_t>(context - prompt, 0), ".");
    log::warning("[generate] up to ", *config.max_length, " tokens are requested; the model was trained for ", context,
                 ".");
  }
  if (config.min_new_tokens) config.min_length = prompt + std::min(*config.min_new_tokens, kMaxLength);
}

// Beams and returned sequences multiply the rows: a number with a typo must not eat the memory.
void check_rows(const GenerationConfig& config, int64_t prompts, int64_t copies, int64_t vocab_size) {
  require<ConfigError>(copies <= kMaxRows / prompts, "[generate] ", prompts, " prompts with ",
                       config.beams() > 1 ? "num_beams " : "num_return_sequences ", copies, " make more than ",
                       kMaxRows, " rows.");
  if (config.beams() == 1) return;
  const int64_t candidates = beam_candidates(config);
  require<ConfigError>(candidates <= copies * vocab_size, "[generate] num_beams ", copies, " with ",
                       config.eos_token_id.size(), " end tokens needs ", candidates,
                       " continuations; the vocabulary has only ", vocab_size, " tokens.");
}

// What fills rows that have ended. An id outside of the vocabulary, as some files have, counts as none.
int64_t padding(const GenerationConfig& config, int64_t vocab_size) {
  const auto valid = [&](int64_t id) { return id >= 0 && id < vocab_size; };
  if (config.pad_token_id && valid(*config.pad_token_id)) return *config.pad_token_id;
  for (const int64_t id : config.eos_token_id) {
    if (valid(id)) return id;
  }
  return 0;
}

std::vector<int64_t> row_streams(const GenerateOptions& options, int64_t prompts, int64_t copies) {
  require<ShapeError>(options.streams.empty() || static_cast<int64_t>(options.streams.size()) == prompts,
                      "[generate] streams must have one entry for each of ", prompts, " prompts; got ",
                      options.streams.size(), ".");
  std::vector<int64_t> streams;
  for (int64_t i = 0; i < prompts; ++i) {
    const int64_t stream = options.streams.empty() ? i : options.streams[static_cast<std::size_t>(i)];
    for (int64_t j = 0; j < copies; ++j) streams.push_back(stream * copies + j);
  }
  return streams;
}

// Inference tensors cannot take part in training; copies can.
GenerateOutput released(GenerateOutput out) {
  const auto release = [](at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.clone();
  };
  for (at::Tensor* tensor : {&out.sequences, &out.log_probs, &out.sequences_scores, &out.beam_indices})
    release(*tensor);
  for (at::Tensor& tensor : out.scores) release(tensor);
  for (at::Tensor& tensor : out.logits) release(tensor);
  return out;
}

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::Stop: return "stop";
    case FinishReason::Length: return "length";
    case FinishReason::Time: return "time";
    case FinishReason::Cancelled: return "cancelled";
  }
  return "";
}

std::optional<FinishReason> Search::ended() const {
  const bool cancelled = options.stop_token.stop_requested();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  const bool late = config.max_time && passed.count() > *config.max_time;
  int64_t state = cancelled ? 2 : late ? 1 : 0;
  // Ranks have clocks of their own.
  const bool may_differ = config.max_time || options.stop_token.stop_possible();
  if (may_differ && module.parallel() && !module.parallel()->is_single()) {
    const at::Tensor agreed = at::full({1}, state, input_ids.options());
    module.parallel()->everyone().broadcast(agreed, 0);
    state = agreed.item<int64_t>();
  }
  if (state == 0) return std::nullopt;
  return state == 2 ? FinishReason::Cancelled : FinishReason::Time;
}

GenerationConfig generation_config(const BaseModule& model) {
  const Json& json = model.companions().generation_config;
  return json.is_null() ? GenerationConfig::from_model_config(model.config())
                        : GenerationConfig::from_dict(json, model.companions().generation_config_file);
}

void set_generation_config(BaseModule& model, const GenerationConfig& config) {
  config.validate();
  Companions changed = model.companions();
  changed.generation_config = config.to_dict();
  changed.generation_config_file.clear();
  model.set_companions(std::make_shared<const Companions>(std::move(changed)));
}

GenerateOutput generate(const BaseModule& module, const at::Tensor& input_ids, const GenerateOptions& options) {
  return generate_behind(module, input_ids, {}, options);
}

GenerateOutput generate_behind(const BaseModule& module, const at::Tensor& main_input, const at::Tensor& decoder_ids,
                               const GenerateOptions& options, const at::Tensor& encoder_states) {
  require<NotSupportedError>(module.can_generate(), "[generate] ", module.type_name(),
                             " has no language modelling head. Load the model for causal-lm, or for "
                             "sequence-to-sequence if it has an encoder.");
  const bool is_speech = module.main_input_name() == "input_features";
  const bool has_encoder = is_seq2seq(module);
  require<ConfigError>(has_encoder || !options.generation_config.decoder_start_token_id,
                       "[generate] decoder_start_token_id is for encoder-decoders; ", module.type_name(),
                       " has no encoder.");
  const auto begin = std::chrono::steady_clock::now();
  const BaseConfig& model = module.config();
  const GenerationConfig given = options.generation_config.over(generation_config(module));
  GenerationConfig config = given.with_defaults();
  config.require_supported();
  const bool beams = config.beams() > 1;
  require<ConfigError>(
      !beams || !options.streamer,
      "[generate] a streamer is not supported with beam search, whose tokens are known only at the end.");

  GenerateOutput out;
  {
    const c10::InferenceMode guard;
    const at::Tensor prompt =
        is_speech ? check_sound(module, main_input) : check_prompt(module, main_input, config.bos_token_id);
    // What is continued: the prompt, or the beginning of what an encoder-decoder makes of it.
    const at::Tensor ids = decoder_ids.defined() ? check_prompt(module, decoder_ids, {})
                           : has_encoder         ? decoder_start(config, prompt, model.vocab_size)
                                                 : prompt;
    require<ShapeError>(ids.size(0) == prompt.size(0), "[generate] ", prompt.size(0),
                        " inputs need as many decoder prompts; got ", ids.size(0), ".");
    resolve_lengths(config, given, model, ids.size(1));
    const int64_t copies = beams ? config.beams() : *config.num_return_sequences;
    check_rows(config, ids.size(0), copies, model.vocab_size);
    ModelInputs inputs =
        has_encoder
            ? prepare_seq2seq_generation(module, prompt, ids, options.inputs, config.pad_token_id, config.eos_token_id,
                                         copies, encoder_states)
            : prepare_inputs_for_generation(ids, options.inputs, config.pad_token_id, config.eos_token_id, copies);
    inputs.fused_decode = options.fused_decode;
    LogitsProcessorList processors =
        make_score_processors(config, ids.size(1), model.vocab_size, options.logits_processor,
                              is_speech    ? at::Tensor()
                              : copies > 1 ? prompt.repeat_interleave(copies, 0)
                                           : prompt);
    LogitsProcessorList warpers = make_warpers(config);
    if (beams || !config.samples()) {
      for (const LogitsProcessorPtr& warper : std::exchange(warpers, {})) processors.append(warper);
    }
    std::vector<StoppingCriteriaPtr> criteria = options.stopping_criteria;
    if (config.stop_strings) {
      criteria.push_back(std::make_shared<StopStringCriteria>(config.stop_strings->values, options.decode));
    }
    const at::Tensor rows = has_encoder ? inputs.decoder_input_ids : inputs.input_ids;
    const auto step =
        has_encoder ? make_seq2seq_step(module, std::move(inputs), *config.use_cache, *config.max_length)
                    : make_decode_step(module, std::move(inputs), *config.use_cache, *config.max_length, options.trace);
    Search search{.module = module,
                  .options = options,
                  .config = config,
                  .input_ids = rows,
                  .step = *step,
                  .processors = std::move(processors),
                  .warpers = std::move(warpers),
                  .criteria = std::move(criteria),
                  .streams = row_streams(options, ids.size(0), beams ? 1 : copies),
                  .pad_token_id = padding(config, model.vocab_size),
                  .begin = begin};
    out = beams ? search_beams(search) : sample_rows(search);
    out.prompt_length = ids.size(1);
  }
  return released(std::move(out));
}

}  // namespace easydel
