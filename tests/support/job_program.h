// The main function of a test program that runs a job: PROGRAM JOB.json, on one device, or on thread ranks if the job
// has a mesh (axis sizes).
#pragma once

#include <exception>
#include <functional>
#include <iostream>
#include <optional>
#include <vector>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/sharding/world/world.h"

namespace easydel::testing_support {

// `is_first` on the rank that writes and prints.
inline int run_job(int argc, char** argv, const char* name,
                   const std::function<void(const Json& job, const std::optional<Mesh>& mesh, bool is_first)>& run) {
  try {
    require<UsageError>(argc == 2, "usage: ", name, " JOB.json");
    const Json job = Json::parse_file(argv[1]);
    const Json* axes = job.find("mesh");
    if (!axes || axes->is_null()) {
      run(job, std::nullopt, true);
      return 0;
    }
    std::vector<int64_t> axis_dims;
    int64_t devices = 1;
    for (const Json& axis : axes->as_array()) {
      axis_dims.push_back(axis.as_int());
      devices *= axis.as_int();
    }
    const Mesh mesh = create_mesh({.axis_dims = axis_dims, .device_count = devices});
    run_ranks(mesh.size(), [&](World& world) { run(job, mesh, world.rank() == 0); });
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}

}  // namespace easydel::testing_support
