// Every format against the packages that wrote the files; see reference/data_files_peer.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "easydel/core/build_info.h"
#include "easydel/core/files/file.h"
#include "easydel/data/sources/data_files.h"
#include "easydel/data/sources/file_sources.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel::data {
namespace {

bool is_arrow(const std::string& name) {
  return name.ends_with(".parquet") || name.ends_with(".feather") || name.ends_with(".arrow");
}

// The values of a row in the order of the names; "absent" where the row does not have the field.
Json values_of(const Json& row, const Json& names) {
  Json out = Json::array();
  for (const Json& name : names.as_array()) {
    const Json* found = row.find(name.as_string());
    out.push_back(found ? *found : Json("absent"));
  }
  return out;
}

// The same file with all text in memory, in order, and from a temporary file.
std::vector<FileOptions> ways_to_read(bool whole) {
  return {{.whole_text = whole},
          {.text = {.streaming = true, .memory_limit = 0}, .whole_text = whole},
          {.text = {.streaming = false, .memory_limit = 0}, .whole_text = whole}};
}

TEST(Formats, ReadTheRowsThatThePackagesRead) {
  TemporaryDirectory directory;
  const char* given = std::getenv("EASYDEL_DRAWS");
  run_python("data_files_peer.py", {directory.path().string(), "1", given ? given : "40"});
  std::ifstream lines(directory / "expected.jsonl");
  int files = 0, wrong = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json expected = Json::parse(line);
    const std::string name = expected.at("file").as_string();
    if (is_arrow(name) && !EASYDEL_HAS_ARROW) continue;
    const auto path = directory / name;
    for (const FileOptions& options : ways_to_read(expected.at("type").as_string() == "document")) {
      ++files;
      const SourcePtr source = open_file(path, *file_type_of(path), options);
      Json rows = Json::array();
      for (int64_t i = 0; i < source->size(); ++i) rows.push_back(values_of(source->row(i), expected.at("names")));
      // Again, from the last row to the first.
      for (int64_t i = source->size() - 1; i >= 0; --i) {
        EXPECT_EQ(values_of(source->row(i), expected.at("names")), rows.at(static_cast<std::size_t>(i))) << name;
      }
      if (rows == expected.at("rows")) continue;
      if (++wrong <= 3)
        ADD_FAILURE() << name << "\nours   " << rows.dump() << "\ntheirs " << expected.at("rows").dump();
    }
  }
  EXPECT_EQ(wrong, 0) << "of " << files;
  EXPECT_GT(files, 500);
}

}  // namespace
}  // namespace easydel::data
