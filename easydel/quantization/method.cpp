#include "easydel/quantization/method.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/quantization/methods/file_methods.h"
#include "easydel/quantization/packed_products.h"
#include "easydel/sharding/weight_sharding.h"

namespace easydel::quantization {
namespace {

struct Known {
  const char* name;
  MethodFactory make;
};
constexpr Known kMethods[] = {
    {"8bit", make_8bit}, {"nf4", make_nf4}, {"int4", make_int4},   {"a8bit", make_a8bit}, {"a8q", make_a8q},
    {"a4q", make_a4q},   {"fp8", make_fp8}, {"mxfp4", make_mxfp4}, {"uint4", make_uint4},
};

}  // namespace

std::shared_ptr<const Method> make_method(const QuantizeOptions& settings) {
  for (const Known& known : kMethods) {
    if (settings.method != known.name) continue;
    require<ConfigError>(!settings.double_quant || settings.method == "nf4",
                         "[quantize] double_quant is supported only with nf4; got the method \"", settings.method,
                         "\".");
    return known.make(settings);
  }
  std::string names;
  for (const Known& known : kMethods) names += concat(names.empty() ? "" : ", ", known.name);
  fail<ConfigError>("[quantize] unknown method \"", settings.method, "\"; known: ", names, ".");
}

void check_group(const QuantizeOptions& settings, int64_t unit, int64_t in) {
  const int64_t group = settings.group_size;
  require<ConfigError>(group > 0 && group % unit == 0, "[quantize] the group size of ", settings.method,
                       " must be a multiple of ", unit, "; got ", group, ".");
  require<ConfigError>(in % group == 0, "[quantize] the group size must divide the ", in,
                       " columns of the matrix; got ", group, ".");
}

void refuse_group(const QuantizeOptions& settings) {
  require<ConfigError>(settings.group_size == 0, "[quantize] ", settings.method,
                       " has one scale for each row and no groups; got the group size ", settings.group_size, ".");
}

at::Tensor Method::matrix(const LocalShard& held, int64_t begin, int64_t end) const {
  const at::Tensor rows = dequantize(held, begin, end);
  return held.cut ? take(rows, {{{0, rows.size(0)}}, *held.cut}) : rows;
}

at::Tensor Method::multiply(const at::Tensor& x, const LocalShard& held) const {
  return chunked_product(x, held.row_count(), [&](int64_t begin, int64_t end) { return matrix(held, begin, end); });
}

Json Method::config() const {
  const QuantizeOptions own = settings();
  Json json = Json::object();
  json["quant_method"] = "easydel";
  json["method"] = own.method;
  if (own.group_size > 0) json["group_size"] = own.group_size;
  return json;
}

at::Tensor largest_in_row(const at::Tensor& x, const LocalShard& held) {
  at::Tensor largest = x.size(-1) > 0 ? x.abs().amax({-1}, /*keepdim=*/true).to(at::kFloat)
                                      : at::zeros(x.sum(-1, true).sizes(), x.options().dtype(at::kFloat));
  if (held.together) {
    largest = largest.contiguous();
    held.together->all_reduce(largest, ReduceOp::Max);
  }
  return largest;
}

}  // namespace easydel::quantization
