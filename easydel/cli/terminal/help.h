// How --help looks: lines that fit the terminal, defaults in words, groups of options under headings.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

namespace CLI {
class FormatterBase;
}

namespace easydel::cli {

std::shared_ptr<CLI::FormatterBase> help_formatter();

// A footer for a subcommand's help. Each is a command line without the leading "easydel".
std::string help_examples(std::initializer_list<std::string_view> commands);

}  // namespace easydel::cli
