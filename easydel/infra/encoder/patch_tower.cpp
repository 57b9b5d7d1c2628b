// Letters: P patches, D width.
#include "easydel/infra/encoder/patch_tower.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/infra/decoder/decoder.h"
#include "easydel/operations/activation.h"

namespace easydel {
namespace {

BlockSpec block_of(const PatchTowerSpec& s, int64_t layer) {
  return {.attention = {.hidden_size = s.width,
                        .num_heads = s.heads,
                        .num_kv_heads = s.heads,
                        .head_dim = s.width / s.heads,
                        .layer_idx = layer,
                        .fused_qkv = true,
                        .qkv_bias = true,
                        .out_bias = true,
                        .cached = false,
                        .init_stddev = s.init_stddev,
                        .qkv_name = "qkv",
                        .out_name = "proj"},
          .mlp = {.hidden_size = s.width,
                  .intermediate_size = s.mlp_width,
                  .act = s.act,
                  .gated = s.gated,
                  .bias = true,
                  .init_stddev = s.init_stddev,
                  .up_name = s.up_name,
                  .down_name = s.down_name},
          .norm = s.norm,
          .attention_name = "attn",
          .before_attention = "norm1",
          .before_mlp = "norm2"};
}

// A convolution whose stride is its size. Files hold the weight as [D, channels, frames, patch, patch].
class PatchMap : public Linear {
 public:
  explicit PatchMap(const PatchTowerSpec& s)
      : Linear(s.channels * s.frames * s.patch * s.patch, s.width,
               {.bias = s.patch_bias, .init_stddev = s.init_stddev, .name = "patches"}) {
    weight()->file_layout = [=, in = in_features()](const std::string& path) -> FileLayout {
      return {FilePiece{path, {0, 0}, {s.width, in}, {s.width, s.channels, s.frames, s.patch, s.patch}}};
    };
  }
  std::string type_name() const override { return "Conv3d"; }
};

class PatchEmbed : public Module {
 public:
  explicit PatchEmbed(const PatchTowerSpec& spec) : proj(add<PatchMap>("proj", spec)) {}
  const Linear& proj;
};

class Sequential : public Module {
 public:
  const Linear& add_map(const std::string& name, int64_t in, int64_t out, double stddev) {
    return add<Linear>(name, in, out, LinearOptions{.bias = true, .init_stddev = stddev});
  }
  std::string type_name() const override { return "Sequential"; }
};

}  // namespace

PatchMerger::PatchMerger(const PatchTowerSpec& s, bool norm_of_all)
    : merged_(s.width * s.merge * s.merge),
      norm_of_all_(norm_of_all),
      norm_(add_norm(*this, s.norm_name, norm_of_all ? merged_ : s.width, s.norm)) {
  const std::pair<std::string, int64_t> maps[] = {{s.first_name, merged_}, {s.second_name, s.out_width}};
  Sequential* inner = nullptr;
  const Linear** const made[] = {&first_, &second_};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& [name, out] = maps[i];
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos) {
      *made[i] = &add<Linear>(name, merged_, out, LinearOptions{.bias = true, .init_stddev = s.init_stddev});
      continue;
    }
    if (!inner) inner = &add<Sequential>(name.substr(0, dot));
    *made[i] = &inner->add_map(name.substr(dot + 1), merged_, out, s.init_stddev);
  }
}

at::Tensor PatchMerger::operator()(const at::Tensor& x_PD) const {
  const at::Tensor normed = (*norm_)(norm_of_all_ ? x_PD.reshape({-1, merged_}) : x_PD);
  return (*second_)(at::gelu((*first_)(normed.reshape({-1, merged_}))));
}

PatchTower::PatchTower(const BaseConfig& config, PatchTowerSpec spec)
    : BaseModule(config), spec_(std::move(spec)), patches_(&add<PatchEmbed>("patch_embed", spec_).proj) {
  if (spec_.positions > 0) positions_ = &add<Embedding>("pos_embed", spec_.positions, spec_.width, spec_.init_stddev);
  blocks_ = &add<ModuleList<DecoderBlock>>("blocks");
  for (int64_t i = 0; i < spec_.depth; ++i) blocks_->append(block_of(spec_, i));
  merger_ = &add<PatchMerger>("merger", spec_, /*norm_of_all=*/false);
  if (spec_.deep_layers.empty()) return;
  deep_mergers_ = &add<ModuleList<PatchMerger>>("deepstack_merger_list");
  for (std::size_t i = 0; i < spec_.deep_layers.size(); ++i) deep_mergers_->append(spec_, /*norm_of_all=*/true);
}

// How patches are ordered and which see each other, in a stretch of layers.
struct PatchTower::Layout {
  PatchGroups groups;
  int64_t rounds = 0;          // runs of the layers: on a mesh, as many as the rank with the most groups needs
  at::Tensor order, back;      // on the device
  operations::RopeTable rope;  // [P, pairs] in this order
};

operations::RopeTable PatchTower::table(const at::Tensor& places) const {
  const int64_t side = spec_.width / spec_.heads / 2;  // dimensions for rows, and as many for columns
  const at::Tensor steps = at::arange(0, side, 2, at::kFloat) / static_cast<double>(side);
  const at::Tensor frequencies = (1.0 / at::pow(spec_.rope_theta, steps)).to(places.device());
  const at::ScalarType type = dtype() == float64 ? at::kDouble : at::kFloat;
  const at::Tensor angles = (places.unsqueeze(-1).to(type) * frequencies.to(type)).flatten(1);
  return {angles.cos(), angles.sin()};
}

