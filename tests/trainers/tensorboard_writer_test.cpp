// What TensorBoard reads from our files.
#include "easydel/trainers/logs/tensorboard_writer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/json/json.h"
#include "easydel/trainers/logs/crc32c.h"
#include "tests/support/draw.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing_support::Draw;

Json read_with_tensorboard(const std::filesystem::path& directory) {
  const std::string printed = run_python("tensorboard_peer.py", {directory.string()});
  const std::size_t start = printed.find("{\"scalars\"");  // warnings may stand before
  require<Error>(start != std::string::npos, printed);
  return Json::parse(std::string_view(printed).substr(start));
}

TEST(Crc32c, GivesTheKnownAnswersOfRfc3720) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(TensorboardWriter, IsReadByTensorboardWithEveryValue) {
  const TemporaryDirectory directory;
  Draw draw(5);
  std::map<std::string, Json> expected;
  const std::vector<std::string> tags = {"train/loss", "eval/loss", "lr", "a b", "größe/日本", std::string(300, 'x')};
  {
    TensorboardWriter writer(directory.path());
    for (int64_t step :
         {int64_t{0}, int64_t{1}, int64_t{127}, int64_t{128}, int64_t{300}, int64_t{70'000}, int64_t{5'000'000'000}}) {
      Scalars scalars;
      for (const std::string& tag : tags) {
        if (draw.chance(0.2)) continue;
        double value = std::ldexp(static_cast<double>(draw.between(-1'000'000, 1'000'000)),
                                  static_cast<int>(draw.between(-120, 100)));
        if (draw.chance(0.1)) value = std::numeric_limits<double>::infinity();
        if (draw.chance(0.1)) value = -0.0;
        scalars.emplace_back(tag, value);
        expected[tag].push_back(Json::array({step, static_cast<double>(static_cast<float>(value))}));
      }
      writer.write(step, scalars);
    }
    writer.write(9, {});
    writer.write_text(0, "config", "**bold** & <b>é</b>");
  }
  const Json read = read_with_tensorboard(directory.path());
  EXPECT_EQ(read.at("scalars").size(), expected.size());
  for (const auto& [tag, points] : expected) EXPECT_EQ(read.at("scalars").at(tag).dump(), points.dump()) << tag;
  EXPECT_EQ(read.at("texts").dump(), Json::parse(R"({"config": [[0, "**bold** & <b>é</b>"]]})").dump());
}

TEST(TensorboardWriter, KeepsWhatIsNotANumber) {
  const TemporaryDirectory directory;
  TensorboardWriter(directory.path()).write(1, {{"loss", std::nan("")}});
  EXPECT_TRUE(std::isnan(read_with_tensorboard(directory.path()).at("scalars").at("loss").at(0).at(1).as_double()));
}

TEST(TensorboardWriter, MakesTensorboardForgetWhatAResumedRunDoesAgain) {
  const TemporaryDirectory directory;
  {
    TensorboardWriter writer(directory.path());
    for (int step = 1; step <= 6; ++step) writer.write(step, {{"loss", step}});
  }
  {
    TensorboardWriter writer(directory.path(), 4);
    for (int step = 5; step <= 7; ++step) writer.write(step, {{"loss", 10 * step}});
  }
  EXPECT_EQ(list_directory(directory.path()).size(), 2);
  EXPECT_EQ(read_with_tensorboard(directory.path()).at("scalars").dump(),
            "{\"loss\": [[1, 1.0], [2, 2.0], [3, 3.0], [4, 4.0], [5, 50.0], [6, 60.0], [7, 70.0]]}");
}

TEST(TensorboardWriter, IsReadableWhileItIsOpenAndAfterATornWrite) {
  const TemporaryDirectory directory;
  TensorboardWriter writer(directory.path());
  writer.write(1, {{"loss", 0.5}});
  EXPECT_EQ(read_with_tensorboard(directory.path()).at("scalars").dump(), "{\"loss\": [[1, 0.5]]}");
  writer.write(2, {{"loss", 0.25}});
  std::filesystem::resize_file(writer.path(), std::filesystem::file_size(writer.path()) - 3);
  EXPECT_EQ(read_with_tensorboard(directory.path()).at("scalars").dump(), "{\"loss\": [[1, 0.5]]}");
}

TEST(TensorboardWriter, SaysWhatTheSystemRefuses) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "file", "");
  EXPECT_THAT([&] { TensorboardWriter writer(directory / "file"); }, testing::Throws<IoError>());
}

}  // namespace
}  // namespace easydel
