// easydel models: the model families in the registry, as a Markdown table.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/encoder/seq2seq_inputs.h"
#include "easydel/infra/files/text_part.h"
#include "easydel/infra/registry.h"
#include "easydel/layers/attention/attention.h"
#include "easydel/layers/attention/latent_attention.h"
#include "easydel/layers/recurrent/recurrent_mixer.h"

namespace easydel::cli {
namespace {

struct Family {
  std::string model_type;
  std::vector<std::pair<TaskType, std::string>> classes;
  bool rotary = false, learned = false, sinusoidal = false, relative = false, windows = false, experts = false,
       generates = false;
  bool has_encoder = false, images = false, attends = false, recurrent = false;
  std::vector<std::string> mesh_axes;
  std::string text_family;  // of a multimodal model: what its text part loads as
};

// The properties of a family, from a default config and a module built from it without weights.
Family describe(const std::string& model_type) {
  const Registry& registry = Registry::instance();
  Family family{.model_type = model_type};
  const auto config = registry.make_config(model_type, "[models] ");
  config->post_init();
  Json missing = Json::object();
  for (const FieldValue& field : config->describe()) {
    family.rotary |=
        field.key == "rope_parameters" || field.key == "rotary_dim" || field.value.contains("rope_parameters");
    family.relative |= field.key == "relative_attention_num_buckets";
    for (const char* key : {"sliding_window", "local_attention", "attention_chunk_size"})
      family.windows |= field.key == key;
    family.windows |= field.value.contains("sliding_window") && !field.value.at("sliding_window").is_null();
    // Some default configs lack them, and have no experts without them.
    for (const char* key : {"num_experts_per_tok", "n_routed_experts"}) {
      if (field.key == key && field.value.is_null()) missing[key] = 1;
    }
  }
  if (missing.size() > 0) config->update(missing);
  for (const TaskType task : registry.tasks(model_type)) {
    const auto module = registry.make_module(*config, task);
    family.classes.emplace_back(task, module->type_name());
    family.generates |= module->can_generate();
    const std::vector<std::string> inputs = module->extra_inputs();
    family.images |= std::find(inputs.begin(), inputs.end(), "pixel_values") != inputs.end();
    for (const auto& [path, part] : std::as_const(*module).named_modules()) {
      family.attends |= dynamic_cast<const Attention*>(part) || dynamic_cast<const LatentAttention*>(part);
      family.recurrent |= dynamic_cast<const RecurrentMixer*>(part) != nullptr;
    }
    family.has_encoder |= is_seq2seq(*module);
    for (const auto& [path, parameter] : module->named_parameters()) {
      const bool is_table = path.ends_with("wpe.weight") || path.ends_with("embed_positions.weight") ||
                            path.ends_with("position_embedding.weight") ||
                            path.ends_with("position_embeddings.weight") || path.ends_with("position_embeddings");
      (parameter->trainable ? family.learned : family.sinusoidal) |= is_table;
      for (const Dim& dim : parameter->dims) family.experts |= dim.axis == LogicalAxis::Expert;
    }
  }
  family.mesh_axes = {"dp", "fsdp", "tp", "sp"};
  if (family.images) family.mesh_axes.pop_back();  // patches stay together
  if (family.experts) family.mesh_axes.insert(family.mesh_axes.begin() + 2, "ep");
  return family;
}

// Multimodal model types load by their text part, beside what the registry has of them.
std::vector<Family> describe_all() {
  const Registry& registry = Registry::instance();
  std::vector<Family> families;
  for (const std::string& model_type : registry.model_types()) {
    families.push_back(describe(model_type));
    if (const TextPart* part = find_text_part(model_type)) families.back().text_family = part->text_type;
  }
  for (const std::string& model_type : text_part_types()) {
    const std::string text(find_text_part(model_type)->text_type);
    if (registry.has_config(model_type) || !registry.has_config(text)) continue;
    Family family = describe(text);
    family.model_type = model_type;
    family.text_family = text;
    std::erase_if(family.classes, [](const auto& entry) { return entry.first != TaskType::CausalLM; });
    families.push_back(std::move(family));
  }
  std::sort(families.begin(), families.end(),
            [](const Family& a, const Family& b) { return a.model_type < b.model_type; });
  return families;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

Json to_json(const Family& family) {
  Json classes = Json::object();
  for (const auto& [task, name] : family.classes) classes[task_name(task)] = name;
  Json axes = Json::array();
  for (const std::string& axis : family.mesh_axes) axes.push_back(axis);
  Json row = Json::object({{"model_type", family.model_type},
                           {"classes", std::move(classes)},
                           {"rotary", family.rotary},
                           {"relative", family.relative},
                           {"windows", family.windows},
                           {"experts", family.experts},
                           {"generates", family.generates},
                           {"recurrent", family.recurrent},
                           {"mesh_axes", std::move(axes)}});
  if (!family.text_family.empty()) row["text_family"] = family.text_family;
  return row;
}

std::vector<std::string> to_row(const Family& family) {
  std::vector<std::string> tasks;
  for (const auto& [task, name] : family.classes) tasks.push_back(task_name(task));
  if (!family.text_family.empty()) {
    std::erase(tasks, task_name(TaskType::CausalLM));
    tasks.push_back("causal-lm (text, as " + family.text_family + ")");
  }
  // Attention without positions may also be beside layers that know the order.
  const bool alibi = family.attends && !family.recurrent;
  return {"`" + family.model_type + "`",
          joined(tasks),
          family.rotary       ? "rotary"
          : family.relative   ? "relative"
          : family.learned    ? "learned"
          : family.sinusoidal ? "sinusoidal"
          : alibi             ? "ALiBi"
                              : "",
          family.windows ? "yes" : "",
          family.experts ? "yes" : "",
          !family.generates    ? ""
          : family.recurrent   ? "dense, recurrent"
          : family.has_encoder ? "dense"
                               : "dense, paged",
          joined(family.mesh_axes)};
}

void print_markdown(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 3);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < widths.size(); ++i)
      std::cout << "| " << rows[r][i] << std::string(widths[i] - rows[r][i].size() + 1, ' ');
    std::cout << "|\n";
    if (r > 0) continue;
    for (const std::size_t width : widths) std::cout << "|" << std::string(width + 2, '-');
    std::cout << "|\n";
  }
}

void run(bool json) {
  std::vector<std::vector<std::string>> rows{
      {"model_type", "tasks", "positions", "sliding window", "experts", "cache", "mesh axes"}};
  Json all = Json::array();
  for (const Family& family : describe_all()) {
    all.push_back(to_json(family));
    rows.push_back(to_row(family));
  }
  json ? print_json(all) : print_markdown(rows);
}

}  // namespace

void add_models_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("models", "List the supported model families, their tasks and features, as Markdown");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->callback([json] { run(*json); });
}

}  // namespace easydel::cli
