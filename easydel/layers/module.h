// A tree of named parameters, buffers and submodules. Names are those of the checkpoint's files.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "easydel/layers/parameter.h"

namespace easydel {

// Constructors only declare: every parameter is on the meta device until the tree is initialized or loaded, so creating
// a module of any size costs nothing.
class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  struct NamedParameter {
    std::string path;
    std::shared_ptr<Parameter> parameter;
  };
  struct NamedBuffer {
    std::string path;
    at::Tensor* tensor;
  };
  struct NamedModule {
    std::string path;
    Module* module;
  };
  struct ConstNamedBuffer {
    std::string path;
    const at::Tensor* tensor;
  };
  struct ConstNamedModule {
    std::string path;
    const Module* module;
  };

  // In the order of declaration, depth first. A tied weight appears once, under its first path.
  std::vector<NamedParameter> named_parameters() const;
  // All paths of tied weights but the first, with the first: {"lm_head.weight", "model.embed_tokens.weight"}.
  std::vector<std::pair<std::string, std::string>> tied_parameters() const;
  std::vector<NamedBuffer> named_buffers();
  std::vector<ConstNamedBuffer> named_buffers() const;
  std::vector<NamedModule> named_modules();  // this one first, under ""
  std::vector<ConstNamedModule> named_modules() const;
  bool has_lazy_parameters() const;  // anywhere in the tree
  const std::vector<std::pair<std::string, std::unique_ptr<Module>>>& children() const { return children_; }

  DType dtype() const { return dtype_; }  // the compute dtype
  void set_dtype(DType dtype);            // of the entire tree

  // How the work is split over a mesh; null: one device.
  const std::shared_ptr<const Parallel>& parallel() const { return parallel_; }
  void set_parallel(const std::shared_ptr<const Parallel>& parallel);  // of the entire tree

  // Changes of the tree after construction: adapters, packed weights. A parameter of that name is replaced, else added;
  // a null one is removed. A child inherits the dtype and the mesh.
  void set_parameter(std::string_view name, std::shared_ptr<Parameter> parameter);
  void attach(std::string name, std::unique_ptr<Module> child);
  std::unique_ptr<Module> detach(std::string_view name);  // null: no such child
  Module* child(std::string_view name) const;             // null: none

  // Floating point operations of this module's own forward for one token, without its children's, with `keys` keys to
  // attend to on average (before windows). A multiply-add counts as two.
  virtual double own_flops_per_token(double keys) const { return 0; }

  // As torch prints it: "Linear(in_features=4, out_features=8, bias=False)".
  virtual std::string type_name() const;  // the class without its namespace
  virtual std::string extra_repr() const { return ""; }

 protected:
  Module() = default;

  template <class M, class... Args>
  M& add(std::string name, Args&&... args) {
    auto child = std::make_unique<M>(std::forward<Args>(args)...);
    M& reference = *child;
    add_child(std::move(name), std::move(child));
    return reference;
  }
  // The axes over which ranks compute parts of such a dimension; empty on one device.
  const AxisNames& split_over(LogicalAxis axis) const;
  std::shared_ptr<Parameter> add_parameter(std::string name, std::vector<Dim> dims, Initializer init);
  // Replaces its own parameter by another module's.
  void tie_parameter(std::string_view name, std::shared_ptr<Parameter> parameter);
  at::Tensor& add_buffer(std::string name, at::Tensor value);

 private:
  void add_child(std::string name, std::unique_ptr<Module> child);

  DType dtype_ = float32;
  std::shared_ptr<const Parallel> parallel_;
  std::vector<std::pair<std::string, std::shared_ptr<Parameter>>> parameters_;
  std::vector<std::pair<std::string, std::unique_ptr<at::Tensor>>> buffers_;
  std::vector<std::pair<std::string, std::unique_ptr<Module>>> children_;
};

// Children "0", "1", … of one type.
template <class M>
class ModuleList : public Module {
 public:
  template <class... Args>
  M& append(Args&&... args) {
    M& child = add<M>(std::to_string(modules_.size()), std::forward<Args>(args)...);
    modules_.push_back(&child);
    return child;
  }
  std::size_t size() const { return modules_.size(); }
  M& operator[](std::size_t i) const { return *modules_[i]; }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }
  std::string type_name() const override { return "ModuleList"; }

 private:
  std::vector<M*> modules_;
};

}  // namespace easydel
