// A model taken apart: its definition, and the tensors that a definition needs to be a model again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "easydel/core/dtype.h"
#include "easydel/core/random.h"
#include "easydel/infra/task_type.h"
#include "easydel/layers/tensor_map.h"

namespace easydel {

struct BaseConfig;
class BaseModule;
struct Companions;
class Parallel;
class WeightSharding;

using GraphState = TensorMap;  // parameters by path
// Buffers by path: what no gradient reaches. Those of a user's own modules (Module::add_buffer); the families of this
// library compute such tables anew and have none.
using GraphOther = TensorMap;

// How numbers of one kind are multiplied in float32: JAX's words for torch's float32 matmul precision.
enum class Precision : uint8_t {
  Unset,    // as the process has it
  Default,  // "default", "fastest": bf16 inside where the device has it
  High,     // "high": TF32
  Highest,  // "highest": plain float32
};
Precision parse_precision(std::string_view name);

// What a module is made with beside its config.
struct ModuleOptions {
  DType dtype = float32;        // what it computes in
  DType param_dtype = float32;  // what it stores
  Precision precision = Precision::Unset;
  RandomKey rngs = RandomKey(0);  // the same key gives the same weights on any mesh
  at::Device device = at::kCPU;
};

struct ShapeDtype {
  std::vector<int64_t> shape;
  DType dtype;
};

struct ParameterInfo {
  std::string path;
  ShapeDtype shape;                                     // of the whole
  std::shared_ptr<const WeightSharding> sharding = {};  // null: one device
};

// A change of a model's tree that a rebuilt model goes through too: adapters, packed weights. It may find the
// parameters with memory or without: what it puts in is declared, and filled where there is something to fill it from.
class ModuleTransform {
 public:
  virtual ~ModuleTransform() = default;
  virtual void apply(BaseModule& module) const = 0;
};

// Immutable and cheap to copy: the class (by model type and task), the config, and the table of parameters.
struct GraphDef {
  std::shared_ptr<const BaseConfig> config;
  TaskType task = TaskType::BaseModule;
  ModuleOptions options;
  std::shared_ptr<const std::vector<ParameterInfo>> parameters;
  std::shared_ptr<const Parallel> parallel = {};                        // null: one device
  std::vector<std::shared_ptr<const ModuleTransform>> transforms = {};  // in the order in which they were applied
  std::shared_ptr<const Companions> companions = {};                    // null: there is nothing beside the model
};

}  // namespace easydel
