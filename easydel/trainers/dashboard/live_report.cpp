#include "easydel/trainers/dashboard/live_report.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "easydel/trainers/logs/report.h"
#include "easydel/trainers/logs/report_series.h"
#include "easydel/trainers/logs/run_report.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

// Bytes [begin, end) of a file, or fewer.
std::string read_part(const fs::path& path, uintmax_t begin, uintmax_t end) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(begin));
  std::string bytes(end - begin, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

uintmax_t size_of(const fs::path& path) {
  std::error_code none;
  const uintmax_t size = fs::file_size(path, none);
  return none ? 0 : size;
}

}  // namespace

LiveReport::LiveReport(std::vector<fs::path> runs) : metrics_(runs.size()) {
  for (fs::path& directory : runs) {
    require_run(directory);
    std::string name = run_label(directory);
    for (const Run& other : runs_) {
      if (other.name == name) name = directory.lexically_normal().string();
    }
    runs_.push_back({.directory = std::move(directory), .name = std::move(name)});
  }
}

bool LiveReport::read_new_lines(std::size_t index) {
  Run& run = runs_[index];
  const fs::path path = run.directory / "metrics.jsonl";
  struct stat about{};
  if (::stat(path.c_str(), &about) != 0) return false;  // it is being replaced
  const auto size = static_cast<uintmax_t>(about.st_size);
  if (about.st_ino != run.file || size < run.read) {
    run.file = about.st_ino;
    run.read = 0;
    metrics_[index].clear();
  }
  if (size == run.read) return false;
  std::string text = read_part(path, run.read, size);
  const std::size_t end = text.rfind('\n');
  if (end == std::string::npos) return false;
  text.resize(end + 1);
  run.read += text.size();
  metrics_[index].add_text(text);
  return true;
}

bool LiveReport::refresh() {
  bool is_new = version_ == 0;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    is_new = read_new_lines(i) || is_new;
    const uintmax_t samples = size_of(runs_[i].directory / "completions.jsonl");
    is_new = is_new || samples != runs_[i].samples;
    runs_[i].samples = samples;
  }
  if (is_new) ++version_;
  return is_new;
}

std::string LiveReport::page() const { return render_live_report(describe_run(runs_.front().directory)); }

std::string LiveReport::data() const {
  const Json run = read_run_file(runs_.front().directory);
  Json names = Json::array();
  for (const Run& each : runs_) names.push_back(valid_text(each.name));
  std::vector<const MetricColumns*> all;
  for (const MetricColumns& each : metrics_) all.push_back(&each);
  const Json out = Json::object({{"version", version_},
                                 {"cards", report_cards(summarize_run(run, metrics_.front()))},
                                 {"runs", std::move(names)},
                                 {"series", report_series(all)},
                                 {"samples", last_samples(runs_.front().directory, metrics_.front())}});
  return out.dump();
}

}  // namespace easydel
