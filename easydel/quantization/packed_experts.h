// The matrices of a layer's experts as codes and scales: each is packed by itself, and their parts are stacked.
#pragma once

#include "easydel/layers/moe/moe.h"
#include "easydel/quantization/packed_parts.h"

namespace easydel::quantization {

class PackedStack : public PackedParts, public PackedExperts, public std::enable_shared_from_this<PackedStack> {
 public:
  PackedStack(std::shared_ptr<const Method> method, const Experts& experts, const Experts::Stack& stack);

  // What a part is called in the module: "gate_up_proj" for the codes, "gate_up_proj.absmax" for the scales.
  std::string part_name(std::size_t part) const;
  void put_into(Module& module) const;
  // Puts the parts where the dense matrices lie, and fills them if these have memory. All ranks call this together.
  void fill(const Parameter& dense) const;
  // The parts of all experts, from dense matrices that come one by one, [in, out] where the stack is transposed.
  std::vector<at::Tensor> quantized_all(const std::function<at::Tensor(int64_t expert)>& dense) const;
  // The dense parameter that this stands for, without memory: how files store it.
  const Parameter& dense() const { return *dense_; }
  bool transposed() const { return transposed_; }
  const std::string& name() const { return name_; }

  at::Tensor multiply(const at::Tensor& x, const operations::Dispatch& dispatch) const override;
  // Of one expert: from all that are held, and by its place among them.
  static LocalShard expert(const LocalShard& all, int64_t place);
  at::Tensor dequantize(DType dtype) const;  // [experts, out, in] that this rank computes with

 private:
  std::string name_;
  bool transposed_;
  std::shared_ptr<Parameter> dense_;
};

}  // namespace easydel::quantization
