// Encodes the lines of a file with a tokenizer.json, repeatedly; tokenizer_bench.py compares it with the tokenizers
// package. usage: tokenizer_bench TOKENIZER LINES THREADS ROUNDS ids|offsets   (LINES: a JSON string a line)
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

#include "easydel/core/json/json.h"
#include "easydel/tokenizers/files/json_tokenizer.h"

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  if (argc != 6) {
    std::cerr << "usage: tokenizer_bench TOKENIZER LINES THREADS ROUNDS ids|offsets\n";
    return 2;
  }
  const auto start = Clock::now();
  const auto tokenizer = easydel::JsonTokenizer::from_file(argv[1]);
  const double load = std::chrono::duration<double>(Clock::now() - start).count();
  std::vector<std::string> texts;
  std::ifstream file(argv[2]);
  for (std::string line; std::getline(file, line);) texts.push_back(easydel::Json::parse(line).as_string());
  const easydel::EncodeOptions options{.offsets = std::string(argv[5]) == "offsets"};
  double best = 1e30;
  std::size_t tokens = 0;
  for (int round = 0; round < std::atoi(argv[4]); ++round) {
    const auto begin = Clock::now();
    const auto batch = tokenizer->encode_batch(texts, options, std::atoi(argv[3]));
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    tokens = 0;
    for (const auto& encoding : batch) tokens += encoding.size();
  }
  std::printf("{\"seconds\": %.6f, \"tokens\": %zu, \"load_seconds\": %.4f}\n", best, tokens, load);
}
