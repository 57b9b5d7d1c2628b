#include "easydel/serve/grammar/grammar_text.h"
#include "fuzz.h"

using namespace easydel;
using namespace easydel::serve;

// The first byte is the kind of grammar.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  return fuzz::refuse_or([&] {
    const auto kind =
        static_cast<GrammarSpec::Kind>(data[0] % (static_cast<int>(GrammarSpec::Kind::StructuralTag) + 1));
    const GrammarSpec spec{.kind = kind, .text = std::string(fuzz::as_text(data + 1, size - 1))};
    check_grammar(spec);
  });
}
