#include "easydel/quantization/formats/floats.h"

#include <ATen/ATen.h>

namespace easydel::quantization {

bool is_fp8(DType dtype) { return dtype == DType::Float8_e4m3fn || dtype == DType::Float8_e5m2; }

void scale_blocks_(const at::Tensor& values, const at::Tensor& scales, int64_t block_rows, int64_t block_columns) {
  if (values.dim() > 2) {
    for (int64_t i = 0; i < values.size(0); ++i)
      scale_blocks_(values.select(0, i), scales.select(0, i), block_rows, block_columns);
    return;
  }
  for (int64_t block = 0; block < scales.size(0); ++block) {
    const int64_t begin = block * block_rows, count = std::min(block_rows, values.size(0) - begin);
    const at::Tensor row = scales.select(0, block).repeat_interleave(block_columns).narrow(0, 0, values.size(1));
    values.narrow(0, begin, count).mul_(row);
  }
}

DecodedWeight fp8_weight(const Files& files, const std::string& weight, const std::string& scale,
                         std::pair<int64_t, int64_t> blocks) {
  const TensorInfo& info = files->info(weight);
  const std::vector<int64_t> shape = info.shape, given = files->info(scale).shape;
  files->check(is_fp8(info.dtype) && shape.size() >= 2, weight, "must be a matrix of FP8.");
  const std::size_t dims = shape.size();
  const int64_t rows = shape[dims - 2], columns = shape[dims - 1];
  const bool one = files->info(scale).numel() == 1;
  std::vector<int64_t> wanted(shape.begin(), shape.end() - 2);
  int64_t block_rows = rows, block_columns = columns;
  if (!one) {
    files->check(given.size() == dims || (dims == 2 && given == std::vector<int64_t>{rows}), scale,
                 "must have as many dimensions as the weight, ", dims, "; got ", given.size(), ".");
    const int64_t last = given.size() == dims ? given[dims - 1] : 1;
    const int64_t second = given.size() == dims ? given[dims - 2] : rows;
    block_rows = second == rows ? 1 : second == 1 ? rows : blocks.first;
    block_columns = last == columns ? 1 : last == 1 ? columns : blocks.second;
    const auto fits = [&](int64_t count, int64_t size, int64_t block) {
      files->check(block > 0 && size > 0 && count == (size - 1) / block + 1, scale, "has ", count, " scales for ", size,
                   " weights in blocks of ", block, ".");
    };
    fits(second, rows, block_rows);
    fits(last, columns, block_columns);
    for (std::size_t d = 0; d + 2 < dims; ++d)
      files->check(given[d] == shape[d], scale, "must have ", shape[d], " in dimension ", d, "; got ", given[d], ".");
  }
  const int64_t row_blocks = (rows + block_rows - 1) / block_rows,
                column_blocks = (columns + block_columns - 1) / block_columns;
  wanted.push_back(row_blocks);
  wanted.push_back(column_blocks);
  const auto scales = [files, scale, one, wanted] {
    const at::Tensor all = files->floats(scale);
    return one ? all.view({1, 1}).expand(wanted) : all.view(wanted);
  };
  DecodedWeight made;
  made.shape = shape;
  made.place = weight;
  made.dense = [files, weight, scales, block_rows, block_columns] {
    const at::Tensor values = files->floats(weight);
    scale_blocks_(values, scales(), block_rows, block_columns);
    return values;
  };
  // A scale for each row and group of columns: blocks of rows repeat theirs.
  const bool whole = column_blocks == 1;
  if (dims != 2 || info.dtype != DType::Float8_e4m3fn || (!whole && columns % block_columns != 0)) return made;
  made.method = [whole, block_columns] {
    return make_method({.method = "fp8", .group_size = whole ? 0 : block_columns});
  };
  made.parts = [files, weight, scales, whole, rows, block_rows]() -> std::vector<at::Tensor> {
    const at::Tensor each = scales().repeat_interleave(block_rows, 0).narrow(0, 0, rows).contiguous();
    return {files->read(weight).contiguous().view(at::kByte), whole ? each.view({rows}) : each};
  };
  return made;
}

}  // namespace easydel::quantization
