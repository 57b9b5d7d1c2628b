#include "easydel/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <set>
#include <stop_token>
#include <thread>

#include "easydel/core/error.h"
#include "easydel/data/sources/data_changes.h"

namespace easydel::data {
namespace {

struct Item {
  Example example;
  StreamState after;
  std::exception_ptr error;
};

struct Slot {
  int64_t number = 0;
  std::optional<Stream> stream;
  StreamState taken;  // after what the caller consumed
  std::deque<Item> ready;
  bool busy = false, failed = false;
};

Item make_item(Stream& stream) {
  Item item;
  try {
    item.example = stream.next();
    item.after = stream.state();
  } catch (...) {
    item.error = std::current_exception();
  }
  return item;
}

}  // namespace

struct Loader::Impl {
  std::shared_ptr<const Dataset> dataset;
  Transform transform;
  LoaderOptions options;
  std::vector<Slot> slots;
  int64_t step = 0;

  mutable std::mutex mutex;
  std::condition_variable_any has_room, has_item;
  std::vector<std::jthread> threads;

  bool is_prefetching() const { return options.prefetch > 0 && options.workers > 0; }

  void start() {
    std::shared_ptr<PackedBlocks> blocks;
    if (options.pack.in_blocks()) {
      const int64_t ahead = options.streams * (options.prefetch + 2);
      blocks = std::make_shared<PackedBlocks>(dataset, transform, options.pack, ahead);
    }
    for (Slot& slot : slots) {
      slot.stream.emplace(dataset, transform, options.pack, slot.number, options.streams, slot.taken, blocks);
      slot.ready.clear();
      slot.busy = slot.failed = false;
    }
    if (!is_prefetching()) return;
    const auto count = std::min<int64_t>(options.workers, static_cast<int64_t>(slots.size()));
    for (int64_t i = 0; i < count; ++i) threads.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }

  void stop() {
    for (std::jthread& thread : threads) thread.request_stop();
    threads.clear();  // joins
  }

  // The stream with the fewest examples ready, so that steps complete in order.
  Slot* find_work() {
    Slot* best = nullptr;
    for (Slot& slot : slots) {
      if (slot.busy || slot.failed || static_cast<int64_t>(slot.ready.size()) >= options.prefetch) continue;
      if (!best || slot.ready.size() < best->ready.size()) best = &slot;
    }
    return best;
  }

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    for (;;) {
      Slot* slot = nullptr;
      if (!has_room.wait(lock, stop, [&] { return (slot = find_work()) != nullptr; }) || stop.stop_requested()) return;
      slot->busy = true;
      lock.unlock();
      Item item = make_item(*slot->stream);
      lock.lock();
      slot->failed = item.error != nullptr;
      slot->ready.push_back(std::move(item));
      slot->busy = false;
      has_item.notify_all();
    }
  }

  std::vector<Example> next() {
    std::unique_lock lock(mutex);
    if (!is_prefetching()) {
      for (Slot& slot : slots) {
        if (slot.ready.empty()) slot.ready.push_back(make_item(*slot.stream));
      }
    }
    has_item.wait(
        lock, [&] { return std::none_of(slots.begin(), slots.end(), [](const Slot& s) { return s.ready.empty(); }); });
    for (const Slot& slot : slots) {
      if (slot.ready.front().error) std::rethrow_exception(slot.ready.front().error);
    }
    std::vector<Example> out;
    for (Slot& slot : slots) {
      slot.taken = slot.ready.front().after;
      out.push_back(std::move(slot.ready.front().example));
      slot.ready.pop_front();
    }
    ++step;
    has_room.notify_all();
    return out;
  }

