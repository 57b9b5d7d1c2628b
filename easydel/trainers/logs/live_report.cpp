#include "easydel/trainers/logs/live_report.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "easydel/core/error.h"
#include "easydel/trainers/logs/metrics_log.h"
#include "easydel/trainers/logs/report.h"
#include "easydel/trainers/logs/report_series.h"
#include "easydel/trainers/logs/run_report.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kSamples = 20;
constexpr uintmax_t kSampleBytes = 1 << 18;  // of the end of the file, that are looked through

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

// The last lines of completions.jsonl, the newest first.
Json read_samples(const fs::path& path) {
  const uintmax_t size = size_of(path);
  const std::string text = read_part(path, size - std::min(size, kSampleBytes), size);
  Json samples = Json::array();
  for (std::size_t end = text.rfind('\n'); end != std::string::npos && end > 0 && samples.size() < kSamples;) {
    const std::size_t before = text.rfind('\n', end - 1);
    if (before == std::string::npos && size > kSampleBytes) break;  // its beginning was not read
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    try {
      if (Json line = Json::parse(text.substr(begin, end - begin)); line.is_object())
        samples.push_back(std::move(line));
    } catch (const FormatError&) {
    }
    end = before;
  }
  return samples;
}

}  // namespace

LiveReport::LiveReport(std::vector<fs::path> runs) : lines_(runs.size()) {
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
    lines_[index].clear();
  }
  if (size == run.read) return false;
  std::string text = read_part(path, run.read, size);
  const std::size_t end = text.rfind('\n');
  if (end == std::string::npos) return false;
  text.resize(end + 1);
  run.read += text.size();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t stop = text.find('\n', begin);
    if (Json line = parse_metrics(text.substr(begin, stop - begin)); line.is_object())
      lines_[index].push_back(std::move(line));
    begin = stop + 1;
  }
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
  Json out = Json::object({{"version", version_},
                           {"cards", report_cards(summarize_run(run, lines_.front()))},
                           {"runs", std::move(names)},
                           {"series", report_series(lines_)}});
  out["samples"] = read_samples(runs_.front().directory / "completions.jsonl");
  return out.dump();
}

}  // namespace easydel
