#include "easydel/io/torch/pickle.h"

#include <unordered_set>

#include "easydel/io/torch/torch_globals.h"
#include "fuzz.h"

using namespace easydel;

namespace {

// Visits everything reachable once.
class Visitor {
 public:
  void visit_all(const PickleValue& root) {
    pending_.push_back(&root);
    while (!pending_.empty()) {
      const PickleValue& value = *pending_.back();
      pending_.pop_back();
      visit(value);
    }
  }

 private:
  void visit(const PickleValue& value) {
    fuzz::touch(pickle_type_name(value));
    if (const auto* str = held<PickleStr>(value)) fuzz::touch(str->text);
    if (const auto* bytes = held<PickleBytes>(value)) fuzz::touch(bytes->data);
    if (const auto* number = held<PickleLong>(value)) fuzz::touch(number->bytes);
    if (const auto* global = held<PickleGlobal>(value)) fuzz::touch(global->name);
    if (const auto* sequence = held<PickleSequence>(value)) visit_items(*sequence);
    if (const auto* dict = held<PickleDict>(value); dict && seen_.insert(dict).second) {
      for (const auto& [key, item] : dict->items) pending_.insert(pending_.end(), {&key, &item});
    }
    if (const auto* call = held<PickleCall>(value)) {
      fuzz::touch(call->callee);
      visit_items(*call->arguments);
    }
    if (const auto* persistent = held<PicklePersistent>(value); persistent && seen_.insert(persistent).second) {
      pending_.push_back(&persistent->id);
    }
  }

  void visit_items(const PickleSequence& sequence) {
    if (!seen_.insert(&sequence).second) return;
    for (const PickleValue& item : sequence.items) pending_.push_back(&item);
  }

  std::vector<const PickleValue*> pending_;
  std::unordered_set<const void*> seen_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  return fuzz::refuse_or([&] {
    const Pickle pickle =
        Pickle::parse(fuzz::as_bytes(data, size), {.where = "fuzz.pkl", .globals = torch_global_names()});
    Visitor().visit_all(pickle.root());
  });
}
