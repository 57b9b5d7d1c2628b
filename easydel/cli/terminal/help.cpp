#include "easydel/cli/terminal/help.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <sstream>
#include <vector>

#include "easydel/core/error.h"

namespace easydel::cli {
namespace {

constexpr std::size_t kNameWidth = 32, kMinWidth = 72, kMaxWidth = 120;

std::size_t terminal_width() {
  winsize size{};
  if (!::isatty(STDOUT_FILENO) || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kMaxWidth;
  return std::clamp<std::size_t>(size.ws_col, kMinWidth, kMaxWidth);
}

// Characters, not bytes, of UTF-8.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Lines of at most `width` characters, broken at spaces.
std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines{""};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool is_first = lines.back().empty();
    if (!is_first && width_of(lines.back()) + 1 + width_of(word) > width) {
      lines.push_back(word);
    } else {
      lines.back() += (is_first ? "" : " ") + word;
    }
  }
  return lines;
}

// A name on the left and its description on the right, below the name if it is long.
std::string entry(const std::string& name, const std::string& description) {
  std::string out = "  " + name;
  const bool is_long = width_of(out) + 2 > kNameWidth;
  if (!is_long) out.append(kNameWidth - width_of(out), ' ');
  bool is_first = !is_long;
  for (const std::string& line : wrapped(description, terminal_width() - kNameWidth)) {
    if (!is_first) out += "\n" + std::string(kNameWidth, ' ');
    out += line;
    is_first = false;
  }
  return out + "\n";
}

// "INT:INT in [1 - 8]" is an INT: what a check accepts is in the description.
std::string type_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::string name = type.substr(0, type.find(':'));
  return name == "UINT" ? "INT" : name == "FLOAT" ? "NUMBER" : name;
}

bool is_general(const std::string& type) { return type == "TEXT" || type == "INT" || type == "NUMBER"; }

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode /*mode*/) const override {
    std::string out = make_description(app) + make_usage(app, std::move(name)) + make_positionals(app);
    const std::vector<std::string> groups = app->get_groups();
    out += make_group_of(app, "Options", "Options");
    for (const CLI::App* sub : app->get_subcommands({})) {
      if (!sub->get_name().empty() || sub->get_group().empty()) continue;
      const std::string& note = sub->get_description();
      out += make_group_of(sub, "Options", note.empty() ? sub->get_group() : concat(sub->get_group(), " (", note, ")"));
    }
    for (const std::string& group : groups)
      if (group != "Options" && !group.empty()) out += make_group_of(app, group, group);
    out += make_subcommands(app, CLI::AppFormatMode::Normal);
    return app->get_footer().empty() ? out : out + "\n" + make_footer(app);
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string description = make_option_desc(option);
    if (!option->get_default_str().empty()) description += concat(" (default: ", option->get_default_str(), ")");
    if (option->get_required() && !is_positional) description += " (required)";
    if (!option->get_envname().empty()) description += concat(" (environment: ", option->get_envname(), ")");
    std::string name = make_option_name(option, is_positional);
    if (!is_positional && option->get_type_size() != 0) {
      const std::string type = type_of(*option);
      const bool takes_several = option->get_expected_max() == CLI::detail::expected_max_vector_size;
      if (!type.empty()) name += concat(" ", type, takes_several && option->get_allow_extra_args() ? " ..." : "");
    }
    return entry(name, description);
  }

  // A positional has the name that stands for its value: SRC, MODEL.
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    if (is_positional) {
      const std::string type = type_of(*option);
      if (!is_general(type)) return type;
      std::string name = option->get_name(true, false);
      for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      return name;
    }
    std::string names;
    for (std::string name : CLI::detail::split(option->get_name(false, true), ',')) {
      name = name.substr(0, name.find('{'));  // --no-cache{false}
      names += concat(names.empty() ? "" : ", ", name);
    }
    return names;
  }

  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode /*mode*/) const override {
    std::string out;
    for (const CLI::App* sub : app->get_subcommands({}))
      if (!sub->get_name().empty()) out += entry(sub->get_name(), sub->get_description());
    return out.empty() ? "" : "\nSubcommands:\n" + out;
  }

  std::string make_description(const CLI::App* app) const override {
    std::string out;
    for (const std::string& line : wrapped(app->get_description(), terminal_width())) out += line + "\n";
    return out;
  }

 private:
  std::string make_group_of(const CLI::App* app, const std::string& group, const std::string& title) const {
    const std::vector<const CLI::Option*> options = app->get_options([&](const CLI::Option* option) {
      const bool is_repeated = app->get_name().empty() && option == app->get_help_ptr();  // a group has its own --help
      return option->get_group() == group && option->nonpositional() && !is_repeated;
    });
    return options.empty() ? "" : make_group(title, false, options);
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpFormatter>(); }

std::string help_examples(std::initializer_list<std::string_view> commands) {
  std::string out = commands.size() == 1 ? "Example:" : "Examples:";
  for (const std::string_view command : commands) out += concat("\n  easydel ", command);
  return out;
}

}  // namespace easydel::cli