  // Options that must match for a state to be restored.
  Json setting() const {
    return Json::object({{"streams", options.streams},
                         {"max_length", options.pack.max_length},
                         {"packing", options.pack.sorts            ? "none, by length"
                                     : options.pack.max_length > 0 ? pack_strategy_name(options.pack.strategy)
                                                                   : "none"},
                         {"documents_packed_together", options.pack.in_blocks() ? options.pack.documents : 0},
                         {"dataset", dataset->fingerprint()}});
  }
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, Transform transform, LoaderOptions options)
    : impl_(std::make_unique<Impl>()) {
  require<ConfigError>(options.streams > 0, "[Loader] streams must be above 0; got ", options.streams, ".");
  require<ConfigError>(options.prefetch >= 0 && options.workers >= 0,
                       "[Loader] prefetch and workers must be 0 or more; got ", options.prefetch, " and ",
                       options.workers, ".");
  require<ConfigError>(!options.pack.sorts || options.pack.max_length == 0,
                       "[Loader] sorts must be false if rows are packed; got max_length ", options.pack.max_length,
                       ".");
  require<ConfigError>(options.pack.max_length >= 0, "[Loader] max_length must be 0 or more; got ",
                       options.pack.max_length, ".");
  if (options.own.empty()) {
    for (int64_t s = 0; s < options.streams; ++s) options.own.push_back(s);
  }
  std::set<int64_t> seen;
  for (const int64_t s : options.own) {
    require<ConfigError>(s >= 0 && s < options.streams && seen.insert(s).second,
                         "[Loader] own must name streams from 0 to ", options.streams - 1, ", each once; got ", s, ".");
  }
  impl_->dataset = std::move(dataset);
  impl_->transform = std::move(transform);
  impl_->options = std::move(options);
  impl_->slots = std::vector<Slot>(impl_->options.own.size());
  for (std::size_t i = 0; i < impl_->slots.size(); ++i) {
    impl_->slots[i].number = impl_->options.own[i];
    impl_->slots[i].taken = first_state(impl_->options.pack, impl_->options.own[i]);
  }
  impl_->start();
}

Loader::~Loader() { impl_->stop(); }

std::vector<Example> Loader::next() { return impl_->next(); }

int64_t Loader::step() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->step;
}

int64_t Loader::examples_of_epoch() const { return impl_->dataset->epoch_size(); }

Json Loader::state() const {
  const std::lock_guard lock(impl_->mutex);
  Json positions = Json::object();
  for (const Slot& slot : impl_->slots) {
    positions[std::to_string(slot.number)] = Json::array({slot.taken.documents, slot.taken.offset});
  }
  return Json::object({{"step", impl_->step}, {"setting", impl_->setting()}, {"positions", positions}});
}

void Loader::restore(const Json& state) {
  const Json& setting = state.at("setting");
  const Json ours = impl_->setting();
  if (const Json* before = setting.find("dataset")) {
    std::string changed;
    for (const std::string& change : data_changes(*before, ours.at("dataset")))
      changed += (changed.empty() ? "" : "; ") + change;
    require<ConfigError>(changed.empty(), "[Loader] the data changed, so the run cannot be resumed: ", changed, ".");
  }
  for (const auto& [name, value] : ours.as_object()) {
    if (name == "dataset") continue;
    const Json* found = setting.find(name);
    require<ConfigError>(found && *found == value, "[Loader] the state was saved with ", name, " ",
                         found ? found->dump() : "unknown", "; this loader has ", value.dump(), ".");
  }
  const Json& positions = state.at("positions");
  std::vector<StreamState> taken;
  for (const Slot& slot : impl_->slots) {
    const Json* entry = positions.find(std::to_string(slot.number));
    require<ConfigError>(entry && entry->is_array() && entry->size() == 2,
                         "[Loader] the state has no entry for stream ", slot.number,
                         ". Merge the states of all loaders with merge_states.");
    taken.push_back({entry->at(std::size_t{0}).as_int(), entry->at(std::size_t{1}).as_int()});
    require<ConfigError>(taken.back().documents >= 0 && taken.back().offset >= 0,
                         "[Loader] the state has a negative position for stream ", slot.number, ".");
  }
  impl_->stop();
  impl_->step = state.at("step").as_int();
  for (std::size_t i = 0; i < taken.size(); ++i) impl_->slots[i].taken = taken[i];
  impl_->start();
}

Json merge_states(const std::vector<Json>& states) {
  require<ConfigError>(!states.empty(), "[merge_states] needs at least one state; got none.");
  Json all = states[0];
  for (const Json& state : states) {
    require<ConfigError>(state.at("setting") == all.at("setting") && state.at("step") == all.at("step"),
                         "[merge_states] the states must be of the same data set at the same step; got steps ",
                         all.at("step").dump(), " and ", state.at("step").dump(), ".");
    for (const auto& [number, place] : state.at("positions").as_object()) all["positions"][number] = place;
  }
  return all;
}

}  // namespace easydel::data
