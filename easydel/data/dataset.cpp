#include "easydel/data/dataset.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "easydel/core/error.h"
#include "easydel/data/open_dataset.h"
#include "easydel/data/order/permutation.h"
#include "easydel/io/hub/hash.h"

namespace easydel::data {
namespace {

bool stops_at_first(const MixtureOptions& options) {
  const std::string& how = options.stop_strategy;
  const bool first = how == "first_exhausted";
  require<ConfigError>(first || how == "restart" || how == "longest" || how == "all_exhausted",
                       "[stop_strategy] must be restart, first_exhausted, longest or all_exhausted; got \"", how,
                       "\".");
  return first || !options.block_mixture;
}

std::vector<double> weights_of(const MixtureOptions& options, const std::vector<std::string>& names) {
  std::vector<double> weights;
  const auto& given = options.mixture_weights;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = given.find(names[i]);
    require<ConfigError>(given.empty() || found != given.end(), "[mixture_weights] must name every data set; \"",
                         names[i], "\" is missing.");
    const double own = i < options.informs.size() ? options.informs[i].weight.value_or(1.0) : 1.0;
    weights.push_back(given.empty() ? own : found->second);
  }
  for (const auto& [name, weight] : given) {
    const bool known = std::find(names.begin(), names.end(), name) != names.end();
    require<ConfigError>(
        known, "[mixture_weights] unknown data set \"", name, "\".",
        nearest_name(name, names).empty() ? "" : concat(" Did you mean \"", nearest_name(name, names), "\"?"));
  }
  return weights;
}

// A digest of some rows: sampled evenly with random access, else the first ones; of none if that means reading twice.
std::string digest(const Source& source) {
  if (source.access() == Access::InOrder) return "";
  constexpr int64_t kRows = 256;
  const int64_t size = source.size(), count = std::min(size, kRows);
  Sha256 hash;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = source.access() == Access::Random && count > 1 ? (size - 1) * i / (count - 1) : i;
    try {
      hash.update(source.row(index).dump());
    } catch (const Error& error) {  // reported when training reaches that row
      hash.update(error.what());
    }
  }
  return hash.hex().substr(0, 16);
}

// A dataset_name that is a file or a directory here is one of data_files.
void locate(DatasetOptions& options) {
  std::error_code ignored;
  if (options.dataset_name.empty()) return;
  if (std::filesystem::exists(options.dataset_name, ignored)) {
    options.data_files.insert(options.data_files.begin(), options.dataset_name);
  } else if (options.type.empty()) {
    options.type = options.dataset_name;
  }
}

}  // namespace

std::shared_ptr<const Dataset> Dataset::open(const MixtureOptions& given) {
  MixtureOptions options = given;
  for (DatasetOptions& inform : options.informs) locate(inform);
  std::vector<SourcePtr> sources;
  for (const DatasetOptions& inform : options.informs) sources.push_back(open_dataset(inform, options));
  return std::make_shared<const Dataset>(std::move(sources), options);
}

Dataset::Dataset(std::vector<SourcePtr> sources, const MixtureOptions& options)
    : sources_(std::move(sources)), seed_(options.seed) {
  MixtureOrderOptions order{.block_size = options.mixture_block_size,
                            .seed = options.seed,
                            .stop_at_first = stops_at_first(options),
                            .round_robin = !options.block_mixture};
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    names_.push_back(i < options.informs.size() ? name_of(options.informs[i]) : concat("data set ", i + 1));
    const std::size_t files = i < options.informs.size() ? options.informs[i].data_files.size() : 0;
    labels_.push_back(files > 1 ? concat(names_.back(), " and ", files - 1, " more") : names_.back());
    order.sizes.push_back(sources_[i]->size());
  }
  order.weights = weights_of(options, names_);
  order_ = std::make_unique<const MixtureOrder>(std::move(order), names_);
  all_ = concatenate(sources_);
  if (!options.shuffle_buffer_size) return;
  window_ = *options.shuffle_buffer_size;
  require<ConfigError>(window_ > 0, "[shuffle_buffer_size] must be above 0, or none for no shuffling; got ", window_,
                       ".");
  for (const SourcePtr& source : sources_) source->keep_rows(2 * window_);
}

int64_t Dataset::shuffled(std::size_t dataset, int64_t epoch, int64_t index) const {
  const int64_t size = sources_[dataset]->size();
  const Access access = sources_[dataset]->access();
  if (window_ == 0) return index;
  const uint64_t key = make_key(seed_, "shuffle", dataset, static_cast<uint64_t>(epoch));
  if (access == Access::Random || window_ >= size) return Permutation(size, key)(index);
  // Rows are shuffled within a window only. Windows are shuffled with random access; a short one stays last.
  int64_t window = index / window_;
  const int64_t whole_windows = size / window_;
  if (access == Access::Grouped && window < whole_windows) {
    window = Permutation(whole_windows, make_key(key, "windows", dataset, 0))(window);
  }
  const int64_t begin = window * window_;
  const int64_t length = std::min(window_, size - begin);
  return begin + Permutation(length, make_key(key, "inside", dataset, static_cast<uint64_t>(window)))(index % window_);
}

Row Dataset::at(int64_t position) const {
  const auto place = order_->at(position);
  const Source& source = *sources_[place.dataset];
  const int64_t index = shuffled(place.dataset, place.epoch, place.index);
  return {source.row(index), &source, index};
}

Json Dataset::fingerprint() const {
  const std::lock_guard lock(mutex_);
  if (!fingerprint_.is_null()) return fingerprint_;
  Json sizes = Json::array(), digests = Json::array();
  for (const SourcePtr& source : sources_) {
    sizes.push_back(source->size());
    digests.push_back(digest(*source));
  }
  fingerprint_ = Json::object({{"seed", static_cast<int64_t>(seed_)},
                               {"names", labels_},
                               {"rows", sizes},
                               {"digests", digests},
                               {"rows_in_block", order_->counts()},
                               {"epoch_size", epoch_size()},
                               {"shuffle_buffer_size", window_}});
  return fingerprint_;
}

}  // namespace easydel::data
