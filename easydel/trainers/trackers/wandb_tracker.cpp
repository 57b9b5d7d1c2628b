// Weights & Biases, in the format of its offline runs.
#include <algorithm>
#include <ctime>
#include <map>
#include <optional>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/hub/hash.h"
#include "easydel/trainers/arguments/training_arguments.h"
#include "easydel/trainers/logs/metrics_log.h"
#include "easydel/trainers/trackers/tracker.h"
#include "easydel/trainers/trackers/wandb_file.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

class WandbTracker final : public Tracker {
 public:
  WandbTracker(const TrackerArguments& arguments, const std::string& project, const TrackedRun& run)
      : entity_(chosen(arguments.wandb_entity, "WANDB_ENTITY", "")),
        project_(chosen(arguments.wandb_project, "WANDB_PROJECT", project)),
        name_(chosen(arguments.wandb_name, "WANDB_NAME", run.name)),
        folder_(run.directory / "wandb") {}

  std::string name() const override { return "wandb"; }
  std::string where() const override {
    return concat("project ", entity_.empty() ? "" : entity_ + "/", project_, ", run ", name_,
                  ", offline; to upload it: wandb sync ", (folder_ / "offline-run-*").string());
  }
  std::chrono::milliseconds pause() const override { return std::chrono::milliseconds(0); }

  // The file begins anew with what the run did before: it is that of a run that was never interrupted.
  void begin(const TrackedRun& run) override {
    started_ = run.started;
    const fs::path directory = run_directory(run);
    file_.reset();
    const fs::path path = directory / concat("run-", run.id, ".wandb");
    // By which `wandb sync` knows what it has uploaded.
    for (const char* mark : {".synced", ".syncstate"}) remove_file(path.string() + mark);
    file_ = std::make_unique<WandbFile>(path);
    media_ = directory / "files";
    file_->header();
    file_->run({.id = run.id,
                .entity = entity_,
                .project = project_,
                .name = name_,
                .host = run.host,
                .config = run.config,
                .started = run.started});
    pending_ = {};
    summary_.clear();
    if (run.first_step == 0) return;
    for (const Json& line : read_metrics(run.metrics)) {
      if (line.at("step").as_int() <= run.first_step) add(tracked_row(line, run.report_steps));
    }
  }

  void log(const std::vector<TrackedRow>& rows) override {
    for (const TrackedRow& row : rows) add(row);
  }

  void finish(bool succeeded) override {
    flush();
    WandbFile::Items items(summary_.begin(), summary_.end());
    file_->summary(items);
    file_->exit(succeeded ? 0 : 1, static_cast<int64_t>(std::max(0.0, last_time_ - started_)));
  }

 private:
  // offline-run-<date>_<time>-<id>: of a run that resumes the one that is there.
  fs::path run_directory(const TrackedRun& run) const {
    const std::string end = "-" + run.id;
    if (fs::is_directory(folder_)) {
      for (const std::string& entry : list_directory(folder_)) {
        if (entry.starts_with("offline-run-") && entry.ends_with(end)) return folder_ / entry;
      }
    }
    const auto seconds = static_cast<std::time_t>(run.started);
    std::tm parts{};
    ::localtime_r(&seconds, &parts);
    char text[32];
    const std::size_t size = std::strftime(text, sizeof text, "%Y%m%d_%H%M%S", &parts);
    return folder_ / concat("offline-run-", std::string_view(text, size), end);
  }

  // What belongs to one step is one row there.
  void add(const TrackedRow& row) {
    if (row.values.empty() && row.previews.size() == 0) return;
    if (pending_.step != row.step) flush();
    pending_.step = row.step;
    pending_.time = row.time;
    for (const auto& value : row.values) pending_.values.push_back(value);
    if (row.previews.size() > 0) pending_.previews = row.previews;
  }

  void flush() {
    if (pending_.values.empty() && pending_.previews.size() == 0) return;
    Json items = Json::object();
    for (const auto& [key, value] : pending_.values) items[key] = value;
    if (pending_.previews.size() > 0) items["preview_generations"] = write_table();
    items["_timestamp"] = pending_.time;
    items["_runtime"] = std::max(0.0, pending_.time - started_);
    items["_step"] = pending_.step;
    WandbFile::Items all;
    for (const auto& [key, value] : items.as_object()) {
      all.emplace_back(key, value);
      summary_[key] = value;
    }
    file_->history(pending_.step, all);
    last_time_ = pending_.time;
    pending_ = {};
  }

  // A table is a file beside the run.
  Json write_table() {
    Json rows = Json::array();
    int64_t index = 0;
    std::string before;
    for (const Json& each : pending_.previews.as_array()) {
      index = each.at("prompt").as_string() == before ? index + 1 : 0;
      before = each.at("prompt").as_string();
      rows.push_back(Json::array({pending_.step, each.at("prompt"), index, each.at("completion")}));
    }
    const Json columns = Json::array({"step", "prompt", "completion_id", "completion"});
    const std::string text = Json::object({{"columns", columns}, {"data", rows}}).dump();
    const std::string sum = sha256_hex(text);
    const std::string path =
        concat("media/table/preview_generations_", pending_.step, "_", sum.substr(0, 20), ".table.json");
    make_directory((media_ / path).parent_path());
    write_file_atomically(media_ / path, text);
    file_->file(path);
    return Json::object({{"_type", "table-file"},
                         {"path", path},
                         {"sha256", sum},
                         {"size", static_cast<int64_t>(text.size())},
                         {"ncols", 4},
                         {"nrows", static_cast<int64_t>(rows.size())},
                         {"log_mode", "IMMUTABLE"}});
  }

  std::string entity_, project_, name_;
  fs::path folder_, media_;
  std::unique_ptr<WandbFile> file_;
  TrackedRow pending_;
  std::map<std::string, Json> summary_;
  double started_ = 0, last_time_ = 0;
};

bool is_true(const std::string& value) { return value == "true" || value == "1" || value == "True" || value == "TRUE"; }

}  // namespace

std::unique_ptr<Tracker> make_wandb_tracker(const TrainingArguments& arguments, const TrackedRun& run) {
  const std::string mode = chosen(std::nullopt, "WANDB_MODE", "offline");
  if (mode == "disabled" || is_true(chosen(std::nullopt, "WANDB_DISABLED", ""))) return nullptr;
  require<NotSupportedError>(mode == "offline" || mode == "dryrun",
                             "[wandb] WANDB_MODE must be offline or disabled; got ", mode,
                             ". Runs are written to disk, and `wandb sync` uploads them.");
  return std::make_unique<WandbTracker>(arguments.trackers, default_project(arguments), run);
}

}  // namespace easydel
