#include "easydel/generation/stopping.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/dtype.h"
#include "easydel/core/error.h"
#include "easydel/infra/config/config_io.h"

namespace easydel {

at::Tensor ask(StoppingCriteria& criterion, const at::Tensor& ids, const at::Tensor& scores) {
  at::Tensor done = criterion(ids, scores);
  const bool fits = done.defined() && done.scalar_type() == at::kBool && done.sizes() == ids.sizes().slice(0, 1);
  require<ShapeError>(fits, "[generate] ", short_type_name(typeid(criterion)), " must return bool of [", ids.size(0),
                      "]; got ", done.defined() ? dtype_name(done.scalar_type()) : "nothing", " of ",
                      done.defined() ? done.sizes() : at::IntArrayRef(), ".");
  return done.to(ids.device());
}

EosTokenCriteria::EosTokenCriteria(const TokenIds& eos_token_id) : eos_(at::tensor(eos_token_id.values(), at::kLong)) {}

at::Tensor EosTokenCriteria::operator()(const at::Tensor& ids, const at::Tensor&) {
  if (eos_.device() != ids.device()) eos_ = eos_.to(ids.device());
  return ids.select(1, ids.size(1) - 1).unsqueeze(-1).eq(eos_).any(-1);
}

StopStringCriteria::StopStringCriteria(std::vector<std::string> strings, DecodeFunction decode)
    : strings_(std::move(strings)), decode_(std::move(decode)) {
  require<ConfigError>(decode_ != nullptr,
                       "[generate] stop_strings need the model's tokenizer: set GenerateOptions::decode.");
  for (const std::string& text : strings_) longest_ = std::max(longest_, text.size());
}

bool StopStringCriteria::matches(std::span<const int32_t> ids) const {
  if (ids.empty()) return false;
  // Most tokens have at least a byte. A decoder may strip the first token's space or have broken UTF-8 there, so some
  // more are taken; where tokens have no text at all, more again.
  constexpr std::size_t kSlack = 8;
  std::string text;
  std::size_t count = std::min(ids.size(), longest_ + kSlack);
  for (;;) {
    text = decode_(ids.last(count));
    if (count == ids.size() || text.size() >= longest_ + kSlack) break;
    count = std::min(ids.size(), 2 * count);
  }
  const std::string before = decode_(ids.last(count).first(count - 1));
  const auto same = std::mismatch(before.begin(), before.end(), text.begin(), text.end()).first - before.begin();
  const auto border = static_cast<std::size_t>(same);
  for (const std::string& stop : strings_) {
    // The first place at which a match would reach over the border.
    const std::size_t from = border + 1 > stop.size() ? border + 1 - stop.size() : 0;
    if (text.find(stop, from) != std::string::npos) return true;
  }
  return false;
}

at::Tensor StopStringCriteria::operator()(const at::Tensor& ids, const at::Tensor&) {
  const at::Tensor host = ids.to(at::kCPU, at::kInt).contiguous();
  const at::Tensor done = at::zeros({ids.size(0)}, at::kBool);
  const auto length = static_cast<std::size_t>(ids.size(1));
  for (int64_t row = 0; row < ids.size(0); ++row) {
    const std::span<const int32_t> tokens(host.const_data_ptr<int32_t>() + row * ids.size(1), length);
    done.mutable_data_ptr<bool>()[row] = matches(tokens);
  }
  return done.to(ids.device());
}

}  // namespace easydel
