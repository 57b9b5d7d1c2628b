// Adapters on a model from files: lora_program JOB.json. Keys, all but model optional: adapters (directories, loaded as
// a0, a1, …), quantize (a method), set (names and weights), combine {type, weights}, apply {rank, alpha, pattern,
// rslora, dora, init, dropout, embeddings}, input (a batch), steps and rate (of AdamW), merge, mesh (axis sizes, on
// thread ranks), save (a directory), config (changes of the model's). Writes logits, loss, gradients and losses into
// output.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "easydel/core/error.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/state/state.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/io/safetensors/safetensors_writer.h"
#include "easydel/lora/lora.h"
#include "easydel/optim/optimizers.h"
#include "easydel/quantization/quantize.h"
#include "tests/support/job_program.h"

namespace easydel {
namespace {

std::vector<std::pair<std::string, double>> weights_in(const Json& json) {
  std::vector<std::pair<std::string, double>> weights;
  for (const auto& [name, weight] : json.as_object()) weights.emplace_back(name, weight.as_double());
  return weights;
}

void apply(BaseModule& model, const Json& json) {
  LoraOptions options;
  const auto flag = [&](const char* key) { return json.contains(key) && json.at(key).as_bool(); };
  options.rslora = flag("rslora");
  options.dora = flag("dora");
  if (json.contains("dropout")) options.dropout = json.at("dropout").as_double();
  if (flag("random")) options.init = LoraInit::Random;
  if (const Json* init = json.find("init"))
    options.init = init->as_string() == "pissa" ? LoraInit::Pissa : LoraInit::Olora;
  options.embeddings = flag("embeddings");
  if (json.contains("modules_to_save")) options.modules_to_save.push_back(json.at("modules_to_save").as_string());
  model.apply_lora_to_layers(json.at("rank").as_int(), json.at("alpha").as_double(), json.at("pattern").as_string(),
                             options);
}

ModelInputs read_batch(const std::string& path) {
  const auto file = SafetensorsFile::open(path);
  ModelInputs inputs;
  inputs.input_ids = file->tensor("input_ids");
  if (file->contains("attention_mask")) inputs.attention_mask = file->tensor("attention_mask");
  inputs.labels = file->tensor("labels");
  return inputs;
}

at::Tensor whole(const BaseModule& model, const std::string& path, const at::Tensor& part) {
  for (const auto& [own, parameter] : model.named_parameters()) {
    if (own == path) return parameter->sharding() ? parameter->sharding()->gather_whole(part) : part;
  }
  fail<Error>("no ", path);
}

void run(const Json& job, const std::optional<Mesh>& mesh, bool writes) {
  const Json* changes = job.find("config");
  const Json* dtype = job.find("dtype");
  const DType type = parse_dtype(dtype ? dtype->as_string() : "fp32");
  const auto model =
      load_model(job.at("model").as_string(), TaskType::AutoBind,
                 {.dtype = type, .param_dtype = type, .config_kwargs = changes ? *changes : Json(), .verbose = false});
  if (const Json* method = job.find("quantize")) model->quantize({.method = method->as_string(), .group_size = 0});
  const bool shard_late = job.contains("shard_late");
  if (mesh && !shard_late) model->shard_model({}, *mesh);
  if (const Json* adapters = job.find("adapters")) {
    for (std::size_t i = 0; i < adapters->size(); ++i)
      load_adapter(*model, adapters->at(i).as_string(), concat("a", i));
  }
  if (const Json* options = job.find("apply")) apply(*model, *options);
  if (const Json* combined = job.find("combine"))
    add_weighted_adapter(*model, weights_in(combined->at("weights")), "combined", combined->at("type").as_string());
  if (const Json* active = job.find("set")) set_adapters(*model, weights_in(*active));
  if (mesh && shard_late) job.contains("fully_shard") ? model->fully_shard(*mesh) : model->shard_model({}, *mesh);
  if (job.contains("merge")) model->merge_lora_params();

  NamedTensors out;
  if (const Json* input = job.find("input")) {
    ModelInputs batch = read_batch(input->as_string());
    batch.output_logits = true;
    State state = model->to_state();
    if (job.contains("dropout_key")) batch.dropout_key = RandomKey(7);
    const auto loss_of = [&](const BaseModule& m) { return m(batch).loss; };
    if (job.contains("weights")) {
      for (const auto& [path, parameter] : model->named_parameters())
        out.emplace_back(path, parameter->whole().clone());
    }
    if (!job.contains("merge")) {
      const auto [loss, grads] = value_and_grad(state, loss_of);
      for (const auto& [path, grad] : grads) out.emplace_back("grad." + path, whole(*model, path, grad).clone());
    }
    {
      const at::NoGradGuard no_grad;
      const ModelOutput forward = (*model)(batch);
      out.emplace_back("logits", forward.logits);
      out.emplace_back("loss", forward.loss.reshape({1}));
    }
    if (const Json* steps = job.find("steps")) {
      state = state.init_tx(optim::adamw({.learning_rate = job.at("rate").as_double(), .weight_decay = 0.01}));
      std::vector<double> losses;
      batch.output_logits = false;
      for (int64_t i = 0; i < steps->as_int(); ++i) {
        auto [loss, grads] = value_and_grad(state, loss_of);
        losses.push_back(loss.item<double>());
        state = std::move(state).apply_gradients(std::move(grads));
      }
      out.emplace_back("losses", at::tensor(losses, at::kDouble));
      out.emplace_back("optimizer_leaves", at::tensor(static_cast<int64_t>(state.opt_state->leaves().size())));
      model->merge_params(state.graphstate);
    }
  }
  if (const Json* save = job.find("save"))
    save_adapter(*model, save->as_string(), job.contains("combine") ? "combined" : adapter_names(*model)[0]);
  if (writes && !out.empty()) save_safetensors(job.at("output").as_string(), out);
}

}  // namespace

int main_of(int argc, char** argv) { return testing_support::run_job(argc, argv, "lora_program", run); }

}  // namespace easydel

int main(int argc, char** argv) { return easydel::main_of(argc, argv); }
