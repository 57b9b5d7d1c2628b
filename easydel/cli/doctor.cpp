// easydel doctor: what this machine and this build can do, and how to get what is missing.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <thread>

#include "easydel/cli/commands.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/core/build_info.h"
#include "easydel/core/cpu.h"
#include "easydel/core/error.h"
#include "easydel/core/runtime.h"
#include "easydel/core/text/bytes.h"
#include "easydel/sharding/world/process_world.h"

#if EASYDEL_HAS_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#endif

namespace easydel::cli {
namespace {

// The value of a "key : value" line in a /proc file.
std::string proc_value(const char* path, std::string_view key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const auto start = line.find_first_not_of(": \t", line.find(':'));
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

int64_t meminfo_bytes(std::string_view key) {
  std::istringstream in(proc_value("/proc/meminfo", key));
  int64_t kib = 0;
  in >> kib;
  return kib * 1024;
}

Json cpu_features() {
  const std::string flags = " " + proc_value("/proc/cpuinfo", "flags") + " ";
  Json found = Json::array();
  for (const char* name : {"avx2", "fma", "f16c", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16"}) {
    if (flags.find(concat(" ", name, " ")) != std::string::npos) found.push_back(name);
  }
  return found;
}

Json cpu_kind_names() {
  Json names = Json::array();
  for (const CpuKind kind : cpu_kinds()) names.push_back(to_string(kind));
  return names;
}

Json machine_report() {
  return Json::object({{"cpu", proc_value("/proc/cpuinfo", "model name")},
                       {"cores", static_cast<int64_t>(std::thread::hardware_concurrency())},
                       {"cpu_features", cpu_features()},
                       {"cpu_kinds", cpu_kind_names()},
                       {"cpu_kind", to_string(cpu_kind())},
                       {"memory_bytes", meminfo_bytes("MemTotal")},
                       {"memory_available_bytes", meminfo_bytes("MemAvailable")},
                       {"amx_hidden", amx_is_advertised_but_unusable()}});
}

Json device_report() {
  Json devices = Json::array();
#if EASYDEL_HAS_CUDA
  for (int i = 0; i < c10::cuda::device_count(); ++i) {
    const cudaDeviceProp* properties = at::cuda::getDeviceProperties(i);
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(i));
    std::size_t free = 0;
    std::size_t total = 0;
    const bool known = cudaMemGetInfo(&free, &total) == cudaSuccess;
    devices.push_back(Json::object({{"name", std::string(properties->name)},
                                    {"device", concat("cuda:", i)},
                                    {"compute_capability", concat(properties->major, ".", properties->minor)},
                                    {"multiprocessors", properties->multiProcessorCount},
                                    {"memory_bytes", static_cast<int64_t>(properties->totalGlobalMem)},
                                    {"memory_free_bytes", known ? Json(static_cast<int64_t>(free)) : Json()}}));
  }
#endif
  return devices;
}

// The kinds of ranks that this build supports, and how to launch them.
Json rank_report() {
  Json backends = Json::array();
  const auto add = [&](const char* name, const char* start) {
    backends.push_back(Json::object({{"name", name}, {"start", start}}));
  };
  add("threads", "--devices");
  if (has_mpi()) add("mpi", "mpirun, srun --mpi=pmix");
  if (has_nccl()) add("nccl", "torchrun, mpirun, srun");
  return backends;
}

// A bf16 product is the first thing to fail if the CPU misreports its features.
bool bf16_product_works() {
  const at::Tensor ones = at::ones({64, 64}, at::kBFloat16);
  return at::equal(at::mm(ones, ones), at::full({64, 64}, 64, at::kBFloat16));
}

Json report() {
  Json features = Json::array();
  for (const Feature& f : build_features()) {
    features.push_back(Json::object({{"name", f.name}, {"present", f.present}, {"purpose", f.purpose}}));
    if (!f.present) features.as_array().back()["how_to_add"] = f.how_to_add;
  }
  const char* isa = std::getenv("ONEDNN_MAX_CPU_ISA");
  return Json::object(
      {{"easydel", EASYDEL_VERSION},
       {"torch", EASYDEL_TORCH_VERSION},
       {"compiler", EASYDEL_COMPILER},
       {"build_type", EASYDEL_BUILD_TYPE},
       {"machine", machine_report()},
       {"threads", Json::object({{"intra_op", at::get_num_threads()}, {"inter_op", at::get_num_interop_threads()}})},
       {"onednn_max_cpu_isa", isa ? Json(isa) : Json()},
       {"bf16_product", bf16_product_works()},
       {"devices", device_report()},
       {"ranks", rank_report()},
       {"features", std::move(features)}});
}

std::string join(const Json& words) {
  std::string out;
  for (const Json& word : words.as_array()) out += concat(out.empty() ? "" : " ", word.as_string());
  return out.empty() ? "none" : out;
}

void print_report(const Json& report) {
  const Json& machine = report.at("machine");
  const Json& threads = report.at("threads");
  const Json& isa = report.at("onednn_max_cpu_isa");
  std::vector<std::vector<std::string>> rows{
      {"easydel", concat(report.at("easydel").as_string(), ", torch ", report.at("torch").as_string(), ", ",
                         report.at("compiler").as_string(), ", ", report.at("build_type").as_string())},
      {"cpu", concat(machine.at("cpu").as_string(), ", ", machine.at("cores").as_int(), " cores, ",
                     join(machine.at("cpu_features")))},
      {"kernels", concat(machine.at("cpu_kind").as_string(), "; --cpu or EASYDEL_CPU selects one of ",
                         join(machine.at("cpu_kinds")))},
      {"memory", concat(format_bytes(machine.at("memory_available_bytes").as_int()), " free of ",
                        format_bytes(machine.at("memory_bytes").as_int()))},
      {"threads", concat(threads.at("intra_op").as_int(), " intra-op (OMP_NUM_THREADS), ",
                         threads.at("inter_op").as_int(), " inter-op")},
      {"bf16",
       report.at("bf16_product").as_bool() ? "matrix product is correct" : "MATRIX PRODUCT IS WRONG on this machine"}};
  if (machine.at("amx_hidden").as_bool()) {
    rows.push_back({"amx", concat("advertised but hidden by the hypervisor; oneDNN is limited to ",
                                  isa.is_null() ? "" : isa.as_string())});
  }
  for (const Json& device : report.at("devices").as_array()) {
    const Json& free = device.at("memory_free_bytes");
    rows.push_back({device.at("device").as_string(),
                    concat(device.at("name").as_string(), ", compute ", device.at("compute_capability").as_string(),
                           ", ", free.is_null() ? "" : format_bytes(free.as_int()) + " free of ",
                           format_bytes(device.at("memory_bytes").as_int()))});
  }
  if (report.at("devices").size() == 0) rows.push_back({"gpu", "none"});
  std::string ranks;
  for (const Json& backend : report.at("ranks").as_array()) {
    ranks +=
        concat(ranks.empty() ? "" : "; ", backend.at("name").as_string(), " (", backend.at("start").as_string(), ")");
  }
  rows.push_back({"ranks", ranks});
  for (const Json& feature : report.at("features").as_array()) {
    rows.push_back({feature.at("name").as_string(),
                    feature.at("present").as_bool() ? concat("yes (", feature.at("purpose").as_string(), ")")
                                                    : concat("no  (", feature.at("purpose").as_string(),
                                                             "); to add it: ", feature.at("how_to_add").as_string())});
  }
  print_table(rows);
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("doctor", "Show what this machine and this build support, and which features are missing");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->callback([json] {
    const Json found = report();
    *json ? print_json(found) : print_report(found);
    require<Error>(found.at("bf16_product").as_bool(),
                   "[doctor] a bf16 matrix product gives a wrong result on this machine.");
  });
}

}  // namespace easydel::cli
