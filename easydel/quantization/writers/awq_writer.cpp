#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"
#include "easydel/layers/linear.h"
#include "easydel/quantization/formats/affine.h"
#include "easydel/quantization/methods/uint4.h"
#include "easydel/quantization/writers/awq.h"
#include "easydel/quantization/writers/written_format.h"

namespace easydel::quantization {
namespace {

constexpr int kExponents = 20;  // tried, from 0 to 1

// Layers that take the same input, and who gives it: a norm, or a linear layer by its rows.
struct ScaledInput {
  std::string from;
  std::vector<std::string> to;
};

at::Tensor round_trip(const at::Tensor& matrix, int64_t group) {
  return uint4_values(uint4_codes(matrix, group), group);
}

// The scale of each input with the least expected squared error of what the layers compute.
at::Tensor best_input_scales(const std::vector<at::Tensor>& matrices, const at::Tensor& hessian, int64_t group) {
  const at::Tensor size = hessian.diagonal().sqrt().clamp_min(1e-6);
  at::Tensor best = at::ones_like(size);
  double least = INFINITY;
  for (int step = 0; step <= kExponents; ++step) {
    at::Tensor scale = size.pow(static_cast<double>(step) / kExponents).clamp_min_(1e-4);
    scale = scale / (scale.max() * scale.min()).sqrt();
    double error = 0;
    for (const at::Tensor& matrix : matrices) {
      const at::Tensor off = round_trip(matrix * scale, group).div_(scale).sub_(matrix);
      error += off.mm(hessian).mul_(off).sum().item<double>();
    }
    if (error < least) least = error, best = scale;
  }
  return best;
}

class WrittenAwq final : public WrittenFormat {
 public:
  explicit WrittenAwq(FormatChoice choice) : choice_(std::move(choice)) {}

  Text text() const override { return Text::Needed; }

  Json config(const std::vector<std::string>& dense) const override {
    return Json::object({{"quant_method", "awq"},
                         {"bits", 4},
                         {"group_size", choice_.group_size == 0 ? int64_t{128} : choice_.group_size},
                         {"zero_point", true},
                         {"version", "gemm"},
                         {"modules_to_not_convert", dense}});
  }

  std::vector<std::pair<std::string, at::Tensor>> pack(const at::Tensor& matrix, DType,
                                                       const at::Tensor&) const override {
    require<ConfigError>(matrix.size(0) % 8 == 0, "[quantize] awq packs eight outputs in a word; a matrix has ",
                         matrix.size(0), " rows.");
    const Uint4Codes made = uint4_codes(matrix, checked_group(choice_, matrix.size(1)));
    return {{"qweight", words(made.codes.t())},
            {"qzeros", words(made.zeros.t())},
            {"scales", made.scales.t().contiguous()}};
  }

 private:
  // [rows, out] to int32 [rows, out / 8], interleaved as the gemm kernel reads them.
  static at::Tensor words(const at::Tensor& codes) {
    const at::Tensor order = at::tensor({0, 2, 4, 6, 1, 3, 5, 7}, at::kLong);
    return pack_words(codes.unflatten(1, {-1, 8}).index_select(2, order).flatten(1), 4);
  }

  FormatChoice choice_;
};

}  // namespace

void scale_for_awq(BaseModule& model, const Hessians& hessians, int64_t group) {
  const std::string family = model.model_type();
  require<NotSupportedError>(family == "llama" || family == "mistral" || family == "qwen2" || family == "qwen3",
                             "[quantize] awq's scaling is known for llama, mistral, qwen2 and qwen3; got ",
                             quoted(family), ". Use gptq.");
  const at::NoGradGuard no_grad;
  std::map<std::string, Module*> modules;
  for (const auto& [path, child] : model.named_modules()) modules.emplace(path, child);
  const auto linear = [&](const std::string& path) { return dynamic_cast<Linear*>(modules.at(path)); };
  for (const auto& [path, child] : modules) {
    if (!path.ends_with(".self_attn")) continue;
    const std::string layer = path.substr(0, path.size() - std::string_view("self_attn").size());
    std::vector<ScaledInput> inputs{
        {layer + "input_layernorm", {path + ".q_proj", path + ".k_proj", path + ".v_proj"}},
        {layer + "post_attention_layernorm", {layer + "mlp.gate_proj", layer + "mlp.up_proj"}},
        {layer + "mlp.up_proj", {layer + "mlp.down_proj"}}};
    if (linear(path + ".v_proj")->out_features() == linear(path + ".o_proj")->in_features())
      inputs.push_back({path + ".v_proj", {path + ".o_proj"}});
    for (const ScaledInput& input : inputs) {
      const auto hessian = hessians.find(input.to.front());
      require<ConfigError>(hessian != hessians.end(), "[quantize] the calibration text did not reach ",
                           quoted(input.to.front()), ".");
      std::vector<at::Tensor> matrices;
      for (const std::string& to : input.to) matrices.push_back(linear(to)->weight()->value().to(at::kFloat));
      const at::Tensor scale = best_input_scales(matrices, hessian->second, group);
      for (const std::string& to : input.to) linear(to)->weight()->value().mul_(scale);
      for (const auto& [name, parameter] : modules.at(input.from)->named_parameters()) {
        const at::Tensor& value = parameter->value();
        value.div_(value.dim() == 2 ? scale.unsqueeze(1) : scale);
      }
    }
  }
}

std::unique_ptr<const WrittenFormat> make_written_awq(const FormatChoice& choice) {
  return std::make_unique<WrittenAwq>(choice);
}

}  // namespace easydel::quantization
