// Fills the right half of a weight as one of two ranks would, and checks it against the whole.
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <easydel/easydel.h>

#include <iostream>

namespace ed = easydel;

int main() {
  const ed::RandomKey key = ed::RandomKey(/*seed=*/0).fold("lm_head.weight");
  const at::Tensor whole = at::empty({8, 16}, ed::bfloat16);
  ed::fill_normal(whole, key, /*mean=*/0, /*stddev=*/0.02);

  const at::Tensor right = at::empty({8, 8}, ed::bfloat16);
  const ed::Region region{.global_shape = {8, 16}, .offset = {0, 8}};
  ed::fill_normal(right, key, 0, 0.02, &region);

  const bool equal = at::equal(right, whole.narrow(1, 8, 8));
  std::cout << "easydel " << ed::version() << ": a rank's half is " << (equal ? "" : "not ")
            << "that half of the whole\n";
  return equal ? 0 : 1;
}
