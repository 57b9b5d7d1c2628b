// Checks that every setting has an effect: a table with a probe for each, and a function that observes a run.
//
//   const std::vector<SettingProbe> probes = {
//       {"learning_rate", 0.1},
//       {"lora_alpha", 8.0, Json::object({{"lora_rank", 2}})},
//   };
//   expect_every_setting_acts(keys_of(fields), probes, [](const Json& settings) { return what_a_run_leaves(settings);
//   });
//
// The keys come from the field lists, so a field that is added without a probe fails the test; so does a probe whose
// value changes nothing. What the observer leaves out of its result (times, paths) does not count.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/infra/fields/field_visitor.h"

namespace easydel::testing_support {

struct SettingProbe {
  std::string key;
  Json value;                    // different from the default
  Json beside = Json::object();  // other settings that this one depends on
};

// The observable results of a run with these settings: numbers, file names, log lines. May throw easydel::Error.
using Observer = std::function<Json(const Json& settings)>;

inline std::vector<std::string> keys_of(const FieldList& fields) {
  std::vector<std::string> keys;
  for (const FieldValue& field : collect_fields(fields)) keys.push_back(field.key);
  return keys;
}

// Where two results first differ, with both values: "$.steps[2].loss: 1.5 and 1.25". Empty: nowhere.
inline std::string describe_difference(const Json& a, const Json& b, const std::string& at = "$") {
  if (a == b) return "";
  if (a.is_object() && b.is_object()) {
    for (const auto& [key, value] : a.as_object()) {
      const Json* other = b.find(key);
      if (!other) return at + "." + key + " is missing";
      if (!(*other == value)) return describe_difference(value, *other, at + "." + key);
    }
    return at + " has more keys";
  }
  if (a.is_array() && b.is_array() && a.size() == b.size()) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!(a.at(i) == b.at(i))) return describe_difference(a.at(i), b.at(i), concat(at, "[", i, "]"));
    }
  }
  return at + ": " + a.dump() + " and " + b.dump();
}

// A rejection must name the key, so that a reader knows what to change.
inline void expect_setting_acts(const SettingProbe& probe, const Json& without, const Observer& observe) {
  SCOPED_TRACE(concat(probe.key, " = ", probe.value.dump(), " beside ", probe.beside.dump()));
  Json settings = probe.beside;
  settings[probe.key] = probe.value;
  try {
    const Json with = observe(settings);
    EXPECT_NE(describe_difference(without, with), "") << "the setting has no observable effect, and is not rejected";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(probe.key.substr(probe.key.rfind('.') + 1)), std::string::npos)
        << "the error does not name the setting: " << error.what();
  }
}

// Every key has a probe, every probe a key, and each has an effect or is rejected by name. An observer that gives two
// results for the same settings fails too: with it every setting would seem to have an effect.
inline void expect_every_setting_acts(const std::vector<std::string>& keys, const std::vector<SettingProbe>& probes,
                                      const Observer& observe) {
  const std::set<std::string> known(keys.begin(), keys.end());
  std::set<std::string> probed;
  for (const SettingProbe& probe : probes) {
    probed.insert(probe.key);
    EXPECT_TRUE(known.contains(probe.key)) << "a probe for \"" << probe.key << "\", which is not a setting";
  }
  for (const std::string& key : known) {
    EXPECT_TRUE(probed.contains(key)) << "the setting \"" << key << "\" has no probe: add one that shows what it does";
  }
  std::map<std::string, Json> without;
  for (const SettingProbe& probe : probes) {
    const std::string beside = probe.beside.dump();
    try {
      if (!without.contains(beside)) {
        without[beside] = observe(probe.beside);
        EXPECT_EQ(describe_difference(without[beside], observe(probe.beside)), "") << "two results for " << beside;
      }
    } catch (const Error& error) {
      ADD_FAILURE() << "the settings next to " << probe.key << " are rejected: " << beside << ": " << error.what();
      continue;
    }
    expect_setting_acts(probe, without[beside], observe);
  }
}

}  // namespace easydel::testing_support
