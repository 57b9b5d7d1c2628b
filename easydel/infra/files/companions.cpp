#include "easydel/infra/files/companions.h"

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/log.h"

namespace easydel {
namespace {

constexpr const char* kGenerationFile = "generation_config.json";
constexpr const char* kProcessorFiles[] = {"preprocessor_config.json", "processor_config.json"};

}  // namespace

Companions Companions::read(const std::filesystem::path& directory_or_gguf) {
  Companions found;
  const std::filesystem::path file = directory_or_gguf / kGenerationFile;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(file, ignored)) {
    found.generation_config = Json::parse_file(file.string());
    found.generation_config_file = file.string();
  }
  found.tokenizer = TokenizerFiles::read(directory_or_gguf);
  for (const char* name : kProcessorFiles) {
    if (std::filesystem::is_regular_file(directory_or_gguf / name, ignored))
      found.processor[name] = read_file(directory_or_gguf / name);
  }
  return found;
}

void Companions::write(const std::filesystem::path& directory) const {
  if (!generation_config.is_null())
    write_file_atomically(directory / kGenerationFile, generation_config.dump(2) + "\n");
  for (const auto& [name, content] : processor) write_file_atomically(directory / name, content);
  try {
    tokenizer.write(directory);
  } catch (const NotSupportedError& error) {  // of a GGUF file: the model is whole without it
    log::warning("[save_pretrained] the tokenizer is not written: ", error.what());
  } catch (const FormatError& error) {
    log::warning("[save_pretrained] the tokenizer is not written: ", error.what());
  }
}

}  // namespace easydel
