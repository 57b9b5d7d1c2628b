// What the options of JSON, progress bars, meshes and ranks do.
#include <gmock/gmock.h>

#include "easydel/core/json/json.h"
#include "easydel/core/progress/progress.h"
#include "easydel/sharding/mesh/mesh.h"
#include "easydel/sharding/world/world.h"
#include "tests/support/probe.h"

namespace easydel::core_probes {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::is_refused;
using testing_support::progress_of;
using testing_support::refusal;

PROBE(JsonParseOptions, where) {
  EXPECT_TRUE(is_refused("[run.json] line 1", [] { Json::parse("{", {.where = "run.json"}); }));
}

PROBE(JsonParseOptions, reject_duplicate_keys) {
  const char* text = R"({"a": 1, "a": 2})";
  EXPECT_EQ(Json::parse(text).at("a"), Json(2));
  EXPECT_TRUE(is_refused("\"a\"", [&] { Json::parse(text, {.reject_duplicate_keys = true}); }));
}

PROBE(JsonParseOptions, max_depth) {
  EXPECT_NO_THROW(Json::parse("[[[1]]]", {.max_depth = 3}));
  EXPECT_TRUE(is_refused("nested deeper than 2 levels", [] { Json::parse("[[[1]]]", {.max_depth = 2}); }));
}

std::string bar(const ProgressOptions& options) {
  return progress_of([&] { Progress("loading", options).advance(1024); });
}

PROBE(ProgressOptions, total) {
  EXPECT_THAT(bar({.total = 2048}), HasSubstr("50%"));
  EXPECT_THAT(bar({}), Not(HasSubstr("%")));
}

PROBE(ProgressOptions, unit) {
  EXPECT_THAT(bar({.total = 2048, .unit = "B"}), HasSubstr("KiB"));
  EXPECT_THAT(bar({.total = 2048, .unit = "steps"}), HasSubstr("steps/s"));
}

PROBE(ProgressOptions, enabled) {
  EXPECT_THAT(bar({}), HasSubstr("loading"));
  EXPECT_EQ(bar({.enabled = false}), "");
}

PROBE(MeshOptions, axis_dims) {
  const Mesh mesh = create_mesh({.axis_dims = {1, 2, 1, -1, 1}, .device_count = 8});
  EXPECT_EQ(mesh.size("fsdp"), 2);
  EXPECT_EQ(mesh.size("tp"), 4);
  EXPECT_EQ(create_mesh({.device_count = 8}).size("fsdp"), 8);
}

PROBE(MeshOptions, axis_names) {
  const Mesh mesh = create_mesh({.axis_dims = {2, 3}, .axis_names = {"rows", "columns"}, .device_count = 6});
  EXPECT_EQ(mesh.size("columns"), 3);
  EXPECT_FALSE(mesh.contains("fsdp"));
  EXPECT_TRUE(is_refused("axis_names", [] { create_mesh({.axis_dims = {6}, .axis_names = {}, .device_count = 6}); }));
}

PROBE(MeshOptions, dcn_axis_dims) {
  const Mesh mesh = create_mesh({.axis_dims = {1, 2, 1, 1, 1}, .dcn_axis_dims = {3, 1, 1, 1, 1}, .device_count = 6});
  EXPECT_EQ(mesh.size("dp"), 3);
  EXPECT_EQ(mesh.size("fsdp"), 2);
}

PROBE(MeshOptions, device_count) {
  EXPECT_EQ(create_mesh({.device_count = 4}).size(), 4);
  EXPECT_EQ(create_mesh({}).size(), 1);
}

// Rank 1 waits elsewhere and never comes to where rank 0 waits for it.
PROBE(WorldOptions, timeout) {
  const auto run = [](const WorldOptions& options) {
    return refusal([&] {
      run_ranks(2, [](World& world) { world.group(concat("of rank ", world.rank()), {{0, 1}})->barrier(); }, options);
    });
  };
  EXPECT_THAT(run({.timeout = std::chrono::milliseconds(200)}), HasSubstr("no result after 0.2 s"));
  EXPECT_THAT(run({.timeout = std::chrono::milliseconds(300)}), HasSubstr("no result after 0.3 s"));
}

}  // namespace
}  // namespace easydel::core_probes
