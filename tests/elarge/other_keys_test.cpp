// Every key in the tables of section_keys.cpp: what it refuses, and what it only notes.
#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "easydel/elarge/config/elarge_config.h"
#include "easydel/elarge/config/section_keys.h"

namespace easydel {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// A config with one key set: "mixture.informs" means the first element.
struct Place {
  std::string table;
  YamlPath path;
};
const std::vector<Place> kPlaces = {{"model.extra_kwargs", {"model", "extra_kwargs"}},
                                    {"model.extra_kwargs", {"reference_model", "extra_kwargs"}},
                                    {"loader", {"loader"}},
                                    {"sharding", {"sharding"}},
                                    {"platform", {"platform"}},
                                    {"quantization", {"quantization"}},
                                    {"base_config.values", {"base_config", "values"}},
                                    {"mixture", {"mixture"}},
                                    {"mixture.informs", {"mixture", "informs", "0"}},
                                    {"mixture.tokenization", {"mixture", "tokenization"}},
                                    {"mixture", {"eval_mixture"}},
                                    {"eval_mixture", {"eval_mixture"}},
                                    {"eval_mixture.informs", {"eval_mixture", "informs", "0"}},
                                    {"esurge", {"esurge"}},
                                    {"eval", {"eval"}}};

ELargeConfig with(const YamlPath& path, std::string_view key, const Json& value) {
  ELargeConfig config(Json::parse(R"({"model": {"name_or_path": "m"}, "reference_model": {"name_or_path": "r"},
      "mixture": {"informs": [{"type": "a/b"}]}, "eval_mixture": {"informs": [{"type": "a/b"}]}})"));
  config.set(below(path, key), value);
  return config;
}

// Something that the key does not accept.
Json another(const Json& accepted) {
  if (accepted.is_bool()) return !accepted.as_bool();
  if (accepted.is_number()) return accepted.as_double() + 1.5;
  return "anything";
}

TEST(OtherKeys, AreRefusedOrNotedByName) {
  for (const auto& [table, path] : kPlaces) {
    ASSERT_FALSE(other_keys(table).empty()) << table;
    for (const OtherKey& key : other_keys(table)) {
      const std::string name = dotted(below(path, key.name));
      SCOPED_TRACE(name);
      EXPECT_TRUE(key.says.ends_with(".")) << key.says;
      if (key.is_noted()) {
        const ELargeConfig config = with(path, key.name, "anything");
        EXPECT_NO_THROW(config.validate());
        EXPECT_THAT(config.notes(), Contains(concat("[elarge] ", name, " has no effect here. ", key.says)));
        continue;
      }
      const Json accepted = Json::parse(key.accepted);
      for (const Json& value : {accepted, Json()}) {
        const ELargeConfig config = with(path, key.name, value);
        EXPECT_NO_THROW(config.validate()) << value.dump();
        EXPECT_THAT(config.notes(), Not(Contains(HasSubstr(name))));
      }
      const Json value = another(accepted);
      EXPECT_THAT([&] { with(path, key.name, value).validate(); },
                  testing::ThrowsMessage<NotSupportedError>(
                      concat("[elarge] ", name, " is not supported; got ", value.dump(), ". ", key.says)));
    }
  }
}

TEST(OtherKeys, HaveOneRowEach) {
  for (const auto& [table, path] : kPlaces) {
    std::set<std::string_view> names;
    for (const OtherKey& key : other_keys(table)) EXPECT_TRUE(names.insert(key.name).second) << key.name;
  }
}

}  // namespace
}  // namespace easydel
