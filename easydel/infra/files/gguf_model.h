// A GGUF file as a model: the config.json that its metadata stand for, and its tensors under Hugging Face's names.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/io/gguf/gguf_file.h"

namespace easydel {

// Architectures llama (Mistral and Mixtral too, which llama.cpp calls so), qwen2 and qwen3; NotSupportedError, which
// names these, for others. FormatError for metadata that are missing or make no sense. Where matrices are of type Q4_0
// there is a quantization_config: they are int4, whose codes are the same. So there is for Q8_0, Q4_K, Q5_K and Q6_K,
// whose blocks are kept as they are.
Json gguf_config(const GgufFile& file);

// llama.cpp's converter pairs the rows of q and k for its own rotary embedding; here they lie as Hugging Face's do.
class GgufModel final : public TensorSource {
 public:
  // With `keeps_codes` a matrix of type Q4_0 is two tensors, "weight" and "weight.scales", as int4 has them, and one of
  // type Q8_0, Q4_K, Q5_K or Q6_K bytes [out, blocks of a row, bytes of a block]; the matrices of a layer's experts are
  // so in one tensor, "experts.gate_up_proj" or "experts.down_proj". Without, all are floats.
  static std::shared_ptr<const GgufModel> open(const std::filesystem::path& path, bool keeps_codes);

 private:
  enum class Kind : uint8_t { Values, Codes, Scales, Blocks };
  // Where a tensor lies in the file: rows of a matrix, or one expert of a stack of them.
  struct Place {
    std::string name;                        // in the file
    std::optional<int64_t> expert = {};      // of a stack
    int64_t heads = 0;                       // whose rows are paired; 0: none are
    std::optional<std::string> beside = {};  // whose rows follow those of each expert
    Kind kind = Kind::Values;
  };
  struct Contents {
    std::vector<TensorInfo> infos;
    std::vector<Place> places;  // for each info
  };
  GgufModel(std::shared_ptr<const GgufFile> file, Contents contents);
  static Contents rename(const GgufFile& file, bool keeps_codes);
  at::Tensor load(const TensorInfo& info) const override;
  at::Tensor blocks(const TensorInfo& stored) const;  // bytes [(experts,) out, blocks of a row, bytes of a block]
  static at::Tensor part_of(const at::Tensor& blocks, Kind kind);
  at::Tensor stacked(const TensorInfo& info, const Place& place) const;  // the codes of a layer's experts

  std::shared_ptr<const GgufFile> file_;
  std::vector<Place> places_;
};

}  // namespace easydel
