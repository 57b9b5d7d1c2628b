#include "easydel/infra/options/quantize_options.h"

#include "easydel/core/error.h"
#include "easydel/infra/fields/field_visitor.h"

namespace easydel {

void list_fields(QuantizeOptions& q, FieldVisitor& v) {
  v.only_when_changed();
  v("method", q.method, "8bit, nf4, int4 or a8q.", {"dtype", "quantization_method"});
  v("group_size", q.group_size, "Quantization group size: columns that share a scale; 0: the method's default.",
    {"block_size"});
  v("pattern", q.pattern,
    "Regular expression for the paths of layers to quantize; empty: all linear layers except heads.",
    {"quantization_pattern"});
  v("double_quant", q.double_quant, "Also quantize the scales of nf4.");
  v("bit_targeted_params", q.bit_targeted_params, "Kinds of weights: kernel, embedding; empty: kernel.");
}

void read_mapping(QuantizeOptions& options, const Json& mapping,
                  const std::function<std::string(std::string_view)>& where) {
  const FieldList fields = [&](FieldVisitor& v) { list_fields(options, v); };
  const std::vector<FieldValue> known = collect_fields(fields);
  for (const auto& [key, value] : mapping.as_object()) {
    const bool asks = !value.is_null() && value != Json(false);
    require<ConfigError>(find_field(known, key) || !asks, where(key),
                         " is not supported; known: dtype, group_size, pattern, double_quant, bit_targeted_params.");
  }
  read_fields(fields, mapping, where);
  if (options.method == "int8") options.method = "8bit";
  require<ConfigError>(options.group_size >= 0, where("group_size"), " must not be negative; got ", options.group_size,
                       ".");
}

}  // namespace easydel
