// What a request must be before it is taken in.
#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "easydel/infra/decoder/sees_pictures.h"
#include "easydel/processors/vision_processor.h"
#include "easydel/serve/engine/local_engine.h"

namespace easydel::serve {
namespace {

// Where the pictures of a prompt are. ConfigError where the placeholders are not as many as the pictures take.
void place_pictures(ActiveRequest& active, const SeesPictures& model) {
  const std::vector<int32_t>& prompt = active.request.prompt;
  const int64_t image_token = model.image_token_id();
  for (std::size_t i = 0; i < prompt.size(); ++i)
    if (prompt[i] == image_token) active.picture_places.push_back(static_cast<int64_t>(i));
  const PictureInputs& pictures = *active.request.pictures;
  const auto wanted = std::accumulate(pictures.tokens.begin(), pictures.tokens.end(), int64_t{0});
  const auto found = static_cast<int64_t>(active.picture_places.size());
  require<ConfigError>(found == wanted, "[engine] the pictures of the prompt take ", wanted, " tokens; it has ", found,
                       " placeholders.");
  const at::Tensor& grid = pictures.image_grid_thw;
  int64_t next = 0, first_row = 0;
  for (std::size_t i = 0; i < pictures.tokens.size(); ++i) {
    const int64_t rows = grid.defined() ? grid[static_cast<int64_t>(i)].prod().item<int64_t>() : 1;
    const at::Tensor pixels = pictures.pixel_values.narrow(0, first_row, rows).to(at::kFloat).contiguous();
    first_row += rows;
    const std::span<const int32_t> bits(reinterpret_cast<const int32_t*>(pixels.const_data_ptr<float>()),
                                        static_cast<std::size_t>(pixels.numel()));
    const int64_t first = next;
    next += pictures.tokens[i];
    active.picture_spans.push_back({active.picture_places[static_cast<std::size_t>(first)],
                                    active.picture_places[static_cast<std::size_t>(next - 1)] + 1,
                                    hash_page({}, bits, 0)});
  }
  ModelInputs seen;
  seen.image_grid_thw = grid;
  const at::Tensor positions = model.picture_positions(at::tensor(prompt, at::kLong).unsqueeze(0), seen);
  if (!positions.defined()) return;
  active.picture_positions = positions.squeeze(1);
  active.position_shift = active.picture_positions.max().item<int64_t>() + 1 - static_cast<int64_t>(prompt.size());
}

// Where the tokens of a picture see each other, a step must have room for all of them.
void check_pictures(const ActiveRequest& active, int64_t room) {
  int64_t begin = 0, end = -1;
  for (const PictureSpan& picture : active.picture_spans) {
    if (picture.begin != end) begin = picture.begin;  // pictures without a token between them are one
    end = picture.end;
    require<ConfigError>(end - begin <= room, "[engine] a picture of the prompt takes ", end - begin,
                         " tokens, which see each other and must be in one step; max_num_batched_tokens is ", room,
                         ".");
  }
}

}  // namespace

void LocalEngine::check(const Request& request) const {
  const auto length = static_cast<int64_t>(request.prompt.size());
  require<ConfigError>(length > 0, "[engine] the prompt has no tokens.");
  for (const int32_t token : request.prompt)
    require<ConfigError>(token >= 0 && token < info_.vocab_size, "[engine] a token of the prompt is ", token,
                         "; the vocabulary has ", info_.vocab_size, ".");
  const bool generates = request.kind == RequestKind::Generate;
  require<ConfigError>(!generates || info_.can_generate, "[engine] ", model_->type_name(),
                       " has no language modelling head: it cannot generate.");
  require<ConfigError>(request.kind != RequestKind::Embed || info_.can_embed, "[engine] ", model_->type_name(),
                       " gives classes, not embeddings.");
  require<ConfigError>(request.kind != RequestKind::Classify || info_.can_classify, "[engine] ", model_->type_name(),
                       " has no classification head.");
  require<ConfigError>(length + (generates ? 1 : 0) <= info_.max_model_len, "[engine] the prompt has ", length,
                       " tokens; max_model_len, of prompt and answer together, is ", info_.max_model_len, ".");
  require<ConfigError>(!request.pictures || info_.can_see, "[engine] ", model_->type_name(), " takes text alone.");
  require<NotSupportedError>(!request.pictures || !runner_->is_shared(),
                             "[engine] pictures are not sent to the other ranks of a mesh. Serve on one device.");
  const SamplingParams& sampling = request.sampling;
  sampling.validate(info_.vocab_size);
  require<ConfigError>(tokenizer_ || sampling.stop.empty(), "[engine] stop strings need a tokenizer.");
  require<NotSupportedError>(!sampling.grammar || options_.grammar,
                             "[engine] structured output is not supported by this engine: it has no grammar compiler.");
}

LocalEngine::ActivePtr LocalEngine::make_active(Request request, OutputCallback callback) {
  auto active = std::make_unique<ActiveRequest>();
  const SamplingParams& sampling = request.sampling;
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  active->max_length = std::min(info_.max_model_len, sampling.max_tokens && *sampling.max_tokens < info_.max_model_len
                                                         ? prompt + *sampling.max_tokens
                                                         : info_.max_model_len);
  if (!sampling.ignore_eos) active->end_tokens = info_.eos_token_ids;
  if (tokenizer_)
    active->text.emplace(tokenizer_, sampling.skip_special_tokens, sampling.stop, sampling.include_stop_str_in_output);
  active->request = std::move(request);
  active->callback = std::move(callback);
  if (active->request.pictures) {
    const auto& seeing = dynamic_cast<const SeesPictures&>(*model_);
    place_pictures(*active, seeing);
    if (seeing.sees_whole_pictures()) check_pictures(*active, options_.max_num_batched_tokens);
  }
  return active;
}

}  // namespace easydel::serve
