#include "easydel/io/hub/hub_repo.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <map>

#include "easydel/core/error.h"

namespace easydel {

namespace {

constexpr std::array<std::string_view, 3> kTypeNames = {"model", "dataset", "space"};

bool is_alphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = text.find_first_of(separators);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool matches(const std::string& pattern, const std::string& path) {
  return fnmatch(pattern.c_str(), path.c_str(), FNM_NOESCAPE) == 0;
}

// What a loader reads besides the weights.
bool is_model_description(const std::string& path) {
  constexpr std::array kPatterns = {"*.json", "*.model", "*.txt", "*.jinja", "*.tiktoken"};
  if (path.find('/') != path.npos) {
    return (path.starts_with("additional_chat_templates/") && path.ends_with(".jinja")) ||
           path == "1_Pooling/config.json";  // of sentence-transformers
  }
  return std::any_of(kPatterns.begin(), kPatterns.end(), [&](const char* p) { return matches(p, path); });
}

// Many repositories contain the same weights twice, in other formats or folders; the first rule that matches wins.
std::vector<HubFile> model_weights(const std::vector<HubFile>& all) {
  constexpr std::array<std::array<const char*, 2>, 4> kRules = {{
      {"model.safetensors", "model-[0-9]*-of-[0-9]*.safetensors"},
      {"*.safetensors", ""},
      {"pytorch_model.bin", "pytorch_model-[0-9]*-of-[0-9]*.bin"},
      {"adapter_model.bin", ""},
  }};
  std::vector<HubFile> found;
  for (const auto& rule : kRules) {
    for (const HubFile& file : all) {
      if (file.path.find('/') == file.path.npos && (matches(rule[0], file.path) || matches(rule[1], file.path))) {
        found.push_back(file);
      }
    }
    if (!found.empty()) return found;
  }
  return found;
}

[[noreturn]] void fail_no_such_file(const std::vector<HubFile>& all, const std::string& name, const HubRepo& repo) {
  std::vector<std::string> names;
  names.reserve(all.size());
  for (const HubFile& file : all) names.push_back(file.path);
  std::string listed;
  for (std::size_t i = 0; i < names.size() && i < 8; ++i) listed += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > 8) listed += ", …";
  const std::string near = nearest_name(name, names);
  fail<IoError>("[hub] ", repo.text(), " has no file \"", name, "\"; it has ", names.size(),
                names.size() == 1 ? " file" : " files", names.empty() ? "" : ": ", listed, ".",
                near.empty() ? "" : " Did you mean \"" + near + "\"?");
}

}  // namespace

RepoType parse_repo_type(std::string_view name) {
  for (std::size_t i = 0; i < kTypeNames.size(); ++i) {
    if (name == kTypeNames[i]) return static_cast<RepoType>(i);
  }
  fail<ConfigError>("[hub] repo_type must be model, dataset or space; got \"", name, "\".");
}

std::string repo_type_name(RepoType type) { return std::string(kTypeNames[static_cast<std::size_t>(type)]); }

std::string HubRepo::folder_name() const {
  std::string name = repo_type_name(type) + "s";
  for (const std::string_view part : split(id, "/")) name += concat("--", part);
  return name;
}

std::string HubRepo::web_path() const { return type == RepoType::Model ? id : repo_type_name(type) + "s/" + id; }
std::string HubRepo::api_path() const { return concat("api/", repo_type_name(type), "s/", id); }
std::string HubRepo::text() const { return concat(repo_type_name(type), " \"", id, "\" at \"", revision, "\""); }

bool is_repo_id(std::string_view text) {
  if (text.empty() || text.size() > 96 || text.ends_with(".git")) return false;
  if (text.find("--") != text.npos || text.find("..") != text.npos) return false;
  const auto parts = split(text, "/");
  return parts.size() <= 2 && std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
           const auto plain = [](char c) { return is_alphanumeric(c) || c == '_'; };
           return !part.empty() && plain(part.front()) && plain(part.back()) &&
                  std::all_of(part.begin(), part.end(), [&](char c) { return plain(c) || c == '-' || c == '.'; });
         });
}

HubRepo make_hub_repo(const std::string& id, std::string_view type, const std::string& revision) {
  require<ConfigError>(is_repo_id(id),
                       "[hub] a repository must be \"name\" or \"org/name\", of letters, digits, \"-\", \"_\" "
                       "and \".\", at most 96 characters; got \"",
                       id, "\".");
  const auto parts = split(revision, "/");
  const bool plain =
      std::none_of(revision.begin(), revision.end(), [](unsigned char c) { return c <= ' ' || c == 127 || c == '\\'; });
  require<ConfigError>(plain && std::none_of(parts.begin(), parts.end(),
                                             [](auto part) { return part.empty() || part == "." || part == ".."; }),
                       "[hub] a revision must be a branch, a tag or a commit; got \"", revision, "\".");
  return {.id = id, .type = parse_repo_type(type), .revision = revision};
}

bool is_safe_file_name(std::string_view name) {
  if (name.empty() || name.find('\0') != name.npos || name.find(':') == 1) return false;
  const auto parts = split(name, "/\\");
  return std::none_of(parts.begin(), parts.end(),
                      [](std::string_view part) { return part.empty() || part == "." || part == ".."; });
}

bool is_hex(std::string_view text, std::size_t length) {
  return text.size() == length && text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool is_pattern(std::string_view name) { return name.find_first_of("*?[") != name.npos || name.ends_with('/'); }

std::vector<HubFile> select_files(const std::vector<HubFile>& all, const std::vector<std::string>& wanted,
                                  const HubRepo& repo) {
  std::map<std::string, HubFile> selected;
  const auto take = [&](const HubFile& file) { selected.emplace(file.path, file); };
  if (wanted.empty() && repo.type != RepoType::Model) {
    for (const HubFile& file : all) take(file);
  } else if (wanted.empty()) {
    for (const HubFile& file : all) {
      if (is_model_description(file.path)) take(file);
    }
    for (const HubFile& file : model_weights(all)) take(file);
  }
  for (const std::string& name : wanted) {
    const auto exact = std::find_if(all.begin(), all.end(), [&](const HubFile& file) { return file.path == name; });
    if (exact != all.end()) {
      take(*exact);
      continue;
    }
    if (!is_pattern(name)) fail_no_such_file(all, name, repo);
    const std::string pattern = name.ends_with('/') ? name + "*" : name;
    for (const HubFile& file : all) {
      if (matches(pattern, file.path)) take(file);
    }
  }
  if (selected.empty()) {
    if (!wanted.empty()) fail_no_such_file(all, wanted.front(), repo);
    fail<IoError>("[hub] ", repo.text(), " contains no model files, among ", all.size(),
                  " files. List the files to download: files = {\"*\"} takes all.");
  }
  std::vector<HubFile> files;
  files.reserve(selected.size());
  for (auto& [path, file] : selected) files.push_back(std::move(file));
  return files;
}

}  // namespace easydel
