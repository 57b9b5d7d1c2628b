// What a request must be before it is taken in.
#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "easydel/infra/decoder/accepts_images.h"
#include "easydel/processors/vision_processor.h"
#include "easydel/serve/engine/local_engine.h"

namespace easydel::serve {
namespace {

// Where the images of a prompt are. ConfigError where the placeholders are not as many as the images take.
void place_images(ActiveRequest& active, const AcceptsImages& model) {
  const std::vector<int32_t>& prompt = active.request.prompt;
  const int64_t image_token = model.image_token_id();
  for (std::size_t i = 0; i < prompt.size(); ++i)
    if (prompt[i] == image_token) active.image_places.push_back(static_cast<int64_t>(i));
  const ImageInputs& images = *active.request.images;
  const auto wanted = std::accumulate(images.tokens.begin(), images.tokens.end(), int64_t{0});
  const auto found = static_cast<int64_t>(active.image_places.size());
  require<ConfigError>(found == wanted, "[engine] the images of the prompt take ", wanted, " tokens; it has ", found,
                       " placeholders.");
  const at::Tensor& grid = images.image_grid_thw;
  int64_t next = 0, first_row = 0;
  for (std::size_t i = 0; i < images.tokens.size(); ++i) {
    const int64_t rows = grid.defined() ? grid[static_cast<int64_t>(i)].prod().item<int64_t>() : 1;
    const at::Tensor pixels = images.pixel_values.narrow(0, first_row, rows).to(at::kFloat).contiguous();
    first_row += rows;
    const std::span<const int32_t> bits(reinterpret_cast<const int32_t*>(pixels.const_data_ptr<float>()),
                                        static_cast<std::size_t>(pixels.numel()));
    const int64_t first = next;
    next += images.tokens[i];
    active.image_spans.push_back({active.image_places[static_cast<std::size_t>(first)],
                                  active.image_places[static_cast<std::size_t>(next - 1)] + 1, hash_page({}, bits, 0)});
  }
  ModelInputs seen;
  seen.image_grid_thw = grid;
  const at::Tensor positions = model.image_positions(at::tensor(prompt, at::kLong).unsqueeze(0), seen);
  if (!positions.defined()) return;
  active.image_positions = positions.squeeze(1);
  active.position_shift = active.image_positions.max().item<int64_t>() + 1 - static_cast<int64_t>(prompt.size());
}

// Where the tokens of an image see each other, a step must have room for all of them.
void check_images(const ActiveRequest& active, int64_t room) {
  int64_t begin = 0, end = -1;
  for (const ImageSpan& image : active.image_spans) {
    if (image.begin != end) begin = image.begin;  // images without a token between them are one
    end = image.end;
    require<ConfigError>(end - begin <= room, "[engine] an image of the prompt takes ", end - begin,
                         " tokens, which attend to each other and must be in one step; max_num_batched_tokens is ",
                         room, ".");
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
                       " tokens; max_model_len, for prompt and answer together, is ", info_.max_model_len, ".");
  require<ConfigError>(!request.images || info_.accepts_images, "[engine] ", model_->type_name(),
                       " does not accept images.");
  require<NotSupportedError>(!request.images || !runner_->is_shared(),
                             "[engine] images are not sent to the other ranks of a mesh. Serve on one device.");
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
  if (active->request.images) {
    const auto& seeing = dynamic_cast<const AcceptsImages&>(*model_);
    place_images(*active, seeing);
    if (seeing.needs_whole_images()) check_images(*active, options_.max_num_batched_tokens);
  }
  return active;
}

}  // namespace easydel::serve
