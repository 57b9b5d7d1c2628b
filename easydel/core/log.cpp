#include "easydel/core/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "easydel/core/progress/progress_board.h"
#include "easydel/core/runtime.h"
#include "easydel/core/text/quoted.h"

namespace easydel::log {
namespace {

constexpr std::array<const char*, 5> kNames{"debug", "info", "warning", "error", "off"};

Level level_from_environment() {
  const char* name = std::getenv("EASYDEL_LOG");
  if (!name || !*name) return Level::Info;
  try {
    return parse_level(name);
  } catch (const ConfigError& error) {
    std::fprintf(stderr, "warning: EASYDEL_LOG: %s\n", error.what());
    return Level::Info;
  }
}

std::atomic<Level>& current_level() {
  static std::atomic<Level> value{level_from_environment()};
  return value;
}

std::mutex sink_mutex;
std::function<void(Level, const std::string&)> custom_sink;

}  // namespace

Level parse_level(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<Level>(i);
  }
  fail<ConfigError>("[log] level must be one of debug, info, warning, error, off; got \"", name, "\".");
}

Level level() { return current_level(); }
void set_level(Level level) { current_level() = level; }

void set_sink(std::function<void(Level, const std::string&)> sink) {
  const std::lock_guard lock(sink_mutex);
  custom_sink = std::move(sink);
}

void write(Level level, const std::string& message) {
  const RankContext& rank = current_rank();
  std::string line;
  if (rank.world_size > 1) line = concat("[rank ", rank.rank, "/", rank.world_size, "] ");
  if (level != Level::Info) line += concat(kNames[static_cast<std::size_t>(level)], ": ");
  line += printable(message);  // it may quote a file
  const std::lock_guard lock(sink_mutex);
  if (custom_sink) {
    custom_sink(level, line);
  } else {
    ProgressBoard::instance().print_line(line);
  }
}

}  // namespace easydel::log
