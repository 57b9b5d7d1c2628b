// The formats that published files keep packed weights in: quantization_config.quant_method says which. A format is one
// file of this folder and one line in format.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/core/text/quoted.h"
#include "easydel/io/tensor_source.h"
#include "easydel/quantization/method.h"

namespace easydel::quantization {

// The tensors of files, as formats look at them.
class FormatFiles {
 public:
  explicit FormatFiles(std::shared_ptr<const TensorSource> files) : files_(std::move(files)) {}

  const std::string& where() const { return files_->where(); }
  const std::vector<TensorInfo>& infos() const { return files_->infos(); }
  const TensorInfo* find(const std::string& name) const { return files_->find(name); }  // null when absent
  bool contains(const std::string& name) const { return files_->contains(name); }
  const TensorInfo& info(const std::string& name) const;  // FormatError when absent
  // Copied past the map of the file, whose pages would stay in memory.
  at::Tensor read(const std::string& name) const { return files_->read(name); }
  at::Tensor floats(const std::string& name) const;          // float32
  std::vector<int64_t> ints(const std::string& name) const;  // of a small tensor of integers

  // FormatError that names the file and the tensor.
  template <class... Parts>
  void check(bool condition, const std::string& name, const Parts&... parts) const {
    require<FormatError>(condition, "[", where(), "] ", quoted(name), " ", parts...);
  }

 private:
  std::shared_ptr<const TensorSource> files_;
};

// A weight that a format keeps as several tensors.
struct DecodedWeight {
  std::vector<int64_t> shape;
  std::string place;                  // the tensor whose place in the files it takes
  std::function<at::Tensor()> dense;  // float32
  // The method that has this layout, and the parts in its terms; of a stack of experts, stacked. Empty: none has.
  std::function<std::shared_ptr<const Method>()> method = {};  // may give null; may read scales
  std::function<std::vector<at::Tensor>()> parts = {};
};

struct Decoding {
  std::map<std::string, DecodedWeight, std::less<>> weights;  // by name
  std::set<std::string, std::less<>> hidden;                  // what accompanies them
};

// Reads names, types and shapes, and of contents only what describes others. NotSupportedError for a format, a bit
// width or a layout that is not supported, FormatError for tensors that do not fit each other, and if nothing is packed
// unless not `is_needed`.
Decoding decode(const Json& config, const std::shared_ptr<const FormatFiles>& files, bool is_needed = true);
// The same for files whose config says nothing: what the names and types tell.
Decoding decode_by_names(const Json& config, const std::shared_ptr<const FormatFiles>& files);
std::string format_names();  // for messages

// For a format's file.
using Files = std::shared_ptr<const FormatFiles>;
using FormatPlan = void (*)(const Json& config, const Files& files, Decoding& out);
void plan_awq(const Json& config, const Files& files, Decoding& out);
void plan_bitsandbytes(const Json& config, const Files& files, Decoding& out);
void plan_compressed_tensors(const Json& config, const Files& files, Decoding& out);
void plan_fp8(const Json& config, const Files& files, Decoding& out);
void plan_gptq(const Json& config, const Files& files, Decoding& out);
void plan_hqq(const Json& config, const Files& files, Decoding& out);
void plan_mxfp4(const Json& config, const Files& files, Decoding& out);
void plan_torchao(const Json& config, const Files& files, Decoding& out);

// Of a config: a value, or what it is when absent. NotSupportedError when it has another type.
int64_t int_setting(const Json& config, const char* key, int64_t otherwise, const std::string& where);
std::string text_setting(const Json& config, const char* key, const std::string& otherwise);
bool is_set(const Json& config, const char* key);  // to true

}  // namespace easydel::quantization
