// trackio, through the files that it imports: fragments below TRACKIO_DIR/inbox, lines of JSON that never change.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <optional>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/json/strict_json.h"
#include "easydel/io/hub/hash.h"
#include "easydel/io/hub/hub_environment.h"
#include "easydel/trainers/arguments/training_arguments.h"
#include "easydel/trainers/trackers/tracker.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

// "2026-11-18T20:16:55.250000+00:00", as Python's datetime writes it.
std::string iso_time(double seconds) {
  const double whole = std::floor(seconds);
  const auto time = static_cast<std::time_t>(whole);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[80];
  const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + size, sizeof text - size, ".%06d+00:00",
                static_cast<int>(std::min(999999L, std::lround((seconds - whole) * 1e6))));
  return text;
}

class TrackioTracker final : public Tracker {
 public:
  TrackioTracker(const TrackerArguments& arguments, const std::string& project, const fs::path& folder,
                 const TrackedRun& run)
      : project_(chosen(arguments.wandb_project, "TRACKIO_PROJECT", project)),
        name_(arguments.wandb_name.value_or(run.name)),
        folder_(folder / "inbox" / ("easydel-" + new_run_id())) {}

  std::string name() const override { return "trackio"; }
  std::string where() const override {
    return concat("project ", project_, ", run ", name_, "; to see it: trackio show --project ", project_);
  }

  void begin(const TrackedRun& run) override {
    id_ = run.id;
    config_ = run.config;
  }

  void log(const std::vector<TrackedRow>& rows) override {
    std::string lines;
    for (const TrackedRow& row : rows) {
      Json metrics = Json::object();
      for (const auto& [name, value] : row.values) metrics[name] = strict_number(value);
      if (row.previews.size() > 0)
        metrics["preview_generations"] = Json::object({{"_type", "trackio.table"}, {"_value", row.previews}});
      if (metrics.size() == 0) continue;
      Json record = Json::object({{"v", 1},
                                  {"kind", "metric"},
                                  {"project", project_},
                                  {"run", name_},
                                  {"run_id", id_},
                                  {"metrics", metrics},
                                  {"step", row.step},
                                  {"timestamp", iso_time(row.time)},
                                  {"config", config_}});
      // Of one run, step and values: what is sent twice, or done again after a resume with the same result, is one.
      record["log_id"] = sha256_hex(concat(id_, " ", row.step, " ", metrics.dump())).substr(0, 32);
      lines += dump_strict(record) + "\n";
      config_ = Json();
    }
    if (lines.empty()) return;
    make_directory(folder_);
    char file[32];
    std::snprintf(file, sizeof file, "%08d.jsonl", number_++);
    write_file_atomically(folder_ / file, lines);
  }

  void finish(bool) override {}

 private:
  std::string project_, name_, id_;
  fs::path folder_;
  Json config_;
  int number_ = 0;
};

}  // namespace

std::unique_ptr<Tracker> make_trackio_tracker(const TrainingArguments& arguments, const TrackedRun& run) {
  for (const char* variable : {"TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"}) {
    const std::string value = chosen(std::nullopt, variable, "");
    require<NotSupportedError>(value.empty(), "[trackio] ", variable, " must not be set; got ", value,
                               ". Runs are written to this machine's TRACKIO_DIR, and `trackio sync` uploads them.");
  }
  const fs::path folder = chosen(std::nullopt, "TRACKIO_DIR", (read_hub_environment().home / "trackio").string());
  return std::make_unique<TrackioTracker>(arguments.trackers, default_project(arguments), folder, run);
}

}  // namespace easydel
