// Any rule on any mesh gives the loss and the gradients of one device. EASYDEL_DRAWS says how many problems are drawn,
// EASYDEL_SEED repeats one, EASYDEL_TEST_DEVICE=cuda runs them on a GPU. Under mpirun the ranks are its processes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>

#include "easydel/sharding/world/world.h"
#include "tests/support/one_answer.h"

namespace easydel {
namespace {

using testing_support::Problem;

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

void check(uint64_t seed) {
  const std::shared_ptr<World> process = World::current();
  const Problem problem = testing_support::draw_problem(seed, process->size() > 1 ? process->size() : 0);
  try {
    const testing_support::Answer expected = testing_support::answer_on_one_device(problem);
    std::mutex mutex;
    std::string wrong;
    const auto compare = [&](World& world) {
      const std::string found = testing_support::compare_on_mesh(problem, expected);
      const std::lock_guard lock(mutex);
      if (!found.empty()) wrong += "\nrank " + std::to_string(world.rank()) + ":" + found;
    };
    if (process->size() > 1) {
      compare(*process);
    } else {
      run_ranks(problem.mesh.size(), compare);
    }
    EXPECT_TRUE(wrong.empty()) << problem.to_string() << wrong << "\nEASYDEL_SEED=" << seed << " repeats it.";
  } catch (const std::exception& error) {
    ADD_FAILURE() << problem.to_string() << "\n" << error.what() << "\nEASYDEL_SEED=" << seed << " repeats it.";
  }
}

class OneAnswer : public testing::TestWithParam<uint64_t> {};

// Seeds part, part + 8, part + 16, …, so that ctest runs them side by side.
TEST_P(OneAnswer, OnAnyMeshByAnyRule) {
  if (const uint64_t seed = number_from("EASYDEL_SEED", 0); seed != 0) {
    if (GetParam() == 0) check(seed);
    return;
  }
  const uint64_t draws = number_from("EASYDEL_DRAWS", 400);
  for (uint64_t seed = 1 + GetParam(); seed <= draws && !HasFailure(); seed += 8) check(seed);
}

INSTANTIATE_TEST_SUITE_P(Draws, OneAnswer, testing::Range<uint64_t>(0, 8));

}  // namespace
}  // namespace easydel
