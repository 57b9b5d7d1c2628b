#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <exception>
#include <mutex>
#include <thread>

#include "easydel/core/error.h"
#include "easydel/sharding/world/current_world.h"
#include "easydel/sharding/world/thread_backend.h"

namespace easydel {
namespace {

class ThreadWorld : public World {
 public:
  ThreadWorld(std::shared_ptr<ThreadWorldState> state, int64_t rank) : state_(std::move(state)), rank_(rank) {}

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return state_->size(); }
  std::string backend_name() const override { return "threads"; }

  std::shared_ptr<Group> group(const std::string& name, std::span<const int64_t> ranks) override {
    const int64_t member = member_index(*this, ranks);
    std::shared_ptr<Group>& group = groups_[{name, {ranks.begin(), ranks.end()}}];
    if (!group) {
      c10::intrusive_ptr<c10d::Backend> backend;
      if (ranks.size() > 1) backend = c10::make_intrusive<ThreadBackend>(state_->group(name, ranks), member);
      group = std::make_shared<Group>(name, std::move(backend), stats_);
    }
    return group;
  }

 private:
  const std::shared_ptr<ThreadWorldState> state_;
  const int64_t rank_;
  std::map<std::pair<std::string, std::vector<int64_t>>, std::shared_ptr<Group>> groups_;
};

// The first error of all ranks, prefixed with the rank. An error about another rank is replaced by that rank's own,
// whichever came first.
class FirstError {
 public:
  void keep(int64_t rank, std::exception_ptr error, ThreadWorldState& state) {
    const std::lock_guard lock(mutex_);
    if (error_ && (!is_about_others(error_) || is_about_others(error))) return;
    rank_ = rank;
    error_ = std::move(error);
    state.fail(concat("rank ", rank, " failed: ", text()));
  }

  void rethrow() const {
    if (!error_) return;
    const std::string message = concat("rank ", rank_, ": ", text());
    try {
      std::rethrow_exception(error_);
    } catch (const ConfigError&) {
      throw ConfigError(message);
    } catch (const UsageError&) {
      throw UsageError(message);
    } catch (const ShapeError&) {
      throw ShapeError(message);
    } catch (const IoError&) {
      throw IoError(message);
    } catch (const FormatError&) {
      throw FormatError(message);
    } catch (const NotSupportedError&) {
      throw NotSupportedError(message);
    } catch (...) {
      throw DistributedError(message);
    }
  }

 private:
  static bool is_about_others(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const DistributedError&) {
      return true;
    } catch (...) {
      return false;
    }
  }
  std::string text() const {
    try {
      std::rethrow_exception(error_);
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    } catch (const std::exception& error) {
      return error.what();
    } catch (...) {
      return "an error that is not a std::exception";
    }
  }

  std::mutex mutex_;
  int64_t rank_ = 0;
  std::exception_ptr error_;
};

}  // namespace

void run_ranks(int64_t count, const std::function<void(World&)>& body, const WorldOptions& options) {
  require<ConfigError>(count >= 1, "[run_ranks] there must be at least one rank; got ", count, ".");
  const auto state = std::make_shared<ThreadWorldState>(count, options);
  FirstError first_error;
  const int threads = at::get_num_threads();
  const bool gradients = c10::GradMode::is_enabled(), inference = c10::InferenceMode::is_enabled();
  const auto run = [&](int64_t rank) {
    at::set_num_threads(std::max<int>(1, threads / static_cast<int>(count)));
    const c10::InferenceMode inference_mode(inference);
    const c10::AutoGradMode grad_mode(gradients);
    const auto world = std::make_shared<ThreadWorld>(state, rank);
    const WorldScope current(world);
    try {
      body(*world);
      state->end(rank);
    } catch (...) {
      first_error.keep(rank, std::current_exception(), *state);
    }
  };
  std::vector<std::thread> ranks;
  for (int64_t rank = 0; rank < count; ++rank) ranks.emplace_back(run, rank);
  for (std::thread& thread : ranks) thread.join();
  at::set_num_threads(threads);  // new threads inherit the last setting
  first_error.rethrow();
}

}  // namespace easydel
