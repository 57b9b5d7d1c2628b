// The numbers of metrics.jsonl by their names, for curves: a long run's lines would take much longer as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {

class MetricColumns {
 public:
  struct Column {
    std::string name;
    std::vector<uint32_t> lines;  // which of the lines have it
    std::vector<double> values;
  };

  MetricColumns() = default;
  MetricColumns(std::initializer_list<Json> lines);
  // Of a whole file, or of what was added to it. IoError when it cannot be read.
  static MetricColumns read(const std::filesystem::path& path);

  // Lines of the file, each with its newline. What is no object with a step is left out, such as an incomplete line.
  void add_text(std::string_view text);
  void add(const Json& line);  // an object
  void clear() { *this = {}; }

  std::size_t size() const { return steps_.size(); }
  int64_t step(std::size_t line) const { return steps_[line]; }
  const std::vector<Column>& columns() const { return columns_; }  // "step" is none of them
  const Column* find(std::string_view name) const;                 // null: no line has it
  // The last lines with samples of what the model wrote, oldest first: step and generations.
  const std::vector<Json>& previews() const { return previews_; }

 private:
  bool add_numbers(std::string_view line);
  void set(std::size_t place, std::string_view name, double value);

  std::vector<int64_t> steps_;
  std::vector<Column> columns_;
  std::unordered_map<std::string, std::size_t> places_;
  std::vector<std::size_t> usual_;  // columns in the order that the last line had
  std::vector<Json> previews_;
};

}  // namespace easydel
