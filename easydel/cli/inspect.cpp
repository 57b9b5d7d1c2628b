// easydel inspect: the tensors of a checkpoint, without reading their data.
#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/core/error.h"
#include "easydel/core/text/bytes.h"
#include "easydel/core/text/quoted.h"
#include "easydel/io/checkpoint.h"

namespace easydel::cli {
namespace {

struct InspectOptions {
  std::string path;
  bool json = false;
};

// Names come from the file: quoted if they have special characters, and truncated if they are long.
std::string shown(const std::string& name) {
  constexpr std::size_t kMaxLength = 100;
  return printable(name, kMaxLength) == name && name.find_first_of("\n\t") == std::string::npos ? name
                                                                                                : concat(quoted(name));
}

std::string file_name(const TensorSource& file) { return std::filesystem::path(file.where()).filename().string(); }

int64_t count_elements(const TensorSource& checkpoint) {
  int64_t total = 0;
  for (const TensorInfo& info : checkpoint.infos()) total += info.tied_to.empty() ? info.numel() : 0;
  return total;
}

Json report(const Checkpoint& checkpoint) {
  Json tensors = Json::array();
  for (const TensorInfo& info : checkpoint.infos()) {
    tensors.push_back(Json::object({{"name", info.name},
                                    {"dtype", info.stored_as},
                                    {"shape", info.shape},
                                    {"bytes", info.nbytes},
                                    {"file", file_name(checkpoint.file_of(info))}}));
    if (!info.tied_to.empty()) tensors.as_array().back()["tied_to"] = info.tied_to;
  }
  return Json::object({{"path", checkpoint.where()},
                       {"tensors", std::move(tensors)},
                       {"total", Json::object({{"files", checkpoint.files().size()},
                                               {"tensors", checkpoint.infos().size()},
                                               {"elements", count_elements(checkpoint)},
                                               {"bytes", checkpoint.nbytes()}})}});
}

void print_report(const Checkpoint& checkpoint) {
  const bool many = checkpoint.files().size() > 1;
  std::vector<std::vector<std::string>> rows{{"tensor", "dtype", "shape", "bytes"}};
  if (many) rows[0].push_back("file");
  std::map<std::string, int64_t> by_dtype;
  for (const TensorInfo& info : checkpoint.infos()) {
    const bool tied = !info.tied_to.empty();
    rows.push_back({shown(info.name), info.stored_as, Json(info.shape).dump(),
                    tied ? "as " + shown(info.tied_to) : group_digits(info.nbytes)});
    if (many) rows.back().push_back(shown(file_name(checkpoint.file_of(info))));
    if (!tied) by_dtype[info.stored_as] += info.nbytes;
  }
  print_table(rows);
  std::string parts;
  for (const auto& [dtype, bytes] : by_dtype)
    parts += concat(parts.empty() ? "" : ", ", dtype, " ", format_bytes(bytes));
  std::cout << group_digits(static_cast<int64_t>(checkpoint.infos().size())) << " tensors, "
            << group_digits(count_elements(checkpoint)) << " elements, " << group_digits(checkpoint.nbytes())
            << " bytes (" << (by_dtype.empty() ? "nothing" : parts) << ") in " << checkpoint.files().size()
            << (many ? " files\n" : " file\n");
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("inspect", "List the tensors of a checkpoint, with totals");
  auto options = std::make_shared<InspectOptions>();
  command->add_option("path", options->path, "A tensor file or a model directory")->required()->type_name("PATH");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] {
    const auto checkpoint = Checkpoint::open(options->path);
    options->json ? print_json(report(*checkpoint)) : print_report(*checkpoint);
  });
}

}  // namespace easydel::cli
