#include "easydel/core/json/json.h"
#include "fuzz.h"

using namespace easydel;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  return fuzz::refuse_or([&] {
    const Json value = Json::parse(fuzz::as_text(data, size));
    // NaN is not equal to itself, so the serialized texts are compared, not the values.
    const std::string written = value.dump();
    if (Json::parse(written).dump() != written) fuzz::found("a value does not survive being written and read");
    if (Json::parse(value.dump(2)).dump() != written) fuzz::found("indentation changes a value");
  });
}
