// What the options of reading, writing and converting checkpoint files do.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <array>
#include <span>

#include "easydel/core/files/file.h"
#include "easydel/io/checkpoint.h"
#include "easydel/io/checkpoint_writer.h"
#include "easydel/io/convert_checkpoint.h"
#include "easydel/io/torch/pickle.h"
#include "tests/io/pickle_builder.h"
#include "tests/support/probe.h"
#include "tests/support/temporary_directory.h"

namespace easydel::io_probes {
namespace {

using testing::HasSubstr;
using testing_support::is_refused;
using testing_support::progress_of;

PROBE(SaveCheckpointOptions, max_shard_size) {
  const TemporaryDirectory directory;
  const NamedTensors tensors = {{"a", at::ones({64})}, {"b", at::zeros({64})}};
  EXPECT_EQ(save_checkpoint(directory / "one", tensors).size(), 1U);
  EXPECT_EQ(save_checkpoint(directory / "two", tensors, {.max_shard_size = "300B"}).size(), 3U);  // and the index
  EXPECT_TRUE(
      is_refused("max_shard_size", [&] { save_checkpoint(directory / "x", tensors, {.max_shard_size = "0B"}); }));
}

PROBE(SaveCheckpointOptions, metadata) {
  const TemporaryDirectory directory;
  const NamedTensors tensors = {{"a", at::ones({64})}, {"b", at::zeros({64})}};
  save_checkpoint(directory / "one", tensors, {.metadata = {{"author", "me"}}});
  EXPECT_THAT(read_file(directory / "one/model.safetensors"), HasSubstr(R"("author":"me")"));
  save_checkpoint(directory / "two", tensors, {.max_shard_size = "300B", .metadata = {{"author", "me"}}});
  const Json index = Json::parse_file((directory / "two/model.safetensors.index.json").string());
  EXPECT_EQ(index.at("metadata").at("author"), Json("me"));
}

// A file with a float32 weight, and where it goes.
struct Conversion {
  Conversion() { save_checkpoint(source, {{"weight", at::randn({16, 16})}, {"bias", at::randn({16})}}); }
  DType dtype_after(const ConvertOptions& options) const {
    convert_checkpoint(source, destination, options);
    return Checkpoint::open(destination)->info("weight").dtype;
  }

  const TemporaryDirectory directory;
  const std::filesystem::path source = directory / "source";
  const std::filesystem::path destination = directory / "destination";
};

PROBE(ConvertOptions, dtype) {
  EXPECT_EQ(Conversion().dtype_after({}), float32);
  EXPECT_EQ(Conversion().dtype_after({.dtype = bfloat16}), bfloat16);
  EXPECT_TRUE(is_refused("got int8", [] { Conversion().dtype_after({.dtype = int8}); }));
}

PROBE(ConvertOptions, max_shard_size) {
  const Conversion conversion;
  EXPECT_EQ(convert_checkpoint(conversion.source, conversion.destination, {.max_shard_size = "1000B"}).size(), 3U);
}

PROBE(ConvertOptions, show_progress) {
  EXPECT_EQ(progress_of([] { Conversion().dtype_after({}); }), "");
  EXPECT_THAT(progress_of([] { Conversion().dtype_after({.show_progress = true}); }), HasSubstr("converting"));
}

PROBE(ConvertOptions, overwrite) {
  const Conversion conversion;
  conversion.dtype_after({});
  EXPECT_TRUE(is_refused("overwrite", [&] { conversion.dtype_after({.dtype = bfloat16}); }));
  EXPECT_EQ(conversion.dtype_after({.dtype = bfloat16, .overwrite = true}), bfloat16);
}

PROBE(ConvertOptions, dequantize) {
  const Conversion conversion;
  write_file_atomically(conversion.source / "config.json", R"({"quantization_config": {"quant_method": "mine"}})");
  EXPECT_TRUE(is_refused("has packed weights", [&] { conversion.dtype_after({.dtype = bfloat16}); }));
  Json given;
  const auto dequantize = [&](std::shared_ptr<const Checkpoint> packed, const Json& config) {
    given = config;
    return std::shared_ptr<const TensorSource>(std::move(packed));
  };
  EXPECT_EQ(conversion.dtype_after({.dtype = bfloat16, .dequantize = dequantize}), bfloat16);
  EXPECT_EQ(given.at("quant_method"), Json("mine"));
}

void parse(const std::string& value, const PickleOptions& options) {
  const std::string bytes = pickled::whole(value);
  Pickle::parse(std::as_bytes(std::span(bytes)), options);
}

PROBE(PickleOptions, where) {
  EXPECT_TRUE(is_refused("[model.bin] the pickle ", [] { parse("", {.where = "model.bin"}); }));
}

PROBE(PickleOptions, globals) {
  const std::string call = pickled::call(pickled::global("some.module", "function"), {pickled::number(1)});
  EXPECT_TRUE(is_refused("function", [&] { parse(call, {}); }));
  static constexpr std::array<std::string_view, 1> kAllowed = {"some.module.function"};
  EXPECT_NO_THROW(parse(call, {.globals = kAllowed}));
}

PROBE(PickleOptions, max_objects) {
  const std::string nested = pickled::tuple({pickled::numbers({1}), pickled::numbers({2})});
  EXPECT_NO_THROW(parse(nested, {.max_objects = 10}));
  EXPECT_TRUE(is_refused("holds more than 2 objects", [&] { parse(nested, {.max_objects = 2}); }));
}

PROBE(PickleOptions, max_stack) {
  const std::string four = pickled::numbers({1, 2, 3, 4});
  EXPECT_NO_THROW(parse(four, {.max_stack = 4}));
  EXPECT_TRUE(is_refused("has more than 3 values on its stack", [&] { parse(four, {.max_stack = 3}); }));
}

PROBE(PickleOptions, max_memo) {
  const std::string remembered = pickled::number(1) + "q\x02";  // BINPUT 2
  EXPECT_NO_THROW(parse(remembered, {.max_memo = 3}));
  EXPECT_TRUE(is_refused("memo index out of range: 2", [&] { parse(remembered, {.max_memo = 2}); }));
}

PROBE(PickleOptions, max_depth) {
  const std::string nested = pickled::tuple({pickled::numbers({1})});
  EXPECT_NO_THROW(parse(nested, {.max_depth = 2}));
  EXPECT_TRUE(is_refused("nests deeper than 1 levels", [&] { parse(nested, {.max_depth = 1}); }));
}

}  // namespace
}  // namespace easydel::io_probes