at::Tensor PatchTower::run(const std::vector<const DecoderLayer*>& layers, const at::Tensor& x_PD,
                           const Layout& layout) const {
  PreparedInputs inputs{ModelInputs{}};
  inputs.mask_info.emplace();
  inputs.mask_info->causal = false;
  inputs.output_attentions = inputs.output_hidden_states = false;
  std::vector<at::Tensor> done;
  const auto run_group = [&](const PatchGroups::Group& group) {
    const int64_t count = group.segments * group.length;
    const auto batch = [&](const at::Tensor& all) {
      return all.narrow(0, group.first, count).view({group.segments, group.length, -1});
    };
    if (parallel()) {
      BatchPart part;
      part.batch = part.given_batch = group.segments;
      part.tokens = part.given_tokens = group.length;
      part.batch_sharded = part.sequence_sharded = false;
      inputs.part = part;
    }
    const auto context = make_context(*this, inputs);
    context->rope.push_back({batch(layout.rope.cos), batch(layout.rope.sin)});
    return run_layers(layers, batch(x_PD), context).hidden.flatten(0, 1);
  };
  for (const PatchGroups::Group& group : layout.groups.groups) done.push_back(run_group(group));
  at::Tensor result = done.size() == 1 ? done[0] : at::cat(done);
  // Where ranks have different images and share the layers' weights, all of them take part in gathering these.
  for (auto round = static_cast<int64_t>(done.size()); round < layout.rounds; ++round)
    result = result + (0 * run_group({.first = 0, .segments = 1, .length = 1})).sum();
  return result;
}

PatchTower::Features PatchTower::features(const at::Tensor& pixels, const at::Tensor& grid_thw) const {
  const std::string where = "[" + type_name() + "] ";
  require<ShapeError>(pixels.dim() == 2 && pixels.is_floating_point() && pixels.size(1) == patches_->in_features(),
                      where, "pixel_values must be floats [patches, ", patches_->in_features(),
                      "]: in_channels x temporal_patch_size x patch_size x patch_size; got ", pixels.sizes(), " of ",
                      c10::toString(pixels.scalar_type()), ".");
  require<NotSupportedError>(!parallel() || parallel()->mesh().size(parallel()->sequence()) == 1, where,
                             "image patches cannot be split over the sequence axes. Use dp, fsdp or tp.");
  const std::vector<PatchGrid> grids = read_grids(grid_thw, spec_.merge, pixels.size(0), where);
  const at::Device device = pixels.device();
  const at::Tensor places = patch_places(grids, spec_.merge).to(device);
  at::Tensor x_PD = (*patches_)(pixels.to(dtype()));
  if (positions_) {
    const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(spec_.positions)));
    const PatchInterpolation from = interpolate_places(grids, spec_.merge, side);
    const at::Tensor found = (*positions_)(from.rows.to(device));  // [P, 4, D]
    x_PD = x_PD + (found * from.weights.to(device).unsqueeze(-1)).sum(1).to(x_PD.scalar_type());
  }
  const auto make_layout = [&](PatchGroups groups) {
    Layout layout{.groups = std::move(groups), .rounds = 0, .order = {}, .back = {}, .rope = {}};
    layout.rounds = static_cast<int64_t>(layout.groups.groups.size());
    if (parallel() && parallel()->mesh().size(parallel()->batch()) > 1) {
      const at::Tensor most = at::full({1}, layout.rounds, at::TensorOptions(at::kLong).device(device));
      parallel()->group(parallel()->batch()).all_reduce(most, ReduceOp::Max);
      layout.rounds = most.item<int64_t>();
    }
    layout.order = layout.groups.order.to(device);
    layout.back = layout.order.argsort();
    layout.rope = table(places.index_select(0, layout.order));
    return layout;
  };
  const Layout frames = make_layout(frame_groups(grids));
  const Layout windows = spec_.window > 0 ? make_layout(window_groups(grids, spec_.merge, spec_.window)) : Layout();
  const auto layout_of = [&](int64_t layer) -> const Layout& {
    return spec_.window > 0 && !spec_.full_layers.contains(layer) ? windows : frames;
  };
  Features out;
  std::vector<const DecoderLayer*> stretch;  // layers in one layout, run together
  for (int64_t i = 0; i < spec_.depth; ++i) {
    stretch.push_back(&(*blocks_)[static_cast<std::size_t>(i)]);
    const auto deep = std::find(spec_.deep_layers.begin(), spec_.deep_layers.end(), i);
    const Layout& layout = layout_of(i);
    if (i + 1 < spec_.depth && deep == spec_.deep_layers.end() && &layout_of(i + 1) == &layout) continue;
    x_PD = run(stretch, x_PD.index_select(0, layout.order), layout).index_select(0, layout.back);
    stretch.clear();
    if (deep != spec_.deep_layers.end())
      out.deeper.push_back((*deep_mergers_)[static_cast<std::size_t>(deep - spec_.deep_layers.begin())](x_PD));
  }
  out.hidden = x_PD;
  out.merged = (*merger_)(x_PD);
  return out;
}

ModelOutput PatchTower::forward(const PreparedInputs& inputs) const {
  require<NotSupportedError>(!parallel() || !inputs.part || !inputs.part->batch_sharded, "[", type_name(),
                             "] on its own, a vision tower runs on one device. Use the whole model on a mesh.");
  const Features found = features(inputs.pixel_values, inputs.image_grid_thw);
  ModelOutput out;
  out.last_hidden_state = found.hidden;
  out.pooler_output = found.merged;
  return out;
}

}  // namespace easydel
