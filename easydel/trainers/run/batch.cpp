#include "easydel/trainers/run/batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>

#include "easydel/core/error.h"
#include "easydel/core/memory.h"
#include "easydel/infra/files/model_io.h"
#include "easydel/sharding/parallel.h"

namespace easydel {
namespace {

constexpr int64_t kIgnored = -100;

std::vector<double> reduce(std::vector<double> values, const Group& group, at::Device device, ReduceOp op) {
  const at::Tensor sum = at::tensor(values, at::TensorOptions(at::kDouble)).to(device);
  group.all_reduce(sum, op);
  const at::Tensor host = sum.to(at::kCPU);
  return {host.const_data_ptr<double>(), host.const_data_ptr<double>() + host.numel()};
}

// [rows, width] of integers, `fill` where nothing is put.
class Table {
 public:
  Table(int64_t rows, int64_t width, int64_t fill) : tensor_(at::full({rows, width}, fill, at::kLong)), width_(width) {}
  void put(int64_t row, const std::vector<int64_t>& values) {
    std::copy(values.begin(), values.end(), tensor_.mutable_data_ptr<int64_t>() + row * width_);
  }
  void fill(int64_t row, int64_t count, int64_t value) {
    std::fill_n(tensor_.mutable_data_ptr<int64_t>() + row * width_, count, value);
  }
  const at::Tensor& on_cpu() const { return tensor_; }
  at::Tensor on(at::Device device) const { return copy_to(tensor_, device); }

