// Prints what grammar_peer_test.py compares with Python's packages.
// usage: grammar_program tokens DIRECTORY    for each token: whether it is special, and its bytes in hexadecimal
//        grammar_program answers COUNT       reads a JSON schema; prints random answers as a list of strings
#include <iostream>
#include <iterator>

#include "easydel/core/error.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/tokenizers/token_bytes.h"
#include "grammar_fixture.h"

using namespace easydel;

namespace {

void print_tokens(const char* directory) {
  const AutoTokenizer tokenizer = AutoTokenizer::from_directory(directory);
  const TokenBytes bytes_of(*tokenizer);
  constexpr char kDigits[] = "0123456789abcdef";
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
    std::cout << (tokenizer->is_special(id) ? "1 " : "0 ");
    for (const char c : bytes_of(id).value_or("")) {
      const auto byte = static_cast<unsigned char>(c);
      std::cout << kDigits[byte / 16] << kDigits[byte % 16];
    }
    std::cout << '\n';
  }
}

void print_answers(int count) {
  const std::string schema{std::istreambuf_iterator<char>(std::cin), {}};
  const serve::test::GrammarWorld world;
  const auto grammar = world.compile(serve::GrammarSpec::Kind::JsonSchema, schema);
  std::mt19937 random(11);
  Json answers = Json::array();
  for (int i = 0; i < count; ++i) {
    const auto drawn = serve::test::draw(world, *grammar, random);
    if (drawn.ended) answers.push_back(drawn.text);
  }
  std::cout << answers.dump() << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    if (std::string_view(argv[1]) == "tokens") {
      print_tokens(argv[2]);
    } else {
      print_answers(std::atoi(argv[2]));
    }
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
