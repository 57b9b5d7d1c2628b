// Training of encoder-decoders, from text or speech to text.
#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/data/rows/media.h"
#include "easydel/data/rows/seq2seq.h"
#include "easydel/infra/config/loss_config.h"
#include "easydel/processors/feature_extractor.h"
#include "easydel/trainers/arguments/argument_checker.h"
#include "easydel/trainers/objectives/objective.h"

namespace easydel {
namespace {

// Keys of sft that say something of one sequence.
void refuse_keys_of_decoders(const TrainingArguments& arguments, bool is_speech) {
  const KeyPlace where = [](std::string_view key) { return concat("[trainer] ", key); };
  const ArgumentChecker c(where);
  const TextArguments& text = arguments.text;
  constexpr std::string_view kTwo = "Rows of an encoder-decoder are padded.";
  constexpr std::string_view kTarget = "The loss of an encoder-decoder is computed only on the target.";
  c.only(!text.packing, "packing", "be false for an encoder-decoder", "true", kTwo);
  c.only(!text.eval_packing.value_or(false), "eval_packing", "be false for an encoder-decoder", "true", kTwo);
  c.only(!text.padding_free, "padding_free", "be false for an encoder-decoder", "true", kTwo);
  c.only(text.completion_only_loss.value_or(true), "completion_only_loss", "be true for an encoder-decoder", "false",
         kTarget);
  c.only(!text.train_on_inputs.value_or(false), "train_on_inputs", "be false for an encoder-decoder", "true", kTarget);
  c.only(!text.assistant_only_loss, "assistant_only_loss", "be false for an encoder-decoder", "true", kTarget);
  c.only(is_speech || text.dataset_text_field.value_or("text") == "text", "dataset_text_field",
         "not be given for an encoder-decoder", text.dataset_text_field.value_or(""),
         "It reads prompt and completion; format_fields renames columns.");
  c.only(text.freeze_vision_tower, "freeze_vision_tower", "be true for an encoder-decoder", "false",
         "It has no vision tower.");
  c.only(text.mask_image_tokens, "mask_image_tokens", "be true for an encoder-decoder", "false",
         "It has no image tokens.");
  c.only(arguments.neftune_noise_alpha.value_or(0) == 0, "neftune_noise_alpha", "be null or 0 for an encoder-decoder",
         arguments.neftune_noise_alpha.value_or(0), "NEFTune noise is defined for a single sequence.");
  c.only(arguments.loss().shift_tokens, "loss_config", "not set shift_tokens for an encoder-decoder", "false",
         "Its decoder reads the labels shifted right.");
}

class Seq2SeqObjective : public Objective {
 public:
  TaskType task() const override { return TaskType::SequenceToSequence; }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    refuse_keys_of_decoders(arguments, /*is_speech=*/false);
    return data::make_seq2seq_transform(tokenizer, {.limit = {.tokens = arguments.sequence_length(),
                                                              .keeps_end = arguments.truncation_mode == "keep_end"},
                                                    .add_special_tokens = arguments.text.add_special_tokens});
  }

  std::vector<BatchRow> rows(const data::Example& example) const override {
    BatchRow row{.input_ids = example.input_ids};
    row.target_ids = example.labels;
    return {row};
  }

  double count_items(const std::vector<BatchRow>& rows) const override {
    int64_t count = 0;
    for (const BatchRow& row : rows)
      count +=
          std::count_if(row.target_ids.begin(), row.target_ids.end(), [](int64_t id) { return id != data::kNoLoss; });
    return static_cast<double>(count);
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    return language_model_loss(model, inputs_of(batch), context);
  }

 protected:
  virtual ModelInputs inputs_of(const Batch& batch) const { return batch.inputs(); }
};

// Rows with a recording and what is said in it. As in transformers' recipes the target is the whole of what the
// tokenizer makes of the text, language and task included, without the token that the decoder begins with anyway.
class SpeechObjective final : public Seq2SeqObjective {
 public:
  SpeechObjective(WhisperFeatureExtractor extractor, std::optional<int64_t> start)
      : extractor_(std::make_shared<const WhisperFeatureExtractor>(std::move(extractor))), start_(start) {}

  TaskType task() const override { return TaskType::SpeechSequenceToSequence; }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    refuse_keys_of_decoders(arguments, /*is_speech=*/true);
    const data::TextLimit limit{.tokens = arguments.sequence_length(),
                                .keeps_end = arguments.truncation_mode == "keep_end"};
    return [codec = data::TextCodec(tokenizer), extractor = extractor_, start = start_, limit,
            special = arguments.text.add_special_tokens.value_or(true),
            field = arguments.text.dataset_text_field.value_or("text")](const data::Row& row) {
      data::Example example;
      const std::string bytes = data::media_bytes(row, data::field_of(row, "audio"), "audio");
      const Sound sound = decode_audio(bytes, {}, concat(row.place(), ": \"audio\""));
      const at::Tensor samples = resample(mix_to_mono(sound), sound.sampling_rate, extractor->sampling_rate());
      require<FormatError>(samples.size(0) <= extractor->samples(), "[", row.place(), "] \"audio\" has ",
                           static_cast<double>(samples.size(0)) / static_cast<double>(extractor->sampling_rate()),
                           " seconds; the model accepts ", extractor->samples() / extractor->sampling_rate(),
                           " at once. Split it into parts.");
      example.tensors["input_features"] = to_floats((*extractor)({samples})[0]);
      example.labels = data::encode_target(codec, data::text_of(row, field), special, limit);
      if (example.labels.front() == start && example.labels.size() > 1) example.labels.erase(example.labels.begin());
      return std::optional(std::move(example));
    };
  }

  std::vector<BatchRow> rows(const data::Example& example) const override {
    std::vector<BatchRow> rows = Seq2SeqObjective::rows(example);
    rows[0].tensors["input_features"] = to_tensor(example.tensors.at("input_features"));
    return rows;
  }

 protected:
  ModelInputs inputs_of(const Batch& batch) const override {
    ModelInputs inputs{.labels = batch.labels};
    inputs.input_features = batch.tensors.at("input_features");
    return inputs;
  }

 private:
  std::shared_ptr<const WhisperFeatureExtractor> extractor_;
  std::optional<int64_t> start_;
};

}  // namespace

std::unique_ptr<Objective> make_seq2seq_objective() { return std::make_unique<Seq2SeqObjective>(); }

std::unique_ptr<Objective> make_speech_objective(WhisperFeatureExtractor extractor, const BaseConfig& config) {
  const Json start = config.get("decoder_start_token_id");
  return std::make_unique<SpeechObjective>(std::move(extractor),
                                           start.is_int() ? std::optional(start.as_int()) : std::nullopt);
}

}  // namespace easydel
