#include "easydel/trainers/logs/metrics_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/log.h"

namespace easydel {

Json parse_metrics(const std::string& line) {
  try {
    Json json = Json::parse(line);
    const Json* step = json.find("step");
    if (step && step->is_int()) return json;
  } catch (const FormatError&) {
  }
  return {};
}

namespace {

// Calls use(line, object, ended) for each line; `ended` is false for a last one without its newline.
template <class Use>
void for_each_line(const std::filesystem::path& path, const Use& use) {
  std::ifstream file(path, std::ios::binary);
  require<IoError>(file.good(), "[MetricsLog] ", path.string(), " cannot be read.");
  for (std::string line; std::getline(file, line);) use(line, parse_metrics(line), !file.eof());
  require<IoError>(!file.bad(), "[MetricsLog] reading ", path.string(), " failed.");
}

bool is_evaluation(const Json& line) {
  const auto& values = line.as_object();
  return std::any_of(values.begin(), values.end(), [](const auto& entry) { return entry.first.starts_with("eval_"); });
}

void keep_until(const std::filesystem::path& path, int64_t resume_step, bool is_evaluated) {
  const auto keeps = [&](const Json& json, bool ended) {
    if (!ended || !json.is_object()) return false;
    const int64_t step = json.at("step").as_int();
    return step < resume_step || (step == resume_step && (is_evaluated || !is_evaluation(json)));
  };
  int64_t later = 0, broken = 0;
  for_each_line(path, [&](const std::string&, const Json& json, bool ended) {
    if (keeps(json, ended)) return;
    ++(json.is_object() ? later : broken);
  });
  if (later + broken == 0) return;
  AtomicFile kept(path);
  for_each_line(path, [&](std::string line, const Json& json, bool ended) {
    if (!keeps(json, ended)) return;
    line += '\n';
    kept.write(line.data(), line.size());
  });
  kept.commit();
  log::info("[MetricsLog] ", path.string(), ": ", later, " lines after step ", resume_step, " and ", broken,
            " incomplete ones were removed.");
}

}  // namespace

void forget_later_lines(const std::filesystem::path& path, std::optional<int64_t> resume_step, bool is_evaluated) {
  std::error_code ignored;
  if (!resume_step) {
    write_file_atomically(path, "");
  } else if (std::filesystem::exists(path, ignored)) {
    keep_until(path, *resume_step, is_evaluated);
  }
}

MetricsLog::MetricsLog(std::filesystem::path path, std::optional<int64_t> resume_step, bool is_evaluated)
    : path_(std::move(path)) {
  if (path_.has_parent_path()) make_directory(path_.parent_path());
  forget_later_lines(path_, resume_step, is_evaluated);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  require<IoError>(fd_ >= 0, "[MetricsLog] ", path_.string(), " cannot be opened: ", errno_text(errno), ".");
}

MetricsLog::~MetricsLog() {
  if (fd_ >= 0) ::close(fd_);
}

void MetricsLog::write(int64_t step, const Json& values) {
  Json line = Json::object({{"step", step}});
  for (const auto& [key, value] : values.as_object()) {
    if (key != "step") line[key] = value;
  }
  const std::string text = line.dump() + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(fd_, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    require<IoError>(wrote > 0, "[MetricsLog] writing to ", path_.string(), " failed: ", errno_text(errno), ".");
    done += static_cast<std::size_t>(wrote);
  }
}

std::vector<Json> read_metrics(const std::filesystem::path& path) {
  std::vector<Json> lines;
  for_each_line(path, [&](const std::string&, Json json, bool) {
    if (json.is_object()) lines.push_back(std::move(json));
  });
  return lines;
}

}  // namespace easydel
