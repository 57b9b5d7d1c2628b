#include "easydel/trainers/logs/metric_columns.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "easydel/core/files/file.h"
#include "easydel/trainers/logs/metrics_log.h"

namespace easydel {
namespace {

constexpr std::size_t kMaxPreviews = 20;

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r')) ++at;
  return at;
}

// One of "key": number pairs; false when it is anything else.
struct Pair {
  std::string_view key, number;
};
bool take_pair(std::string_view text, std::size_t& at, Pair& pair) {
  at = skip_space(text, at);
  if (at >= text.size() || text[at] != '"') return false;
  const std::size_t end = text.find_first_of("\"\\", at + 1);
  if (end == std::string_view::npos || text[end] == '\\') return false;
  pair.key = text.substr(at + 1, end - at - 1);
  at = skip_space(text, end + 1);
  if (at >= text.size() || text[at] != ':') return false;
  at = skip_space(text, at + 1);
  const std::size_t stop = std::min(text.find_first_of(",} ", at), text.size());
  pair.number = text.substr(at, stop - at);
  at = skip_space(text, stop);
  return at < text.size() && (text[at] == ',' || text[at] == '}');
}

// As JSON has them, and as Python writes what is not finite.
bool read_number(std::string_view text, double& value) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits == "NaN" || digits == "Infinity") {
    value = digits == "NaN" ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    if (text.size() != digits.size()) value = -value;
    return true;
  }
  if (digits.empty() || digits.front() < '0' || digits.front() > '9') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

MetricColumns::MetricColumns(std::initializer_list<Json> lines) {
  for (const Json& line : lines) add(line);
}

MetricColumns MetricColumns::read(const std::filesystem::path& path) {
  MetricColumns columns;
  columns.add_text(read_file(path));
  return columns;
}

void MetricColumns::add_text(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (add_numbers(line)) continue;
    if (const Json json = parse_metrics(std::string(line)); json.is_object()) add(json);
  }
}

// A line of numbers alone, which almost all are. Nothing is added where it is something else.
bool MetricColumns::add_numbers(std::string_view line) {
  std::size_t at = skip_space(line, 0);
  if (at >= line.size() || line[at] != '{') return false;
  thread_local std::vector<std::pair<std::string_view, double>> pairs;
  pairs.clear();
  bool has_step = false;
  int64_t step = 0;
  do {
    Pair pair;
    double value = 0;
    if (!take_pair(line, ++at, pair)) return false;
    if (pair.key == "step") {
      const char* end = pair.number.data() + pair.number.size();
      const auto [stop, error] = std::from_chars(pair.number.data(), end, step);
      if (has_step || error != std::errc() || stop != end) return false;
      has_step = true;
      continue;
    }
    if (!read_number(pair.number, value)) return false;
    for (const auto& [key, other] : pairs) {
      if (key == pair.key) return false;  // twice: JSON's rule decides
    }
    pairs.emplace_back(pair.key, value);
  } while (line[at] == ',');
  if (!has_step || skip_space(line, at + 1) != line.size()) return false;
  steps_.push_back(step);
  for (std::size_t i = 0; i < pairs.size(); ++i) set(i, pairs[i].first, pairs[i].second);
  return true;
}

void MetricColumns::add(const Json& line) {
  const Json* step = line.find("step");
  if (!step || !step->is_int()) return;
  steps_.push_back(step->as_int());
  std::size_t place = 0;
  for (const auto& [key, value] : line.as_object()) {
    if (key != "step" && value.is_number()) set(place++, key, value.as_double());
  }
  if (const Json* list = line.find("generations"); list && list->is_array() && list->size() > 0) {
    previews_.push_back(Json::object({{"step", *step}, {"generations", *list}}));
    if (previews_.size() > kMaxPreviews) previews_.erase(previews_.begin());
  }
}

// Of the line that was begun last. `place`: of the name in that line, where it is looked for first.
void MetricColumns::set(std::size_t place, std::string_view name, double value) {
  if (place >= usual_.size() || columns_[usual_[place]].name != name) {
    const auto [found, is_new] = places_.try_emplace(std::string(name), columns_.size());
    if (is_new) columns_.push_back({.name = std::string(name), .lines = {}, .values = {}});
    usual_.resize(std::max(usual_.size(), place + 1), found->second);
    usual_[place] = found->second;
  }
  Column& column = columns_[usual_[place]];
  column.lines.push_back(static_cast<uint32_t>(steps_.size() - 1));
  column.values.push_back(value);
}

const MetricColumns::Column* MetricColumns::find(std::string_view name) const {
  const auto found = places_.find(std::string(name));
  return found == places_.end() ? nullptr : &columns_[found->second];
}

}  // namespace easydel
