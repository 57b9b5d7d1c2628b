// nf4: 4-bit codes of a table that fits normal values, with one scale for each group of columns, as bitsandbytes makes
// them; with double quantization the scales are 8-bit codes themselves, with a scale for each 256 and an offset.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/operations/threading/parallel.h"
#include "easydel/quantization/method.h"
#include "easydel/quantization/methods/nf4.h"
#include "easydel/quantization/packed_products.h"

namespace easydel::quantization {
namespace {

constexpr int64_t kNestedBlock = 256;
using Of = PartDim::Of;

// The first place whose value is not below x, of the 15 middles between neighbours.
int code_of(const std::array<float, 15>& middles, float x) {
  int place = 0;
  for (const float middle : middles) place += middle < x;
  return place;
}

// The codes [out, in / 2] and scales [out, in / group].
std::pair<at::Tensor, at::Tensor> quantize_groups(const at::Tensor& given, int64_t group) {
  const at::Tensor matrix = given.contiguous(), table = nf4_table();
  std::array<float, 15> middles{};
  for (std::size_t i = 0; i < 15; ++i)
    middles[i] = (table.const_data_ptr<float>()[i] + table.const_data_ptr<float>()[i + 1]) / 2;
  const at::Tensor codes = at::empty({matrix.size(0), matrix.size(1) / 2}, at::kByte);
  const at::Tensor absmax = at::empty({matrix.size(0), matrix.size(1) / group}, at::kFloat);
  const float* from = matrix.const_data_ptr<float>();
  uint8_t* to = codes.mutable_data_ptr<uint8_t>();
  float* scales = absmax.mutable_data_ptr<float>();
  operations::for_rows(absmax.numel(), group, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const float* x = from + block * group;
      float largest = 0;
      for (int64_t i = 0; i < group; ++i) largest = std::max(largest, std::fabs(x[i]));
      scales[block] = largest;
      const float inverse = 1.0F / std::max(largest, 1e-38F);
      const auto code = [&](float value) { return code_of(middles, std::clamp(value * inverse, -1.0F, 1.0F)); };
      for (int64_t i = 0; i < group; i += 2)
        to[(block * group + i) / 2] = static_cast<uint8_t>(code(x[i]) << 4 | code(x[i + 1]));
    }
  });
  return {codes, absmax};
}

// The code of a scale in [-1, 1]: bitsandbytes rounds it to one of 65536 places first, and takes the entry that is
// nearest to the place.
uint8_t nested_code(const std::array<float, 255>& middles, float value) {
  const int place = static_cast<int>((value + 1.0F) * 32767.5F + 0.5F);
  const float rounded = 2.0F * static_cast<float>(place) / 65535.0F - 1.0F;
  return static_cast<uint8_t>(std::lower_bound(middles.begin(), middles.end(), rounded) - middles.begin());
}

class Nf4 : public Method {
 public:
  explicit Nf4(QuantizeOptions settings) : settings_(std::move(settings)) {}

  QuantizeOptions settings() const override { return settings_; }
  std::optional<operations::PackedFormat> format() const override { return operations::PackedFormat::kNf4; }

  std::vector<Part> parts(int64_t out, int64_t in) const override {
    const int64_t group = settings_.group_size;
    check_group(settings_, 32, in);
    const int64_t scales = out * (in / group);
    std::vector<Part> parts{
        {"weight", uint8, {{Of::Rows}, {Of::Columns, 2}}, {out * (in / 2), 1}},
        {"weight.absmax", settings_.double_quant ? uint8 : float32, {{Of::Rows}, {Of::Columns, group}}, {scales}}};
    if (settings_.double_quant) {
      parts.push_back({"weight.nested_absmax", float32, {{Of::Neither, (scales + kNestedBlock - 1) / kNestedBlock}}});
      parts.push_back({"weight.nested_offset", float32, {{Of::Neither, 1}}, {}, /*in_files=*/false});
    }
    return parts;
  }

