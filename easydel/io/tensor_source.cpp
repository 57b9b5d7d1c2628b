#include "easydel/io/tensor_source.h"

#include "easydel/core/error.h"
#include "easydel/core/files/large_pages.h"
#include "easydel/core/text/quoted.h"
#include "easydel/io/read_view.h"

namespace easydel {
namespace {

std::string join(at::IntArrayRef values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

}  // namespace

TensorSource::TensorSource(std::string where, std::vector<TensorInfo> infos) : where_(std::move(where)) {
  auto table = std::make_shared<Table>();
  table->infos = std::move(infos);
  table->index = NameIndex(table->infos, &TensorInfo::name);
  const auto repeated = table->index.find_repeated();
  require<FormatError>(!repeated, "[", where_, "] tensor names must be unique; got ", quoted(repeated.value_or("")),
                       " twice.");
  table_ = std::move(table);
}

std::vector<std::string> TensorSource::names() const {
  std::vector<std::string> names;
  names.reserve(infos().size());
  for (const TensorInfo& info : infos()) names.push_back(info.name);
  return names;
}

int64_t TensorSource::nbytes() const {
  int64_t total = 0;
  for (const TensorInfo& info : infos()) total += info.tied_to.empty() ? info.nbytes : 0;
  return total;
}

const TensorInfo* TensorSource::find(std::string_view name) const {
  const auto place = table_->index.find(name);
  return place ? &infos()[*place] : nullptr;
}

const TensorInfo& TensorSource::info(std::string_view name) const {
  if (const TensorInfo* info = find(name)) return *info;
  const std::string nearest = nearest_name(std::string(name), names());
  fail<FormatError>("[", where_, "] no tensor ", quoted(name), " among ", infos().size(), ".",
                    nearest.empty() ? "" : " Did you mean \"" + nearest + "\"?");
}

at::Tensor TensorSource::tensor(std::string_view name) const { return load(info(name)); }

at::Tensor TensorSource::slice(std::string_view name, at::IntArrayRef starts, at::IntArrayRef sizes) const {
  const TensorInfo& whole = info(name);
  bool inside = starts.size() == whole.shape.size() && sizes.size() == whole.shape.size();
  for (std::size_t d = 0; inside && d < whole.shape.size(); ++d) {
    inside = starts[d] >= 0 && sizes[d] >= 0 && starts[d] <= whole.shape[d] && sizes[d] <= whole.shape[d] - starts[d];
  }
  require<ShapeError>(inside, "[", where_, "] a slice of ", quoted(name), " must be inside its shape ",
                      join(whole.shape), "; got starts ", join(starts), " and sizes ", join(sizes), ".");
  return load_slice(whole, starts, sizes);
}

at::Tensor TensorSource::read(std::string_view name) const {
  const at::Tensor view = tensor(name);
  at::Tensor out = empty_in_large_pages(view.sizes(), view.options());
  copy(view, out);
  return out;
}

at::Tensor TensorSource::read_slice(std::string_view name, at::IntArrayRef starts, at::IntArrayRef sizes) const {
  const at::Tensor view = slice(name, starts, sizes);
  at::Tensor out = empty_in_large_pages(view.sizes(), view.options());
  copy(view, out);
  return out;
}

void TensorSource::copy(const at::Tensor& view, const at::Tensor& out) const {
  if (map()) {
    read_view(*map(), view, out);
  } else {
    out.copy_(view);
  }
}

at::Tensor TensorSource::load_slice(const TensorInfo& info, at::IntArrayRef starts, at::IntArrayRef sizes) const {
  at::Tensor part = load(info);
  for (std::size_t d = 0; d < sizes.size(); ++d) part = part.narrow(static_cast<int64_t>(d), starts[d], sizes[d]);
  return part;
}

}  // namespace easydel
