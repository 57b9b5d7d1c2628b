// Creates a mesh from sharding_axis_dims and a number of devices, or explains why they do not match.
#include <algorithm>
#include <set>

#include "easydel/core/error.h"
#include "easydel/sharding/mesh/mesh.h"

namespace easydel {
namespace {

std::string product_text(const std::vector<int64_t>& dims) {
  std::string text;
  for (const int64_t dim : dims) text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
}

int64_t product(const std::vector<int64_t>& dims) {
  int64_t result = 1;
  for (const int64_t dim : dims) {
    if (dim == -1) continue;
    require<ConfigError>(!__builtin_mul_overflow(result, dim, &result),
                         "[create_mesh] a mesh must have fewer than 2^63 devices; got ", product_text(dims), ".");
  }
  return result;
}

// The position of `ep` when only the older four axes are given, or -1.
std::ptrdiff_t missing_expert_axis(const MeshOptions& options) {
  static const std::vector<std::string> five = {"dp", "fsdp", "ep", "tp", "sp"};
  static const std::vector<std::string> four = {"dp", "fsdp", "tp", "sp"};
  return options.axis_dims.size() == 4 && (options.axis_names == five || options.axis_names == four) ? 2 : -1;
}

}  // namespace

MeshOptions normalize(MeshOptions options) {
  if (const auto at = missing_expert_axis(options); at >= 0) {
    options.axis_names = MeshOptions{}.axis_names;
    options.axis_dims.insert(options.axis_dims.begin() + at, 1);
    if (options.dcn_axis_dims.size() == 4) options.dcn_axis_dims.insert(options.dcn_axis_dims.begin() + at, 1);
  }
  const auto& [dims, names, dcn, device_count] = options;
  require<ConfigError>(dims.size() == names.size(),
                       "[create_mesh] sharding_axis_dims and sharding_axis_names must have the same length; got ",
                       dims.size(), " (", product_text(dims), ") and ", names.size(), ".");
  require<ConfigError>(dcn.empty() || dcn.size() == dims.size(),
                       "[create_mesh] sharding_dcn_axis_dims and sharding_axis_dims must have the same length; got ",
                       dcn.size(), " (", product_text(dcn), ") and ", dims.size(), ".");
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    require<ConfigError>(!name.empty() && seen.insert(name).second,
                         "[create_mesh] sharding_axis_names must be unique and not empty; got \"", name, "\".");
  }
  for (const int64_t dim : dims) {
    require<ConfigError>(dim >= 1 || dim == -1,
                         "[create_mesh] each of sharding_axis_dims must be at least 1, or -1; got ", dim, " in ",
                         product_text(dims), ".");
  }
  require<ConfigError>(std::count(dims.begin(), dims.end(), -1) <= 1,
                       "[create_mesh] only one of sharding_axis_dims may be -1; got ", product_text(dims), ".");
  for (const int64_t dim : dcn) {
    require<ConfigError>(dim >= 1, "[create_mesh] each of sharding_dcn_axis_dims must be at least 1; got ", dim, " in ",
                         product_text(dcn), ".");
  }
  product(dims);
  product(dcn);
  return options;
}

Mesh create_mesh(const MeshOptions& given) {
  require<ConfigError>(given.device_count >= 1, "[create_mesh] there must be at least one device; got ",
                       given.device_count, ".");
  const MeshOptions options = normalize(given);
  const auto& [dims, names, dcn, devices] = options;
  const int64_t parts = product(dcn);
  const std::string over_parts =
      parts == 1 ? "" : concat(" in each of ", product_text(dcn), " = ", parts, " DCN slices");
  const auto open = std::find(dims.begin(), dims.end(), -1);
  const int64_t known = product(dims);
  int64_t needed = 0;
  const bool too_many = __builtin_mul_overflow(known, parts, &needed);
  if (open == dims.end()) {
    require<ConfigError>(
        !too_many && needed == devices, "[create_mesh] sharding_axis_dims must multiply to the number of devices; got ",
        product_text(dims), " = ", known, over_parts, devices == 1 ? ", but there is " : ", but there are ", devices,
        devices == 1 ? " device." : " devices.");
  } else {
    require<ConfigError>(!too_many && devices % needed == 0,
                         "[create_mesh] the -1 in sharding_axis_dims must resolve to an integer; got ",
                         product_text(dims), over_parts, ", and ", devices, " devices are not a multiple of ", needed,
                         ".");
  }
  std::vector<MeshAxis> axes;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const int64_t inner = dims[i] == -1 ? devices / needed : dims[i];
    const int64_t outer = dcn.empty() ? 1 : dcn[i];
    axes.push_back({names[i], inner * outer, outer});
  }
  return Mesh(std::move(axes));
}

}  // namespace easydel
