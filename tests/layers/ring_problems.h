// Attention over twelve tokens with every kind of mask and option, for ranks that share them.
#pragma once

#include <ATen/ATen.h>

#include <numeric>
#include <string>
#include <vector>

#include "easydel/operations/attention/attention.h"
#include "easydel/sharding/world/world.h"

namespace easydel::ring {

constexpr int64_t kTokens = 12;  // of the full sequence

struct Problem {
  std::string name;
  int64_t heads = 4, kv_heads = 2, head_size = 6, value_size = 6;
  operations::AttentionOptions options = {};
  std::vector<at::Tensor> inputs = {};  // q, k, v and, where there are some, sinks

  Problem& fill(at::ScalarType type = at::kDouble, int64_t tokens = kTokens) {
    at::manual_seed(7);
    inputs = {at::randn({2, tokens, heads, head_size}, at::kDouble).to(type),
              at::randn({2, tokens, kv_heads, head_size}, at::kDouble).to(type),
              at::randn({2, tokens, kv_heads, value_size}, at::kDouble).to(type)};
    if (options.sinks.defined()) inputs.push_back(options.sinks);
    return *this;
  }
};

inline at::Tensor segments(const std::vector<int64_t>& ids) { return at::tensor(ids, at::kLong).view({2, -1}); }

// The first row's keys [begin, end) are padding.
inline at::Tensor padding(int64_t begin, int64_t end) {
  at::Tensor mask = at::ones({2, kTokens}, at::kLong);
  mask[0].narrow(0, begin, end - begin).zero_();
  return mask;
}

inline std::vector<Problem> problems() {
  std::vector<Problem> all;
  const auto add = [&](const char* name) -> Problem& { return all.emplace_back(Problem{name}); };
  const at::Tensor packed = segments({0, 0, 0, 0, 0, 1, 1, 2, 2, 2, -1, -1, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5});
  const at::Tensor sinks = at::tensor({0.3, -1.0, 2.0, 0.0}, at::kDouble);
  at::manual_seed(1);
  add("causal");
  add("everything").options.mask.causal = false;
  add("one kv head").kv_heads = 1;
  add("as many kv heads as heads").kv_heads = 4;
  add("smaller values").value_size = 3;
  add("larger values").value_size = 9;
  add("scale").options.scale = 0.7;
  add("short window").options.mask.sliding_window = 2;
  add("own token alone").options.mask.sliding_window = 1;
  add("long window").options.mask.sliding_window = 8;
  {
    Problem& p = add("window both ways");
    p.options.mask.causal = false;
    p.options.mask.sliding_window = 3;
  }
  add("left padding").options.mask.padding_mask = padding(0, 7);
  add("right padding").options.mask.padding_mask = padding(5, 12);
  add("a row of padding alone").options.mask.padding_mask = padding(0, 12);
  {
    Problem& p = add("padding, not causal");
    p.options.mask.causal = false;
    p.options.mask.padding_mask = padding(3, 7);
  }
  add("packed").options.mask.q_segment_ids = packed;
  {
    Problem& p = add("packed with other segments of keys, not causal");
    p.options.mask.causal = false;
    p.options.mask.q_segment_ids = packed;
    p.options.mask.kv_segment_ids = packed.flip(1);
  }
  {
    Problem& p = add("packed, window, padding, softcap, sinks");
    p.options.mask.q_segment_ids = packed;
    p.options.mask.sliding_window = 3;
    p.options.mask.padding_mask = padding(1, 4);
    p.options.softcap = 0.8;
    p.options.sinks = sinks;
  }
  add("softcap").options.softcap = 0.8;
  add("sinks").options.sinks = sinks;
  {
    Problem& p = add("sinks where nothing is seen");
    p.options.sinks = sinks;
    p.options.mask.padding_mask = padding(0, 5);
  }
  {
    Problem& p = add("dropout");
    p.options.dropout_p = 0.4;
    p.options.dropout_key = RandomKey(11);
  }
  {
    Problem& p = add("dropout in a part of all rows and heads, sinks");
    p.options.dropout_p = 0.3;
    p.options.dropout_key = RandomKey(12);
    p.options.dropout_region = Region{{5, 12, kTokens, kTokens}, {2, 8, 0, 0}};
    p.options.sinks = sinks;
  }
  add("mask of each head").options.mask.explicit_mask = at::rand({1, 4, kTokens, kTokens}).gt(0.6);
  add("mask of each row").options.mask.explicit_mask = at::rand({2, 1, kTokens, 1}).gt(0.5);
  add("bias").options.bias = at::randn({1, 4, kTokens, kTokens}, at::kDouble);
  add("bias of keys").options.bias = at::randn({2, 1, 1, kTokens}, at::kDouble);
  add("queries ahead of the keys").options.mask.q_offset = 4;
  add("queries behind the keys").options.mask.q_offset = -5;
  add("queries in any order").options.mask.q_positions = at::randint(0, kTokens, {2, kTokens}, at::kLong);
  for (Problem& p : all) p.fill();
  return all;
}

inline std::shared_ptr<Group> everyone(World& world) {
  std::vector<int64_t> ranks(world.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return world.group("sp", ranks);
}

}  // namespace easydel::ring