 private:
  at::Tensor tensor_;
  int64_t width_;
};

double number_of(const BatchRow& row, const std::string& name) {
  const auto found = row.numbers.find(name);
  require<Error>(found != row.numbers.end(), "[make_batch] all rows of a batch must have the same numbers; one lacks ",
                 name, ".");
  return found->second;
}

// Each rank has put its own rows in.
at::Tensor of_all_ranks(const at::Tensor& values, at::Device device, const Parallel* parallel) {
  at::Tensor all = values.to(device);
  if (parallel && !parallel->batch().empty()) parallel->group(parallel->batch()).all_reduce(all);
  return all;
}

constexpr const char *kPixels = "pixel_values", *kSizes = "image_sizes", *kMask = "pixel_attention_mask",
                     *kGrid = "image_grid_thw";

constexpr double kGridRow = 1 << 26;

// What a rank without images has to know of those of others.
struct ImageShape {
  std::vector<double> pixels = {0, 0, 0};
  double grid = 0;  // rows and columns of one image in one number, whose maximum over ranks is one of them
  double has_sizes = 0, has_mask = 0;
};

ImageShape shape_of(const std::vector<BatchRow>& own) {
  ImageShape shape;
  for (const BatchRow& row : own) {
    if (row.images.empty()) continue;
    const at::Tensor& pixels = row.images.at(kPixels);
    for (int64_t i = 1; i < pixels.dim(); ++i) {
      double& most = shape.pixels[static_cast<std::size_t>(i - 1)];
      most = std::max(most, static_cast<double>(pixels.size(i)));
    }
    shape.has_sizes = row.images.contains(kSizes) ? 1 : 0;
    shape.has_mask = row.images.contains(kMask) ? 1 : 0;
    if (const auto grid = row.images.find(kGrid); grid != row.images.end())
      shape.grid = grid->second[0][1].item<double>() * kGridRow + grid->second[0][2].item<double>();
  }
  return shape;
}

std::map<std::string, at::Tensor> black_image(const ImageShape& shape) {
  const auto size = [](const std::vector<double>& from, std::size_t i) { return static_cast<int64_t>(from[i]); };
  const int64_t height = size(shape.pixels, 1), width = size(shape.pixels, 2);
  if (shape.grid > 0) {
    const auto h = static_cast<int64_t>(shape.grid / kGridRow);
    const int64_t w = static_cast<int64_t>(shape.grid) - h * static_cast<int64_t>(kGridRow);
    return {{kPixels, at::zeros({h * w, size(shape.pixels, 0)}, at::kFloat)},
            {kGrid, at::tensor({int64_t{1}, h, w}, at::kLong).unsqueeze(0)}};
  }
  std::map<std::string, at::Tensor> image{{kPixels, at::zeros({1, size(shape.pixels, 0), height, width}, at::kFloat)}};
  if (shape.has_sizes > 0) image[kSizes] = at::tensor({height, width}, at::kLong).unsqueeze(0);
  if (shape.has_mask > 0) image[kMask] = at::ones({1, height, width}, at::kLong);
  return image;
}

std::map<std::string, at::Tensor> images_of(const std::vector<BatchRow>& own, const Parallel* parallel,
                                            at::Device device) {
  const ImageShape mine = shape_of(own);
  std::vector<double> numbers = mine.pixels;
  numbers.insert(numbers.end(), {mine.grid, mine.has_sizes, mine.has_mask});
  numbers = max_over_batch(std::move(numbers), parallel, device);
  if (numbers[0] == 0) return {};
  std::map<std::string, at::Tensor> all;
  if (mine.pixels[0] == 0) {
    all = black_image({.pixels = {numbers[0], numbers[1], numbers[2]},
                       .grid = numbers[3],
                       .has_sizes = numbers[4],
                       .has_mask = numbers[5]});
  } else {
    const auto height = static_cast<int64_t>(mine.pixels[1]), width = static_cast<int64_t>(mine.pixels[2]);
    std::map<std::string, std::vector<at::Tensor>> parts;
    for (const BatchRow& row : own) {
      for (const auto& [name, value] : row.images) {
        const bool fills = name == kMask || (name == kPixels && value.dim() == 4);
        parts[name].push_back(
            fills ? at::constant_pad_nd(value, {0, width - value.size(-1), 0, height - value.size(-2)}) : value);
      }
    }
    for (const auto& [name, values] : parts) all[name] = at::cat(values);
  }
  for (auto& [name, value] : all) value = copy_to(name == kPixels ? value : value.to(at::kLong), device);
  return all;
}

// [rows, ...], zeros in the rows of other ranks.
at::Tensor tensors_of(const std::vector<BatchRow>& own, const std::string& name, int64_t rows, int64_t first,
                      at::Device device) {
  std::vector<at::Tensor> values;
  for (const BatchRow& row : own) {
    const auto found = row.tensors.find(name);
    require<Error>(found != row.tensors.end(), "[make_batch] a row has no ", name, ".");
    require<ShapeError>(values.empty() || found->second.sizes() == values[0].sizes(), "[make_batch] ", name,
                        " of all rows must have the same shape; got ",
                        values.empty() ? at::IntArrayRef() : values[0].sizes(), " and ", found->second.sizes(), ".");
    values.push_back(found->second);
  }
  const at::Tensor mine = at::stack(values);
  if (mine.size(0) == rows) return copy_to(mine, device);
  std::vector<int64_t> shape = mine.sizes().vec();
  shape[0] = rows;
  at::Tensor all = at::zeros(shape, mine.options().device(device));
  all.narrow(0, first, mine.size(0)).copy_(mine);
  return all;
}

at::Tensor targets_of(const std::vector<BatchRow>& own, int64_t rows, int64_t first, at::Device device) {
  const auto each = static_cast<int64_t>(own.front().targets.size());
  at::Tensor targets = at::zeros({rows, each}, at::kDouble);
  bool integral = each == 1;
  for (std::size_t i = 0; i < own.size(); ++i) {
    require<ConfigError>(static_cast<int64_t>(own[i].targets.size()) == each, "[make_batch] rows have ", each, " and ",
                         own[i].targets.size(), " targets.");
    for (int64_t j = 0; j < each; ++j) {
      const double value = own[i].targets[static_cast<std::size_t>(j)];
      integral = integral && value == static_cast<double>(static_cast<int64_t>(value));
      targets.mutable_data_ptr<double>()[(first + static_cast<int64_t>(i)) * each + j] = value;
    }
  }
  if (each == 1) targets = targets.squeeze(1);
  return targets.to(at::TensorOptions(integral ? at::kLong : at::kFloat).device(device));
}

}  // namespace

void add_numbers(const std::vector<BatchRow>& rows, std::map<std::string, double>& totals) {
  for (const BatchRow& row : rows) {
    for (const auto& [name, value] : row.numbers) totals[name] += value;
  }
}

std::map<std::string, double> total_numbers(const std::vector<std::vector<BatchRow>>& rows, const Parallel* parallel,
                                            at::Device device) {
  std::map<std::string, double> totals;
  for (const auto& minibatch : rows) add_numbers(minibatch, totals);
  if (totals.empty()) return totals;
  std::vector<double> values;
  for (const auto& [name, total] : totals) values.push_back(total);
  values = sum_over_batch(std::move(values), parallel, device);
  for (std::size_t i = 0; auto& [name, total] : totals) total = values[i++];
  return totals;
}

ModelInputs Batch::inputs() const {
  ModelInputs in;
  in.input_ids = input_ids;
  in.attention_mask = attention_mask;
  in.position_ids = position_ids;
  in.segment_ids = segment_ids;
  in.labels = labels;
  for (auto& [name, into] : {std::pair("pixel_values", &in.pixel_values), {"input_features", &in.input_features}}) {
    if (const auto found = tensors.find(name); found != tensors.end()) *into = found->second;
  }
  for (auto& [name, into] : {std::pair(kPixels, &in.pixel_values),
                             {kSizes, &in.image_sizes},
                             {kMask, &in.pixel_attention_mask},
                             {kGrid, &in.image_grid_thw}}) {
    if (const auto found = images.find(name); found != images.end()) *into = found->second;
  }
  return in;
}

Batch Batch::first_rows(int64_t rows) const {
  Batch first = *this;
  const auto keep = [rows](at::Tensor& x) {
    if (x.defined()) x = x.narrow(0, 0, rows);
  };
  for (at::Tensor* x :
       {&first.input_ids, &first.labels, &first.attention_mask, &first.segment_ids, &first.position_ids})
    keep(*x);
  for (auto* named : {&first.numbers, &first.series, &first.tensors}) {
    for (auto& [name, x] : *named) keep(x);
  }
  return first;
}

OwnRows own_rows(int64_t rows, const Parallel* parallel) {
  if (!parallel) return {0, rows};
  const int64_t parts = parallel->mesh().size(parallel->batch());
  require<ConfigError>(
      rows % parts == 0, "[trainer] a minibatch of ", rows, " rows cannot be assigned to ", parts, " ranks (",
      parallel->mesh().mesh().to_string(),
      "; rows are split over dp, fsdp and ep): total_batch_size / gradient_accumulation_steps must be a ",
      "multiple of ", parts, ".");
  const int64_t index = parallel->mesh().index(parallel->batch());
  return {rows / parts * index, rows / parts};
}

std::vector<double> sum_over_batch(std::vector<double> values, const Parallel* parallel, at::Device device) {
  return parallel ? reduce(std::move(values), parallel->group(parallel->batch()), device, ReduceOp::Sum) : values;
}

std::vector<double> max_over_batch(std::vector<double> values, const Parallel* parallel, at::Device device) {
  return parallel ? reduce(std::move(values), parallel->group(parallel->batch()), device, ReduceOp::Max) : values;
}

double max_over_all(double value, const Parallel* parallel, at::Device device) {
  return parallel ? reduce({value}, parallel->everyone(), device, ReduceOp::Max)[0] : value;
}

std::vector<std::string> gather_texts(const std::string& text, const Parallel* parallel, at::Device device) {
  if (!parallel || parallel->batch().empty()) return {text};
  const Group& group = parallel->group(parallel->batch());
  const auto own = at::TensorOptions(at::kLong).device(device);
  const std::vector<int64_t> ones(static_cast<std::size_t>(group.size()), 1);
  std::vector<int64_t> sizes;
  for (const at::Tensor& size : group.all_gather(at::full({1}, static_cast<int64_t>(text.size()), own), ones))
    sizes.push_back(size.item<int64_t>());
  at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::copy(text.begin(), text.end(), reinterpret_cast<char*>(bytes.mutable_data_ptr<uint8_t>()));
  std::vector<std::string> texts;
  for (const at::Tensor& part : group.all_gather(bytes.to(device), sizes)) {
    const at::Tensor host = part.to(at::kCPU).contiguous();
    texts.emplace_back(reinterpret_cast<const char*>(host.const_data_ptr<uint8_t>()),
                       static_cast<std::size_t>(host.numel()));
  }
  return texts;
}

std::string broadcast_text(const std::string& text, const Parallel& parallel, at::Device device) {
  const Group& everyone = parallel.everyone();
  const at::Tensor size = at::full({1}, static_cast<int64_t>(text.size()), at::TensorOptions(at::kLong).device(device));
  everyone.broadcast(size, 0);
  at::Tensor bytes = at::zeros({std::max<int64_t>(size.item<int64_t>(), 1)}, at::kByte);
  if (everyone.rank() == 0)
    std::copy(text.begin(), text.end(), reinterpret_cast<char*>(bytes.mutable_data_ptr<uint8_t>()));
  bytes = bytes.to(device);
  everyone.broadcast(bytes, 0);
  const at::Tensor host = bytes.to(at::kCPU).contiguous();
  return {reinterpret_cast<const char*>(host.const_data_ptr<uint8_t>()),
          static_cast<std::size_t>(size.item<int64_t>())};
}

double checksum(const std::vector<BatchRow>& rows) {
  double sum = 0;
  for (const BatchRow& row : rows) {
    uint32_t hash = 2166136261U;
    const auto add = [&hash](uint32_t value) { hash = (hash ^ value) * 16777619U; };
    for (const int64_t id : row.input_ids) add(static_cast<uint32_t>(id));
    for (const int64_t id : row.target_ids) add(static_cast<uint32_t>(id));
    const auto add_floats = [&add](const at::Tensor& tensor) {
      const float* values = tensor.const_data_ptr<float>();
      for (int64_t i = 0; i < tensor.numel(); ++i) add(std::bit_cast<uint32_t>(values[i]));
    };
    for (const auto& [name, tensor] : row.tensors) add_floats(tensor);
    for (const auto& [name, tensor] : row.images) add_floats(tensor);
    sum += hash;
  }
  return sum;
}

namespace {

// One row after another, each as segments of its own with positions from 0 on.
BatchRow joined(const std::vector<BatchRow>& rows) {
  BatchRow all;
  int64_t segments = 0;
  for (const BatchRow& row : rows) {
    const bool has_more = !row.targets.empty() || !row.numbers.empty() || !row.series.empty() ||
                          !row.target_ids.empty() || !row.tensors.empty() || !row.images.empty();
    require<Error>(!has_more, "[make_batch] rows with values besides their labels cannot be joined.");
    int64_t position = 0;
    for (std::size_t i = 0; i < row.input_ids.size(); ++i, ++position) {
      if (i == 0 || (!row.segment_ids.empty() && row.segment_ids[i] != row.segment_ids[i - 1])) {
        position = 0;
        ++segments;
      }
      all.segment_ids.push_back(segments - 1);
      all.position_ids.push_back(row.position_ids.empty() ? position : row.position_ids[i]);
    }
    all.input_ids.insert(all.input_ids.end(), row.input_ids.begin(), row.input_ids.end());
    all.labels.insert(all.labels.end(), row.labels.begin(), row.labels.end());
  }
  return all;
}

}  // namespace

Batch make_batch(const std::vector<BatchRow>& own, const BatchOptions& options, const Parallel* parallel) {
  require<Error>(!own.empty(), "[make_batch] there are no rows.");
  const OwnRows place = own_rows(options.rows, parallel);
  if (options.joins_rows) {
    BatchOptions of_one = options;
    of_one.joins_rows = false;
    of_one.rows = options.rows / place.count;
    of_one.width = 0;
    return make_batch({joined(own)}, of_one, parallel);
  }
  require<Error>(static_cast<int64_t>(own.size()) == place.count, "[make_batch] this rank has ", place.count,
                 " rows of ", options.rows, "; got ", own.size(), ".");
  double longest = 0, longest_target = 0, tokens = 0, segmented = 0, positioned = 0;
  for (const BatchRow& row : own) {
    longest = std::max(longest, static_cast<double>(row.input_ids.size()));
    longest_target = std::max(longest_target, static_cast<double>(row.target_ids.size()));
    tokens += static_cast<double>(row.input_ids.size() + row.target_ids.size());
    segmented = std::max(segmented, row.segment_ids.empty() ? 0.0 : 1.0);
    positioned = std::max(positioned, row.position_ids.empty() ? 0.0 : 1.0);
  }
  const std::vector<double> most =
      max_over_batch({longest, segmented, positioned, longest_target}, parallel, options.device);
  const auto width_of = [&](double tokens_of_longest) {
    const int64_t wanted = options.width > 0 ? options.width : static_cast<int64_t>(tokens_of_longest);
    return std::max<int64_t>((wanted + options.multiple - 1) / options.multiple * options.multiple, 1);
  };
  const int64_t width = width_of(most[0]);

  Table ids(options.rows, width, options.pad_token_id), labels(options.rows, width, kIgnored);
  Table mask(options.rows, width, 0), segments(options.rows, width, -1), positions(options.rows, width, 0);
  bool padded = false;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const BatchRow& row = own[i];
    const int64_t at = place.first + static_cast<int64_t>(i);
    const auto size = static_cast<int64_t>(row.input_ids.size());
    require<Error>(size <= width, "[make_batch] a row has ", size, " tokens; the batch is ", width, " wide.");
    ids.put(at, row.input_ids);
    labels.put(at, row.labels);
    mask.fill(at, size, 1);
    segments.fill(at, size, 0);
    segments.put(at, row.segment_ids);
    positions.put(at, row.position_ids);
    padded = padded || size < width;
  }
  Batch batch;
  batch.tokens = static_cast<int64_t>(sum_over_batch({tokens}, parallel, options.device)[0]);
  batch.input_ids = ids.on(options.device);
  if (!own.front().targets.empty()) {
    batch.labels = targets_of(own, options.rows, place.first, options.device);
  } else if (most[3] > 0) {
    Table targets(options.rows, width_of(most[3]), kIgnored);
    for (std::size_t i = 0; i < own.size(); ++i) targets.put(place.first + static_cast<int64_t>(i), own[i].target_ids);
    batch.labels = targets.on(options.device);
  } else {
    batch.labels = labels.on(options.device);
    if (options.device.is_cuda()) batch.host_labels = labels.on_cpu();
  }
  if (most[1] > 0) {
    batch.segment_ids = segments.on_cpu();
  } else if (padded) {
    batch.attention_mask = mask.on_cpu();
  }
  if (most[2] > 0) batch.position_ids = positions.on(options.device);
  for (const auto& [name, value] : own.front().numbers) {
    at::Tensor values = at::zeros({options.rows}, at::kDouble);
    for (std::size_t i = 0; i < own.size(); ++i)
      values.mutable_data_ptr<double>()[place.first + static_cast<int64_t>(i)] = number_of(own[i], name);
    batch.numbers.emplace(name, of_all_ranks(values, options.device, parallel));
  }
  for (const auto& [name, values] : own.front().series) {
    at::Tensor table = at::zeros({options.rows, width}, at::kDouble);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto found = own[i].series.find(name);
      require<Error>(found != own[i].series.end() && static_cast<int64_t>(found->second.size()) <= width,
                     "[make_batch] a row has no fitting series ", name, ".");
      std::copy(found->second.begin(), found->second.end(),
                table.mutable_data_ptr<double>() + (place.first + static_cast<int64_t>(i)) * width);
    }
    batch.series.emplace(name, of_all_ranks(table, options.device, parallel));
  }
  batch.images = images_of(own, parallel, options.device);
  for (const auto& [name, value] : own.front().tensors)
    batch.tensors.emplace(name, tensors_of(own, name, options.rows, place.first, options.device));
  return batch;
}

}  // namespace easydel