  std::vector<at::Tensor> quantize(const at::Tensor& matrix, const ChannelStatistics*) const override {
    auto [codes, absmax] = quantize_groups(matrix, settings_.group_size);
    if (!settings_.double_quant) return {codes, absmax};
    const at::Tensor offset = absmax.mean();
    const at::Tensor rest = (absmax - offset).view({-1}), map = nf4_nested_map();
    std::array<float, 255> middles{};
    for (std::size_t i = 0; i < 255; ++i)
      middles[i] = (map.const_data_ptr<float>()[i] + map.const_data_ptr<float>()[i + 1]) * 0.5F;
    const int64_t count = rest.numel();
    const at::Tensor nested = at::empty({(count + kNestedBlock - 1) / kNestedBlock}, at::kFloat);
    const at::Tensor scale_codes = at::empty(absmax.sizes(), at::kByte);
    const float* from = rest.const_data_ptr<float>();
    uint8_t* to = scale_codes.mutable_data_ptr<uint8_t>();
    for (int64_t block = 0; block < nested.size(0); ++block) {
      const int64_t begin = block * kNestedBlock, end = std::min(count, begin + kNestedBlock);
      float largest = 0;
      for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(from[i]));
      nested.mutable_data_ptr<float>()[block] = largest;
      const float inverse = 1.0F / largest;
      for (int64_t i = begin; i < end; ++i)
        to[i] = largest == 0 ? uint8_t{0} : nested_code(middles, std::clamp(from[i] * inverse, -1.0F, 1.0F));
    }
    return {codes, scale_codes, nested, offset.view({1})};
  }

  at::Tensor dequantize(const LocalShard& held, int64_t begin, int64_t end) const override {
    return nf4_rows(held.parts[0].narrow(0, begin, end - begin), scales(held, begin, end), settings_.group_size);
  }

  at::Tensor multiply(const at::Tensor& x, const LocalShard& held) const override {
    if (held.cut) return Method::multiply(x, held);
    return nf4_product(x, held.parts[0], scales(held, 0, held.row_count()), settings_.group_size);
  }

  Json config() const override {
    Json json = Json::object();
    json["quant_method"] = "bitsandbytes";
    json["load_in_8bit"] = false;
    json["load_in_4bit"] = true;
    json["bnb_4bit_quant_type"] = "nf4";
    json["bnb_4bit_use_double_quant"] = settings_.double_quant;
    json["bnb_4bit_quant_storage"] = "uint8";
    json["bnb_4bit_compute_dtype"] = "float32";
    return json;
  }

 private:
  // float32 [end - begin, groups held].
  at::Tensor scales(const LocalShard& held, int64_t begin, int64_t end) const {
    const at::Tensor own = held.parts[1].narrow(0, begin, end - begin);
    if (!settings_.double_quant) return own;
    // The place of each scale in the whole says which 256 it belongs to.
    const int64_t group = settings_.group_size, per_row = held.in / group;
    const at::TensorOptions places = at::TensorOptions(at::kLong).device(own.device());
    at::Tensor rows = held.row_numbers;
    if (!rows.defined()) {
      std::vector<at::Tensor> runs;
      for (const Interval& i : sub_intervals(held.rows, {begin, end}))
        runs.push_back(at::arange(i.begin, i.end, places));
      rows = runs.empty() ? at::empty({0}, places) : at::cat(runs);
    } else {
      rows = rows.narrow(0, begin, end - begin);
    }
    std::vector<at::Tensor> runs;
    for (const Interval& i : held.columns) runs.push_back(at::arange(i.begin / group, i.end / group, places));
    const at::Tensor columns = runs.empty() ? at::empty({0}, places) : at::cat(runs);
    const at::Tensor block = (rows.unsqueeze(1) * per_row + columns).floor_divide_(kNestedBlock);
    const at::Tensor values =
        constant_on(nf4_nested_map(), own.device()).index_select(0, own.reshape({-1}).to(at::kInt));
    return (values * held.parts[2].index_select(0, block.view({-1})) + held.parts[3]).view(own.sizes());
  }

  QuantizeOptions settings_;
};

}  // namespace

at::Tensor nf4_nested_map() {
  static const at::Tensor map = [] {
    std::vector<at::Tensor> parts{at::tensor({0.0F, 1.0F})};
    for (int i = 0; i < 7; ++i) {
      const at::Tensor bounds = at::linspace(0.1, 1, (1 << i) + 1, at::kFloat);
      const at::Tensor middles = (bounds.slice(0, 0, -1) + bounds.slice(0, 1)) / 2.0;
      const double power = std::pow(10.0, i - 6);
      parts.push_back(middles * power);
      parts.push_back(middles * -power);
    }
    return std::get<0>(at::cat(parts).sort());
  }();
  return map;
}

std::shared_ptr<const Method> make_nf4(const QuantizeOptions& given) {
  QuantizeOptions settings = given;
  if (settings.group_size == 0) settings.group_size = 64;
  return std::make_shared<Nf4>(settings);
}

}  // namespace easydel::quantization
